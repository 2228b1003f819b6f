"""A generated stream in segments: from which row on which knobs hold, and how times and keys go on there.

A stream whose knobs were changed while it ran is a row of segments. Each begins at a row, at an event time that
is not before the last row's, and says where its keys count from; so every row stays a pure function of its
segment and its offset. Which segment a batch has is in the batch's offset (generator_stream.py), that is in
Spark's own log before any of its rows is made. Not here: files and clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from engine.hashing import I64
from engine.sources.knobs import KEY_KNOBS, LIVE, Knobs, read_knobs

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Turns:
    """Fresh keys after a change: ranges go by time, so that streams which turn to new keys together still do,
    whatever becomes of one's rate. The faster one has each key more often."""

    seconds: float  # that a range lasts
    stride: int  # numbers from the first key of a range to the first of the next
    keys: int  # of them, dealt
    number: int  # of the range in which the segment begins
    place: float  # rows of that range that would have been before

    def places(self, rate: float, rows: I64) -> tuple[I64, I64]:
        """Of the segment's rows, counted from its first: the range, and the place within it."""
        size = self.size(rate)
        turn = np.floor((rows + self.place) / size)
        first = np.ceil(turn * size - self.place).astype(np.int64)
        place = np.clip(rows - first, 0, int(np.ceil(size)) - 1)
        return turn.astype(np.int64) + self.number, place

    def size(self, rate: float) -> float:
        """Rows in a range; not always a whole number."""
        return max(1.0, rate * self.seconds)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows from `start` on. `base_us`: how long after row 0 they begin in event time; `keys_from`: the row from
    which keys are dealt and classes take turns; `at_us`: when the change was asked for, 0 for none."""

    knobs: Knobs
    at_us: int = 0
    start: int = 0
    base_us: int = 0
    keys_from: int = 0
    turns: Turns | None = None

    def pack(self, options: Options) -> dict[str, Any]:
        """As an offset carries it: with the options, not the knobs, as those are for people to read too."""
        body = {name: getattr(self, name) for name in ("at_us", "start", "base_us", "keys_from")}
        turns = {"turns": asdict(self.turns)} if self.turns else {}
        return {**body, **turns, "options": dict(options)}

    @staticmethod
    def unpack(raw: Mapping[str, Any], fixed: Options) -> Segment:
        """`fixed`: the options that do not change while a query runs."""
        body = {name: raw[name] for name in ("at_us", "start", "base_us", "keys_from")}
        turns = Turns(**raw["turns"]) if "turns" in raw else None
        return Segment(read_knobs({**fixed, **raw["options"]}), **body, turns=turns)


def live_of(options: Options) -> dict[str, str]:
    """Those options that may change while a query runs."""
    return {name: str(text) for name, text in options.items() if name.lower() in LIVE}


def fixed_of(options: Options) -> dict[str, str]:
    """The others."""
    return {name: str(text) for name, text in options.items() if name.lower() not in LIVE}


def following(
    before: Segment, knobs: Knobs, *, at_us: int, start: int, base_us: int, past: float, anew: bool
) -> Segment:
    """The segment that begins at row `start`. `past`: seconds since that row's interval began; `anew`: the query
    file itself was edited, so fresh keys are as if it had always been like that."""
    same = _same_keys(before.knobs, knobs)
    keys_from = before.keys_from if same else start
    turns = None
    if knobs.fresh_keys:
        keys_from = 0
        turns = None if anew else _turns(before, knobs, start, past)
    return Segment(knobs, at_us, start, base_us, keys_from, turns)


def _same_keys(one: Knobs, other: Knobs) -> bool:
    """Do the same rows have the same keys?"""
    names = KEY_KNOBS if one.skew == other.skew == 1 else (*KEY_KNOBS, "rate")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _turns(before: Segment, knobs: Knobs, start: int, past: float) -> Turns:
    """Where the ranges are by then, and how they go on."""
    turns = before.turns or replace(first_turns(before.knobs), place=float(before.start))
    rows = turns.place + start - before.start
    done = turns.number + rows / turns.size(before.knobs.rate) + past / turns.seconds
    number = int(done)
    place = (done - number) * turns.size(knobs.rate)
    keys = min(keys_dealt(knobs), turns.stride)
    return replace(turns, keys=keys, number=number, place=place)


def first_turns(knobs: Knobs) -> Turns:
    """Of the stream as the query file has it."""
    keys = keys_dealt(knobs)
    return Turns(keys * knobs.join_ratio / knobs.rate, keys, keys, 0, 0.0)


def keys_dealt(knobs: Knobs) -> int:
    """Distinct keys in a range of fresh ones."""
    assert knobs.tuple_range is not None
    return max(1, knobs.tuple_range // knobs.join_ratio)
