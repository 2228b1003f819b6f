"""How many examples properties get whose every example is the whole life of a query: a tenth of a second to a second each.

A few in `make test`, always the same ones; fifty other ones in `make fuzz`, thousands in `make chaos`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import settings

FEW = 15


def lives(few: int = FEW, most: int = 10**6) -> Callable[[Any], Any]:
    """Over `@given`. `most`: whatever the profile says, where an example takes seconds."""
    profile = settings.get_current_profile_name()
    if profile == "default" and "HYPOTHESIS_MAX_EXAMPLES" not in os.environ:
        return settings(max_examples=few)
    return settings(max_examples=min(most, settings().max_examples))
