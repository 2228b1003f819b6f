"""Which of axe's findings count."""

from __future__ import annotations

SERIOUS = ("serious", "critical")
