"""A query whose requests are refused."""

from __future__ import annotations

SQL = "SELECT a.v AS va, b.v AS vb FROM a JOIN b ON a.k = b.k"
