"""Segments of a generated stream that is changed while it runs: the same rows again, at the rates asked for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sources import generator_stream
from engine.sources.generator_stream import Offset, Source, Span, plan
from engine.sources.schedule import class_of_key
from engine.sources.workload import Change
from tests.engine.sources.segments import BEGUN, START, S, made, table, times

# What each kind of stream may be changed to, at random.
RATES = st.sampled_from(["0.5", "3", "50", "333.3", "1000", "20000"])
DRAWN = st.fixed_dictionaries(
    {},
    optional={
        "rate": RATES,
        "zipf": st.sampled_from(["0", "0.8", "2"]),
        "keys": st.sampled_from(["1", "7", "500"]),
        "shift": st.integers(0, 900).map(str),
        "null_keys": st.sampled_from(["0", "0.3"]),
        "arrivals": st.sampled_from(["even", "poisson"]),
        "catch_up": st.sampled_from(["1 s", "10 s"]),
        "rows_per_tick": st.sampled_from(["10", "100000"]),
    },
)
DEALT = st.fixed_dictionaries(
    {}, optional={"rate": RATES, "tuple_range": st.sampled_from(["30", "90"]),
                  "join_ratio": st.sampled_from(["1", "3"])}
)  # fmt: skip
TURNS = st.fixed_dictionaries(
    {}, optional={"rate": RATES, "skew": st.sampled_from(["1", "5"]), "shift": st.sampled_from("012"),
                  "skew_period": st.sampled_from(["100 ms", "3 s"])}
)  # fmt: skip
FRESH = st.fixed_dictionaries(
    {}, optional={"rate": RATES, "join_ratio": st.sampled_from(["2", "4"])}
)
KINDS: list[tuple[dict[str, str], st.SearchStrategy[dict[str, str]]]] = [
    ({"keys": "100", "zipf": "1"}, DRAWN),
    ({"tuple_range": "60", "join_ratio": "2"}, DEALT),
    ({"classes": "3", "keys": "60", "groups": "12"}, TURNS),
    ({"tuple_range": "600", "join_ratio": "2", "fresh_keys": "true"}, FRESH),
    (
        {"tuple_range": "600", "join_ratio": "2", "fresh_keys": "true", "classes": "3"},
        st.fixed_dictionaries(
            {},
            optional={
                "rate": RATES,
                "zipf": st.sampled_from(["0", "1"]),
                "skew": st.sampled_from(["1", "5"]),
                "shift": st.sampled_from("012"),
            },
        ),
    ),
    ({"preset": "prices", "tuple_range": "600", "join_ratio": "2", "fresh_keys": "true"}, FRESH),
]


@dataclass
class Life:
    """A stream by a clock that is set: the batches that were planned, and what was asked for by then."""

    source: Source
    now: int = BEGUN
    at: Offset = field(default_factory=dict)
    batches: list[tuple[Offset, Offset]] = field(default_factory=list)

    @staticmethod
    def of(options: Mapping[str, str]) -> Life:
        life = Life(Source.of({"start": START, **options}))
        life.at = generator_stream.initial_offset(life.source.first.knobs, life.now)
        return life

    def ask(self, **options: str) -> None:
        last = self.source.changes[-1]
        made = Change(max(self.now, last.at_us + 1), {**last.options, **options}, options)
        self.source = replace(self.source, changes=(*self.source.changes, made))

    def tick(self, wait_us: int) -> int:
        """Rows of one more batch; 0 where nothing was due."""
        self.now += wait_us
        end = plan(self.source, self.at, self.now, paced=True)
        if end == self.at:
            return 0
        end = json.loads(json.dumps(end))  # through Spark's log
        self.batches.append((self.at, end))
        self.at = end
        return int(end["rows"] - self.batches[-1][0]["rows"])

    def rows(self) -> pa.Table:
        return pa.concat_tables([made(self.source, *batch) for batch in self.batches])


@st.composite
def lives(draw: st.DrawFn) -> Life:
    options, changes = draw(st.sampled_from(KINDS))
    life = Life.of({"rate": "300", **options})
    for _ in range(draw(st.integers(1, 8))):
        for asked in draw(st.lists(changes, max_size=2)):
            life.now += draw(st.integers(0, S))
            life.ask(**asked)
        life.tick(draw(st.integers(0, 3 * S)))
    return life


# -- rows ---------------------------------------------------------------------------------------------


@given(lives(), st.integers(1, 5))
def test_a_replay_gives_the_same_rows_whatever_was_asked_since(life: Life, tasks: int) -> None:
    """A batch that has changes in it carries them; one without is as the stream began."""
    first = [made(life.source, *batch) for batch in life.batches]
    life.ask(rate="77", null_keys="0.9")
    later = replace(life.source, changes=(life.source.changes[0], life.source.changes[-1]))
    for (start, end), rows in zip(life.batches, first, strict=True):
        assert made(later, start, end, tasks).combine_chunks() == rows.combine_chunks()


@given(lives())
def test_no_row_is_lost_and_time_goes_on(life: Life) -> None:
    rows = life.rows() if life.batches else None
    if rows is None:
        return
    assert rows.num_rows == life.at["rows"]
    if "v" in rows.column_names:
        assert rows["v"].to_pylist() == list(range(rows.num_rows))
    assert (np.diff(times(rows)) >= 0).all()
    assert times(rows)[-1] <= life.now - BEGUN + 3 * S, "not far ahead of the clock"


@given(lives(), st.data())
def test_any_cut_gives_the_same_rows(life: Life, data: st.DataObject) -> None:
    for start, end in life.batches:
        whole = made(life.source, start, end, 1)
        cut = data.draw(st.integers(start["rows"], end["rows"]))
        segments = life.source.segments(end)
        bounds = [start["rows"], cut, end["rows"]]
        parts = [Span(a, b, end["epoch"], segments) for a, b in pairwise(bounds)]
        rows = pa.concat_tables([table([p]) for p in parts if p.start < p.stop])
        assert rows.combine_chunks() == whole.combine_chunks()


# -- rates --------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(RATES, st.integers(0, 3 * S)), min_size=1, max_size=6),
    st.lists(st.integers(1, 2 * S), min_size=1, max_size=30),
)
def test_rates_are_those_asked_for(asked: list[tuple[str, int]], waits: list[int]) -> None:
    """Up to one row for each change: no burst, no stall, whenever the ticks come."""
    life = Life.of({"rate": "100", "rows_per_tick": "10000000"})
    due, rate, since = 0.0, 100.0, life.now
    left = list(asked)
    for wait in waits:
        while left and left[0][1] < wait:
            text, after = left.pop(0)
            life.now += after
            wait -= after
            due, rate, since = due + (life.now - since) / S * rate, float(text), life.now
            life.ask(rate=text)
        life.tick(wait)
        come = due + (life.now - since) / S * rate
        assert come - 2 - len(asked) <= life.at["rows"] <= come + 1
    if life.batches:
        seen = times(life.rows())
        assert seen[-1] <= life.now - BEGUN, "event time is not ahead of the clock"


def test_a_slow_stream_made_fast_does_not_burst() -> None:
    life = Life.of({"rate": "0.01", "catch_up": "10 s"})
    life.tick(9 * S)
    life.ask(rate="10000")
    assert life.tick(S // 10) == 1000, "of the wait before nothing is made up for"
    assert life.tick(S) == 10_000


def test_a_fast_stream_made_slow_has_come_so_far() -> None:
    life = Life.of({"rate": "10000"})
    life.tick(S)
    life.now += S // 2
    life.ask(rate="2")
    assert life.tick(S) == 5000 + 2
    assert times(life.rows())[-3:].tolist() == [1_499_900, 1_500_000, 2_000_000]


def test_what_was_due_before_a_change_comes_before_it_in_limited_batches() -> None:
    life = Life.of({"rate": "1000", "rows_per_tick": "400"})
    life.now += S
    life.ask(rate="10")
    assert [life.tick(0) for _ in range(4)] == [400, 400, 200, 0]
    assert life.tick(S) == 10


def test_the_limit_of_a_batch_changes_too() -> None:
    life = Life.of({"rate": "1000", "rows_per_tick": "100"})
    assert life.tick(S) == 100
    life.ask(rows_per_tick="5000", rate="2000")
    assert life.tick(0) == 100, "there was more than that before the change"
    for _ in range(8):
        life.tick(0)
    assert life.tick(S) == 2000


def test_unpaced_streams_change_with_the_next_batch() -> None:
    source = Source.of({"pace": "unpaced", "rows_per_tick": "10", "rows": "25", "start": START})
    start = generator_stream.initial_offset(source.first.knobs, 5)
    one = plan(source, start, 6, paced=False)
    asked = Change(7, {"rows_per_tick": "4", "rate": "1"}, {})
    source = replace(source, changes=(*source.changes, asked))
    two = plan(source, one, 8, paced=False)
    assert [one["rows"], two["rows"]] == [10, 14]
    assert np.diff(times(made(source, one, two))).tolist() == [S] * 3


# -- keys ---------------------------------------------------------------------------------------------


def keys(life: Life) -> list[int]:
    found: list[int] = life.rows()["k"].to_pylist()
    return found


@pytest.mark.parametrize("options", [{"keys": "50", "zipf": "1"}, {"tuple_range": "60"}])
def test_the_rate_alone_leaves_keys_as_they_are(options: dict[str, str]) -> None:
    steady, changed = Life.of(options), Life.of(options)
    for life in (steady, changed):
        life.tick(S // 2)
    changed.ask(rate="4000")
    for life in (steady, changed):
        life.tick(S)
    assert keys(changed)[:1500] == keys(steady)
    assert len(keys(changed)) == 4500


def test_zipf_and_shift_make_other_keys_hot() -> None:
    life = Life.of({"keys": "100", "rate": "10000"})
    ends = []
    for asked in ({}, {"zipf": "1.5"}, {"shift": "40"}):
        life.ask(**asked)
        life.tick(S)
        ends.append(life.at["rows"])
    rows = keys(life)
    hot = [Counter(rows[a:b]).most_common(1)[0] for a, b in pairwise([0, *ends])]
    assert hot[0][1] < 200 and hot[1][0] == 0 and hot[2][0] == 40
    assert min(hot[1][1], hot[2][1]) > 3000


def test_shift_lets_another_class_be_hot() -> None:
    life = Life.of(
        {"classes": "2", "skew": "9", "skew_period": "100 s", "keys": "40", "groups": "8"}
    )
    shares = []
    for asked in ({}, {"shift": "1"}):
        before = life.at["rows"]
        life.ask(**asked)
        life.tick(S)
        knobs = life.source.first.knobs
        of_batch = pa.array(keys(life)[before:])
        shares.append(float(class_of_key(knobs, of_batch).mean()))
    assert shares[0] == pytest.approx(0.1, abs=0.01) and shares[1] == pytest.approx(0.9, abs=0.01)


def test_a_join_ratio_holds_from_the_change_on() -> None:
    life = Life.of({"tuple_range": "60", "join_ratio": "2", "rate": "90"})
    life.tick(S)
    life.ask(join_ratio="5")
    life.tick(2 * S)
    after = keys(life)[90:]
    assert set(Counter(after[:60]).values()) == {5} == set(Counter(after[60:120]).values())
    assert after[:60] != after[60:120]


def test_a_running_stream_of_fresh_keys_is_skewed() -> None:
    """By a class of groups, then another one; each range has its own keys as before."""
    life = Life.of(
        {"tuple_range": "6000", "join_ratio": "4", "fresh_keys": "true", "rate": "2000"}
        | {"classes": "3", "groups": "24", "skew_period": "1000 s"}
    )
    shares = []
    for asked in ({}, {"skew": "8"}, {"shift": "2"}, {"skew": "1"}):
        before = life.at["rows"]
        life.ask(**asked)
        life.tick(6 * S)
        found = class_of_key(life.source.first.knobs, pa.array(keys(life)[before:]))
        shares.append(np.bincount(found, minlength=3) / len(found))
    assert np.ptp(shares[0]) < 0.1 > np.ptp(shares[3])
    assert shares[1].argmax() == 0 and shares[2].argmax() == 2
    assert min(shares[1].max(), shares[2].max()) == pytest.approx(0.8, abs=0.05)
    assert (np.array(keys(life)) // 1500 == times(life.rows()) // (3 * S)).mean() > 0.99


def test_streams_with_fresh_keys_go_on_meeting() -> None:
    """Rates change on one of them, at odd times; at any moment both have the same keys, each its ratio."""
    fast = Life.of({"tuple_range": "400", "join_ratio": "4", "fresh_keys": "true", "rate": "400"})
    slow = Life.of({"tuple_range": "100", "join_ratio": "1", "fresh_keys": "true", "rate": "100"})
    for rate in ("400", "1000", "200", "333.3"):
        fast.now += S // 3
        fast.ask(rate=rate)
        fast.tick(4 * S - S // 3)
        for _ in range(4):
            slow.tick(S)
    for life in (fast, slow):
        turn = times(life.rows()) // S
        of_turn = np.array(keys(life)) // 100
        assert np.abs(turn - of_turn).max() <= 1
        assert (turn == of_turn).mean() > 0.99
    counts = Counter(keys(fast))
    missed = set(keys(slow)) - set(counts)
    assert set(counts) <= set(keys(slow)) and len(missed) < 10, "but a few of ranges with a change"
    steady = [counts[key] for key in range(500, 700)]
    assert np.mean(steady) == pytest.approx(10, rel=0.02) and max(steady) - min(steady) <= 1
