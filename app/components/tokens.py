"""Colours for charts, read from assets/tokens.css: Plotly does not know var(--x), and draws it in its own blue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from app.errors import AppError

FILE = Path(__file__).resolve().parents[2] / "assets" / "tokens.css"
THEMES = ("light", "dark")
_TOKEN = re.compile(r"--([\w-]+):\s*([^;]+);")
_BOTH = re.compile(r"light-dark\(\s*([^,()]+(?:\([^)]*\))?)\s*,\s*([^,()]+(?:\([^)]*\))?)\s*\)")
_VAR = re.compile(r"var\(--([\w-]+)\)")


@cache
def tokens(theme: str) -> Mapping[str, str]:
    """Every token's value in one theme."""
    raw = dict(_TOKEN.findall(FILE.read_text(encoding="utf-8")))
    return {name: _resolved(raw, name, theme, 0) for name in raw}


def colour(theme: str, name: str, alpha: float | None = None) -> str:
    """A token as #rrggbb, or as rgba() with another opacity."""
    value = tokens(theme).get(name)
    if value is None:
        raise AppError(f"there is no token --{name}", where=str(FILE.name))
    if alpha is None:
        return value
    red, green, blue = (int(value[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def _resolved(raw: Mapping[str, str], name: str, theme: str, depth: int) -> str:
    if name not in raw or depth > 5:
        raise AppError(f"token --{name} leads nowhere", where=FILE.name)
    picked = _BOTH.sub(lambda found: found.group(1 + THEMES.index(theme)), raw[name]).strip()
    return _VAR.sub(lambda found: _resolved(raw, found.group(1), theme, depth + 1), picked)
