"""Colours that are read or told apart differ enough, in both themes: WCAG 2.2, 1.4.3 (text) and 1.4.11 (shapes).

axe looks at the pages themselves in one theme (tests/browser/test_access.py); what differs between themes is the tokens alone,
as no other file of styles names a colour.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.components.tokens import THEMES, tokens

ASSETS = Path(__file__).resolve().parents[2] / "assets"
TEXT, SHAPE = 4.5, 3.0
GROUNDS = ("bg-page", "bg-surface", "bg-sunken", "bg-raised", "bg-hover")
STATES = ("mem", "near", "disk", "held", "fail")
WORDS = ("text", "text-2", "text-3", "accent", "accent-hover", *(f"{name}-t" for name in STATES))
SHAPES = ("line-ctl", "focus", "accent", "ink-1", "ink-2", "mem", "disk", "held", "fail")
PAIRS = [
    *((word, ground, TEXT) for word in WORDS for ground in GROUNDS),
    *((f"{name}-t", f"{name}-s", TEXT) for name in STATES),
    *(("on-accent", ground, TEXT) for ground in ("accent", "accent-hover")),
    *((word, "accent-soft", TEXT) for word in ("text", "accent")),
    *((shape, "bg-surface", SHAPE) for shape in SHAPES),
]
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
USED = re.compile(r"(?:^|[;\s])(color|background(?:-color)?):\s*var\(--([\w-]+)\)\s*(?:;|$)")


def luminance(value: str) -> float:
    parts = [int(value[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def styles() -> list[tuple[str, str]]:
    """Every rule of every file of styles: its selector, and what it sets."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(ASSETS.glob("*.css")))
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [(selector.strip(), body) for selector, body in RULE.findall(plain)]


def test_contrast_is_what_wcag_says_it_is() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
def test_tokens_are_read_and_told_apart(theme: str) -> None:
    found = tokens(theme)
    low = {
        f"{one} on {other}: {contrast(found[one], found[other]):.2f} < {least}"
        for one, other, least in PAIRS
        if contrast(found[one], found[other]) < least
    }
    assert not low, "\n".join(sorted(low))


@pytest.mark.parametrize("theme", THEMES)
def test_what_a_rule_writes_on_its_own_ground_is_read(theme: str) -> None:
    found, low, pairs = tokens(theme), set(), 0
    for selector, body in styles():
        used = dict(USED.findall(body))
        word, ground = used.get("color"), used.get("background") or used.get("background-color")
        if not word or not ground or not all(found[n].startswith("#") for n in (word, ground)):
            continue
        pairs += 1
        if contrast(found[word], found[ground]) < TEXT:
            low.add(f"{selector}: {word} on {ground}")
    assert pairs > 10
    assert not low, "\n".join(sorted(low))


def test_only_tokens_name_a_colour() -> None:
    named = re.compile(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgba?|hsla?|light-dark)\(")
    for path in sorted(ASSETS.glob("*.css")):
        if path.name == "tokens.css":
            continue
        plain = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        bodies = [body for _, body in RULE.findall(plain)]
        assert not [found for body in bodies for found in named.findall(body)], path.name
