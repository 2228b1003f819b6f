"""The generator's promises: replay, ranges and ratios, classes and skew, times, shares, messages."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from engine.errors import QueryFileError
from engine.plan.placement import even, weighted
from engine.query.file import read_query
from engine.sources import generator
from engine.sources.generator import batch, default_fields, stream_seed
from engine.sources.generator_stream import advance, initial_offset, rows_per_batch, spans
from engine.sources.knobs import OPTIONS, PRESETS, Knobs, read_knobs
from engine.sources.schedule import class_of_group, class_of_key, layout_of, permute
from engine.sources.segments import Segment

SHAPES: list[dict[str, str]] = [
    {},
    {"keys": "37", "zipf": "1.2", "null_keys": "0.2"},
    {"tuple_range": "600", "join_ratio": "3"},
    {"tuple_range": "600", "fresh_keys": "true"},
    {"tuple_range": "600", "fresh_keys": "true", "preset": "volumes"},
    {"tuple_range": "600", "fresh_keys": "true", "preset": "prices", "zipf": "1", "shift": "5"},
    {"tuple_range": "600", "fresh_keys": "true", "classes": "3", "skew": "5", "skew_period": "1 s"},
    {"tuple_range": "600", "join_ratios": "4,2,1", "groups": "30"},
    {"tuple_range": "600", "join_ratios": "4,1", "skew": "10", "skew_period": "700 ms"},
    {"classes": "3", "class_shares": "0.67,0.165,0.165", "keys": "100", "class_of": "contiguous"},
    {"classes": "4", "class_of": "node", "skew": "2.5", "skew_period": "0.1", "keys": "64"},
    {"arrivals": "poisson", "out_of_order": "0.3", "max_delay": "2 s", "rate": "333.3"},
    {"payload_bytes": "13", "columns": "id, at, n, blob"},
    *({"preset": preset, "keys": "500"} for preset in PRESETS),
]
OFFSETS = st.integers(0, 20_000) | st.integers(10**9, 10**9 + 5000)


@given(st.sampled_from(SHAPES), st.integers(0, 2**64 - 1), OFFSETS, st.data())
def test_any_cut_gives_the_same_rows(
    options: dict[str, str], seed: int, start: int, data: st.DataObject
) -> None:
    stop = start + data.draw(st.integers(0, 3000))
    cuts = sorted(data.draw(st.lists(st.integers(start, stop), max_size=4)))
    whole = batch(options, seed, start, stop)
    whole.validate(full=True)
    bounds = [start, *cuts, stop]
    parts = [batch(options, seed, a, b) for a, b in pairwise(bounds)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([whole])
    assert whole.schema.names == [field.name for field in default_fields(options)]


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_permute_is_one_to_one(size: int, seed: int) -> None:
    places = np.arange(size, dtype=np.int64)
    out = permute(places, size, np.full(size, seed, np.uint64))
    assert np.array_equal(np.sort(out), places)


@given(st.integers(1, 6), st.integers(1, 200), st.integers(0, 5), st.integers(0, 99))
def test_each_key_occurs_join_ratio_times_in_each_range(
    ratio: int, per_range: int, which: int, seed: int
) -> None:
    size = ratio * per_range
    options = {"tuple_range": str(size), "join_ratio": str(ratio)}
    one = _keys(options, seed, which * size, (which + 1) * size)
    assert Counter(one) == dict.fromkeys(range(per_range), ratio)
    assert Counter(one) == Counter(_keys(options, seed + 1, 0, size))


def test_the_next_range_and_the_next_stream_have_another_order() -> None:
    options = {"tuple_range": "1000", "join_ratio": "2"}
    orders = [_keys(options, 1, 0, 1000), _keys(options, 1, 1000, 2000), _keys(options, 2, 0, 1000)]
    assert len({tuple(order) for order in orders}) == 3


def test_fresh_keys_are_of_one_range_and_shared_by_streams() -> None:
    """Two streams of different rates meet, if their tuple ranges last equally long."""
    fast = {"tuple_range": "400", "join_ratio": "4", "fresh_keys": "true"}
    slow = {"tuple_range": "100", "join_ratio": "1", "fresh_keys": "True"}
    for turn in range(3):
        keys = Counter(_keys(fast, 1, 400 * turn, 400 * turn + 400))
        assert keys == dict.fromkeys(range(100 * turn, 100 * turn + 100), 4)
        assert keys.keys() == set(_keys(slow, 2, 100 * turn, 100 * turn + 100))


def test_skewed_fresh_keys_are_dealt_by_their_weights() -> None:
    """Another class is hot in each turn, and both streams agree on which keys are."""
    about = {"fresh_keys": "true", "classes": "4", "skew": "6", "groups": "64"}
    fast = {
        **about,
        "tuple_range": "20000",
        "join_ratio": "20",
        "rate": "2000",
        "skew_period": "20 s",
    }
    slow = {**about, "tuple_range": "5000", "join_ratio": "5", "rate": "500", "skew_period": "20 s"}
    shares = []
    for options, size in ((fast, 20_000), (slow, 5000)):
        for turn in range(4):
            keys = pa.array(_keys(options, turn, turn * size, turn * size + size))
            assert (
                pa.compute.min(keys).as_py() // 1000 == turn == pa.compute.max(keys).as_py() // 1000
            )
            classes = class_of_key(read_knobs(options), keys)
            shares.append(np.bincount(classes, minlength=4) / size)
    for turn, (one, other) in enumerate(zip(shares[:4], shares[4:], strict=True)):
        assert np.abs(one - other).max() < 0.01
        assert one[turn // 2] == pytest.approx(6 / 9, abs=0.06)


def test_zipf_of_fresh_keys() -> None:
    options = {
        "fresh_keys": "true",
        "tuple_range": "9000",
        "join_ratio": "9",
        "zipf": "1",
        "shift": "7",
    }
    for turn in range(2):
        counts = Counter(_keys(options, 3, turn * 9000, turn * 9000 + 9000))
        assert counts.most_common(1)[0][0] == turn * 1000 + 7
        first = 9000 / np.sum(1 / np.arange(1, 1001))
        assert counts[turn * 1000 + 7] == pytest.approx(first, abs=1)
        assert counts[turn * 1000 + 8] == pytest.approx(first / 2, abs=1)


def test_the_papers_join_ratio() -> None:
    """Liu et al., section 3.4: ratio 2, three ways: 4 results per tuple, then 16."""
    options = {"tuple_range": "300", "join_ratio": "2"}
    for ranges, each in ((1, 4), (2, 16)):
        seen = [Counter(_keys(options, stream, 0, 300 * ranges)) for stream in range(3)]
        assert {seen[1][key] * seen[2][key] for key in seen[0]} == {each}


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(8, 60), st.booleans())
def test_join_ratios_by_class(ratios: list[int], groups: int, by_node: bool) -> None:
    text = ",".join(map(str, ratios))
    size = len(ratios) * 60 * 3
    way = "node" if by_node else "contiguous"
    options = {
        "tuple_range": str(size),
        "join_ratios": text,
        "groups": str(groups),
        "class_of": way,
    }
    keys = _keys(options, 5, size, 2 * size)
    counts = Counter(keys)
    classes = class_of_key(read_knobs(options), pa.array(list(counts)))
    for (_, count), c in zip(counts.items(), classes.tolist(), strict=True):
        assert count == ratios[c]
    rows = np.bincount(class_of_key(read_knobs(options), pa.array(keys)))
    assert set(rows.tolist()) == {size // len(ratios)}


def test_classes_take_turns_in_being_hot() -> None:
    options = {"classes": "2", "skew": "10", "skew_period": "2 s", "rate": "1100", "keys": "400"}
    turns = layout_of(read_knobs(options)).blocks * 11
    assert turns.tolist() == [2200, 2200]
    keys = pa.array(_keys(options, 3, 0, 6600))
    classes = class_of_key(read_knobs(options), keys).reshape(3, 2200)
    assert [np.bincount(turn).tolist() for turn in classes] == [
        [2000, 200], [200, 2000], [2000, 200]
    ]  # fmt: skip


def test_skew_keeps_each_classs_ratio() -> None:
    options = {"tuple_range": "600", "join_ratios": "3,1", "skew": "10", "skew_period": "1 s"}
    keys = pa.array(_keys(options, 3, 0, 50_000))
    classes = class_of_key(read_knobs(options), keys)
    of_first = keys.to_numpy()[classes == 0][: 300 * 7]
    # A range may end within a block, whose rows are shuffled: the edge is off by less than a block.
    assert set(Counter(of_first.tolist()).values()) <= {3 * 7 - 1, 3 * 7, 3 * 7 + 1}


def test_uneven_classes_share_the_rows() -> None:
    options = {"class_shares": "0.67,0.165,0.165", "groups": "200", "keys": "3000"}
    classes = class_of_key(read_knobs(options), pa.array(_keys(options, 0, 0, 20_000)))
    assert np.bincount(classes).tolist() == [13_400, 3_300, 3_300]


@pytest.mark.parametrize("shares", [{}, {0: 0.67, 1: 0.165, 2: 0.165}])
def test_classes_are_the_nodes_of_a_placement(shares: dict[int, float]) -> None:
    options = {"classes": "3", "groups": "300"}
    if shares:
        options["class_shares"] = ",".join(map(str, shares.values()))
    placed = weighted(300, shares) if shares else even(300, 3)
    assert class_of_group(read_knobs(options)).tolist() == list(placed)


def test_contiguous_classes() -> None:
    options = {"classes": "3", "groups": "10", "class_of": "contiguous"}
    assert class_of_group(read_knobs(options)).tolist() == [0] * 4 + [1] * 3 + [2] * 3


def test_zipf_draws_by_rank() -> None:
    counts = Counter(_keys({"keys": "1000", "zipf": "1"}, 9, 0, 100_000))
    first = 1 / np.sum(1 / np.arange(1, 1001))
    assert counts[0] == pytest.approx(100_000 * first, rel=0.1)
    assert counts[9] == pytest.approx(100_000 * first / 10, rel=0.2)


@given(st.sampled_from(["even", "poisson"]), st.floats(0.5, 1e6), OFFSETS)
@example("poisson", 1000.0, 0)
def test_arrivals_keep_the_rate(arrivals: str, rate: float, start: int) -> None:
    assume(start / rate < 1e9)
    options = {"arrivals": arrivals, "rate": str(rate), "start": "1970-01-01"}
    ts = _times(options, 1, start, start + 4096)
    assert (np.diff(ts) >= 0).all()
    slack = 2 * generator.POISSON_ROWS / rate * 1e6 + 2
    assert ts[0] == pytest.approx(start / rate * 1e6, abs=slack)
    assert ts[-1] - ts[0] == pytest.approx(4095 / rate * 1e6, abs=slack)


def test_poisson_gaps_spread_as_they_should() -> None:
    gaps = np.diff(_times({"arrivals": "poisson", "rate": "1000"}, 4, 0, 50_000))
    assert gaps.mean() == pytest.approx(1000, rel=0.05)
    assert gaps.std() == pytest.approx(1000, rel=0.05)


def test_out_of_order_share_and_delay() -> None:
    even = _times({}, 1, 0, 20_000)
    mixed = _times({"out_of_order": "0.25", "max_delay": "3 s"}, 1, 0, 20_000)
    back = even - mixed
    assert (back > 0).mean() == pytest.approx(0.25, abs=0.02)
    assert 2_900_000 < back.max() <= 3_000_000


def test_null_keys_and_payload() -> None:
    rows = batch({"null_keys": "0.1", "payload_bytes": "33"}, 1, 0, 10_000)
    assert rows["k"].null_count == pytest.approx(1000, rel=0.15)
    assert set(pa.compute.binary_length(rows["payload"]).to_pylist()) == {33}
    assert len(set(rows["payload"].to_pylist())) == 10_000


def test_the_market_agrees_on_symbols() -> None:
    feed = {p: batch({"preset": p, "keys": "300"}, i, 0, 5000) for i, p in enumerate(PRESETS[1:])}
    universe = [set(rows["symbol"].to_pylist()) for rows in feed.values()]
    assert universe[0] == universe[1] == universe[2]
    assert len(universe[0]) == 300
    assert {len(symbol) for symbol in universe[0]} == {5}
    assert set(feed["reviews"]["rating"].to_pylist()) <= set(range(1, 6))
    levels: dict[str, set[float]] = {}
    for row in feed["prices"].to_pylist():
        levels.setdefault(row["symbol"], set()).add(float(row["price"]))
    assert all(max(prices) < 1.3 * min(prices) for prices in levels.values())


def test_the_markets_example_gives_steady_results() -> None:
    """Its streams turn to new symbols at the same moments, and each symbol gives 8 results."""
    spec = read_query(Path(__file__).parents[3] / "docs" / "examples" / "market.toml")
    feed = {name: stream.options for name, stream in spec.streams.items()}
    spans = {int(options["tuple_range"]) / float(options["rate"]) for options in feed.values()}
    assert spans == {5.0}
    counts = []
    for name, options in feed.items():
        rows = batch(
            {**options, "start": "2026-01-01"}, stream_seed(name), 0, int(options["rate"]) * 10
        )
        counts.append(Counter(rows["symbol"].to_pylist()))
    assert {tuple(count[symbol] for count in counts) for symbol in counts[0]} == {(4, 2, 1)}
    assert len({frozenset(count) for count in counts}) == 1


# -- offsets of a running query -----------------------------------------------------------------------


@given(
    st.floats(0.5, 50_000),
    st.lists(st.integers(0, 60_000_000), max_size=30),
    st.none() | st.integers(1, 5000),
    st.none() | st.integers(0, 50_000),
)
def test_pacing(rate: float, waits: list[int], limit: int | None, rows: int | None) -> None:
    """Never ahead of the clock, never more than the limit or catch_up at once, no row lost."""
    knobs = _knobs(rate=str(rate), catch_up="10 s", rows="" if rows is None else str(rows))
    now = 1_000_000_000
    offset = initial_offset(knobs, now)
    for wait in waits:
        now += wait
        after = advance(knobs, offset, now, paced=True, at_most=limit)
        step = after["rows"] - offset["rows"]
        assert 0 <= step <= 10 * rate + 1
        assert limit is None or step <= limit
        assert after["rows"] <= (rows if rows is not None else after["rows"])
        assert after["rows"] <= (now - 1_000_000_000) / 1e6 * rate + 1
        assert step or after == offset
        offset = after


def test_pacing_neither_drifts_nor_bursts() -> None:
    knobs = _knobs(rate="1000", catch_up="2 s")
    offset = initial_offset(knobs, 0)
    for now in range(0, 60_000_000, 33_333):
        offset = advance(knobs, offset, now, paced=True, at_most=None)
    assert offset["rows"] == pytest.approx(60_000, abs=40)
    hours_later = advance(knobs, offset, 10**13, paced=True, at_most=None)
    assert hours_later["rows"] - offset["rows"] == 2000
    soon_after = advance(knobs, hours_later, 10**13 + 100_000, paced=True, at_most=None)
    assert soon_after["rows"] - hours_later["rows"] == 100


def test_unpaced_runs_to_the_last_row_in_limits() -> None:
    knobs = _knobs(rows="1050")
    offset, steps = initial_offset(knobs, 0), []
    while (after := advance(knobs, offset, 1, paced=False, at_most=500)) != offset:
        steps.append(after["rows"] - offset["rows"])
        offset = after
    assert steps == [500, 500, 50]
    assert advance(knobs, initial_offset(knobs, 0), 1, paced=False)["rows"] == 1050


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 8))
def test_spans_cover_the_tick(first: int, rows: int, tasks: int) -> None:
    whole = (Segment(_knobs()),)
    parts = spans({"rows": first, "epoch": 7}, {"rows": first + rows, "epoch": 7}, tasks, whole)
    assert [n for part in parts for n in (part.start, part.stop)] == sorted(
        n for part in parts for n in (part.start, part.stop)
    )
    assert sum(part.stop - part.start for part in parts) == rows
    assert len(parts) <= tasks
    assert bool(parts) == bool(rows)


def test_wide_rows_come_in_small_batches() -> None:
    assert rows_per_batch(_knobs(payload_bytes="1_000_000")) == 16
    assert rows_per_batch(_knobs()) == 1 << 16


# -- messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rates": "5"}, "rates: the generator has no such option\n  did you mean rate?"),
        ({"rate": "fast"}, 'rate: "fast" is not possible: a number is wanted'),
        ({"rate": "0"}, "between 0.001"),
        ({"rows": "1.5"}, "whole number"),
        ({"arrivals": "odd"}, "one of even, poisson"),
        ({"skew_period": "5 parsecs"}, "duration is wanted"),
        ({"start": "then"}, "a time is wanted"),
        ({"skew": "10"}, "two classes"),
        ({"zipf": "1", "tuple_range": "10"}, "no place beside tuple_range"),
        ({"join_ratio": "2"}, "needs tuple_range"),
        ({"fresh_keys": "true"}, "needs tuple_range"),
        ({"fresh_keys": "yes", "tuple_range": "9"}, "one of true, false"),
        ({"fresh_keys": "true", "tuple_range": "9", "join_ratios": "2,1"}, "fresh keys have one"),
        ({"fresh_keys": "true", "tuple_range": "9", "keys": "2"}, "no place beside tuple_range"),
        ({"join_ratios": "4,2", "classes": "3", "tuple_range": "90"}, "2 entries for 3 classes"),
        ({"classes": "9", "groups": "8"}, "9 classes of 8 groups"),
        ({"preset": "prices", "payload_bytes": "5"}, "columns of its own"),
        ({"columns": "a, b"}, "3 different names"),
        ({"columns": "a, b, B"}, "3 different names"),
    ],
)
def test_messages(options: dict[str, str], message: str) -> None:
    with pytest.raises(QueryFileError) as caught:
        default_fields(options)
    assert message in str(caught.value)
    assert caught.value.hint or "entries" in message


def test_a_market_has_only_so_many_symbols() -> None:
    with pytest.raises(QueryFileError, match="lists 11,881,376 symbols"):
        batch({"preset": "prices", "keys": "20000000"}, 0, 0, 100_000)


def test_now_needs_a_running_query() -> None:
    with pytest.raises(QueryFileError, match="running query"):
        batch({"start": "now"}, 0, 0, 1)
    assert initial_offset(_knobs(start="now"), 77) == {"rows": 0, "clock": 77, "epoch": 77}


def test_the_table_of_options_is_the_knobs() -> None:
    assert tuple(OPTIONS) == tuple(Knobs.__dataclass_fields__)
    assert all(option.help for option in OPTIONS.values())
    assert default_fields({"RATE": "5"}) == default_fields({})


def _knobs(**options: str) -> Knobs:
    return read_knobs(options)


def _keys(options: dict[str, str], seed: int, start: int, stop: int) -> list[int]:
    keys: list[int] = batch(options, seed, start, stop)["k"].to_pylist()
    return keys


def _times(options: dict[str, str], seed: int, start: int, stop: int) -> Any:
    return batch(options, seed, start, stop)["ts"].cast(pa.int64()).to_numpy()


@pytest.mark.parametrize("tick_s", [0.7, 1.0, 1.3, 3.0])
def test_the_demos_results_come_steadily(tick_s: float) -> None:
    """Whatever a tick's length: results of a tuple range crowd at its end, so ticks have many of them, none a part."""
    con, seconds = duckdb.connect(), 40
    spec = read_query(Path(__file__).parents[3] / "docs" / "examples" / "console-demo.toml")
    for name, stream in spec.streams.items():
        rate = int(stream.options["rate"])
        options = {k: v for k, v in stream.options.items() if k != "start"}
        rows = batch(options, stream_seed(name), 0, rate * seconds)
        came_s = np.arange(rate * seconds) / rate
        con.register(name, pa.table({"symbol": rows.column("symbol"), "came_s": came_s}))
    found = con.execute(
        f"SELECT floor(greatest(p.came_s, v.came_s, r.came_s) / {tick_s}) AS tick, count(*) FROM prices p "
        "JOIN volumes v ON p.symbol = v.symbol JOIN reviews r ON p.symbol = r.symbol GROUP BY 1 ORDER BY 1"
    ).fetchall()
    rates = np.array([rows for _, rows in found][1:-1]) / tick_s
    assert rates.min() > 0.9 * 3200 and rates.max() < 1.1 * 3200
