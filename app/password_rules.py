"""What a new password must be: long enough, and not made of what everybody tries first.

A password is taken apart into pieces that an attacker's list has (common words, the user's name, runs on the keyboard,
repetitions, years) and what is left. Each piece counts as two characters, however long it is; what is left counts as it
is. Nothing here knows a store or a network: the words were put together for Spillway.
"""

from __future__ import annotations

import re
from pathlib import Path

LENGTH_MIN = 12
LENGTH_MAX = 1_000
WEIGHT_MIN = 8  # what a password must count for, after its predictable pieces
PIECE_WEIGHT = 2
PIECE_MIN = 3  # shorter pieces are no pieces
RUN_MIN = 4  # of characters that follow each other: abcd, 4321, qwer

ROWS = (
    "1234567890",
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "qwertzuiop",
    "yxcvbnm",
    "azertyuiop",
    "qsdfghjklm",
    "wxcvbn",
    "q1w2e3r4t5y6u7i8o9p0",
    "1q2w3e4r5t6y7u8i9o0p",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
    "abcdefghijklmnopqrstuvwxyz",
    "!@#$%^&*()",
)
LEET = str.maketrans("@4301!$57+", "aaeoiisstt")

LINES = Path(__file__).with_name("common_words.txt").read_text("utf-8").splitlines()
WORDS = frozenset(word for line in LINES if not line.startswith("#") for word in line.split())
YEAR = re.compile(r"(?:19|20)\d\d")
REPEATED = re.compile(r"(.{1,12}?)\1+")


def password_fault(password: str, user: str = "") -> str:
    """What is wrong with a new password of this user; empty when nothing is."""
    if len(password) < LENGTH_MIN:
        return f"a password needs at least {LENGTH_MIN} characters"
    if len(password) > LENGTH_MAX:
        return f"a password may have {LENGTH_MAX} characters"
    if weight(password, user) < WEIGHT_MIN:
        return (
            "this password is among the first that are tried: it is made of common words, names, runs of keys, years or "
            "repetitions. Add words of your own"
        )
    return ""


def weight(password: str, user: str = "") -> int:
    """Characters that count: of the readings as written and as l33t, the one that an attacker would take."""
    text = password.lower()
    names = frozenset(part for part in re.split(r"[^a-z0-9]+", user.lower()) if part)
    own = frozenset({*names, user.lower()}) - {""}
    readings = (text, text.translate(LEET))
    return min(_weight(reading[:LENGTH_MAX], own) for reading in readings)


def _weight(text: str, own: frozenset[str]) -> int:
    """Predictable pieces are taken out, longest first, so that `password` is one and not `pass` and `word`."""
    repeated = REPEATED.fullmatch(text)
    if repeated is not None:
        return min(_weight(repeated[1], own) + PIECE_WEIGHT, len(text))
    left, pieces = _without_words(text, own)
    left, runs = _without_runs(left)
    left, years = YEAR.subn("\0", left)
    left, repeats = _without_repeats(left)
    rest = re.sub(r"[\s\0._-]+", "", left)
    return len(rest) + PIECE_WEIGHT * (pieces + runs + years + repeats)


def _without_words(text: str, own: frozenset[str]) -> tuple[str, int]:
    words = sorted((w for w in WORDS | own if len(w) >= PIECE_MIN and w in text), key=len)
    count = 0
    for word in reversed(words):
        count += word in text  # the same word again is as easily tried
        text = text.replace(word, "\0")
    return text, count


def _without_runs(text: str) -> tuple[str, int]:
    """Neighbours on a keyboard, in the alphabet or among digits, forwards or backwards."""
    count, at, kept = 0, 0, ""
    while at < len(text):
        length = _run_at(text, at)
        if length >= RUN_MIN:
            count, kept, at = count + 1, kept + "\0", at + length
        else:
            kept, at = kept + text[at], at + 1
    return kept, count


def _run_at(text: str, at: int) -> int:
    """How long the longest run is that begins here."""
    longest = 1
    for row in ROWS:
        for line in (row + row[:3], (row + row[:3])[::-1]):
            length = longest
            while at + length < len(text) and text[at : at + length + 1] in line:
                length += 1
            longest = length if text[at : at + length] in line else longest
    return longest


def _without_repeats(text: str) -> tuple[str, int]:
    """aaaa, abab, 121212: once is enough to know them."""
    count = 0

    def one(found: re.Match[str]) -> str:
        nonlocal count
        if len(found[0]) < RUN_MIN or found[1] == "\0":
            return found[0]
        count += 1
        return "\0"

    return REPEATED.sub(one, text), count
