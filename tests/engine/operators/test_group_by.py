"""The group_by kernel against DuckDB's window functions: any frames, ties, nulls, disorder, cuts into ticks,
trimmed runs, forced hash collisions; and what must be exact or must not be spoilt."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SpillwayError
from engine.hashing import hash_keys
from engine.operators import group_by, rolling
from engine.operators.group_by import Grouping
from engine.operators.multi_join import HASH
from engine.operators.rolling import Frames, Ordered
from engine.query.model import Aggregate, Frame
from engine.state import files
from engine.state.files import Clock, Fresh, Tiers
from engine.state.model import Runs

FULL = (1 << 64) - 1
KINDS = {
    "i": ("bigint", pa.int64()),
    "f": ("double", pa.float64()),
    "d": ("decimal(12,2)", pa.decimal128(12, 2)),
    "s": ("string", pa.string()),
    "t": ("date", pa.date32()),
    "b": ("boolean", pa.bool_()),
}
RESULT = {
    "count": dict.fromkeys("ifdstb", "bigint"),
    "min": {n: k for n, (k, _) in KINDS.items()},
    "max": {n: k for n, (k, _) in KINDS.items()},
    "sum": {"i": "bigint", "f": "double", "d": "decimal(22,2)"},
    **{
        f: dict.fromkeys("if", "double")
        for f in ("avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
    },
}

VALUES = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**40), 2**40),
        "f": st.none() | st.floats(-1e6, 1e6, width=32),
        "d": st.none() | st.decimals(-9999, 9999, places=2),
        "s": st.none() | st.sampled_from(["", "a", "B", "ä", "zz"]),
        "t": st.none() | st.dates(date(1960, 1, 1), date(2030, 1, 1)),
        "b": st.none() | st.booleans(),
    }
)
FRAMES = st.builds(Frame, rows=st.integers(0, 6)) | st.builds(Frame, us=st.integers(0, 9))


@st.composite
def aggregates(draw: st.DrawFn) -> tuple[Aggregate, ...]:
    made = []
    for number in range(draw(st.integers(1, 4))):
        function = draw(st.sampled_from(sorted(RESULT)))
        argument = draw(st.sampled_from(sorted(RESULT[function])))
        star = function == "count" and draw(st.booleans())
        made.append(
            Aggregate(
                f"~{number}",
                function,
                None if star else argument,
                draw(FRAMES),
                RESULT[function][argument],
            )
        )
    return tuple(made)


def spelled(one: Aggregate) -> str:
    frame = (
        f"ROWS BETWEEN {one.frame.rows} PRECEDING AND CURRENT ROW"
        if one.frame.rows is not None
        else f"RANGE BETWEEN {one.frame.us} PRECEDING AND CURRENT ROW"
    )
    order = "ts, o" if one.frame.rows is not None else "ts"
    found = f"{one.function}({one.argument or '*'}) OVER (PARTITION BY k ORDER BY {order} {frame})"
    return (
        f"CAST({found} AS {one.type})"
        if one.type.startswith("decimal") or one.type == "bigint"
        else found
    )


def tables(ticks: list[list[dict[str, object]]]) -> list[pa.RecordBatch]:
    """Rows as in state, but for the hash: k, ts, o, and a value of each type."""
    number, out = 0, []
    for rows in ticks:
        columns = [
            pa.array([r["k"] for r in rows], pa.string()),
            pa.array([r["ts"] for r in rows], pa.int64()),
            pa.array(range(number, number + len(rows)), pa.int64()),
        ]
        columns += [pa.array([r["v"][n] for r in rows], kind) for n, (_, kind) in KINDS.items()]
        out.append(pa.RecordBatch.from_arrays(columns, names=["k", "ts", "o", *KINDS]))
        number += len(rows)
    return out


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[list[dict[str, object]], int]]:
    """Ticks: rows not older than the watermark of the ticks before, and the watermark after it."""
    front, out = 0, []
    for _ in range(draw(st.integers(1, 5))):
        row = st.fixed_dictionaries(
            {
                "k": st.sampled_from(["", "a", "b", "long" * 9, None]),
                "ts": st.integers(front, front + 12),
                "v": VALUES,
            }
        )
        rows = draw(st.lists(row, max_size=14))
        front += draw(st.integers(0, 8))
        out.append((rows, front))
    return out


def run(
    batches: list[pa.RecordBatch],
    fronts: list[int],
    grouping: Grouping,
    mask: int,
    tiers: Tiers,
    rows_max: int,
) -> list[tuple[object, ...]]:
    """All ticks, one after the other, with runs merged and trimmed; then the flush of what waits."""
    runs: Runs = ()
    out: list[tuple[object, ...]] = []
    since, clock = -(1 << 62), Clock(("ts",))
    for tick, until in enumerate([*fronts, 1 << 62]):
        views = [files.view(run, tiers) for run in runs]
        for chunk in group_by.step(views, since, until, grouping, rows_max=rows_max):
            (batch,) = chunk.columns
            assert int(chunk.counts.sum()) == batch.num_rows
            out += zip(
                *(batch.column(n).to_pylist() for n in ("o", *(a.id for a in grouping.aggregates))),
                strict=True,
            )
        since = until
        if tick < len(batches) and batches[tick].num_rows:
            own = batches[tick]
            marks = pa.array(hash_keys(own.columns[:1], mask, nulls=True))
            delta = files.sort_batch(
                pa.RecordBatch.from_arrays([marks, *own.columns], names=[HASH, *own.schema.names])
            )
            change = files.insert(
                runs,
                delta,
                tiers,
                Fresh(tick + 1, 0),
                clock,
                lambda merged, until=until: group_by.trim(merged, grouping, until),
            )
            runs = change.apply(runs)
    return sorted(out, key=lambda row: row[0])


def tiers_in(root: Path) -> Tiers:
    for name in ("memory", "durable"):
        (root / name).mkdir()
    return Tiers(str(root / "memory"), str(root / "durable"), groups=16)


@given(streams(), aggregates(), st.sampled_from([FULL, 0, 1 << 63]), st.sampled_from([1, 10_000]))
def test_any_cut_into_ticks_gives_sql_window_functions(
    tmp_path_factory: pytest.TempPathFactory,
    ticks: list[tuple[list[dict[str, object]], int]],
    chosen: tuple[Aggregate, ...],
    mask: int,
    rows_max: int,
) -> None:
    batches = tables([rows for rows, _ in ticks])
    fronts = [0, *(front for _, front in ticks)]
    grouping = Grouping(1, "ts", ("o",), chosen, wanted=("o",))
    got = run(
        batches, fronts[:-1], grouping, mask, tiers_in(tmp_path_factory.mktemp("state")), rows_max
    )
    con = duckdb.connect()
    con.register("rows", pa.Table.from_batches(batches))
    want = con.execute(
        f"SELECT o, {', '.join(spelled(a) for a in chosen)} FROM rows ORDER BY o"
    ).fetchall()
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert all(same(a, b) for a, b in zip(mine, theirs, strict=True)), (mine, theirs, chosen)


def same(mine: object, theirs: object) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-3) or (
            math.isnan(mine) and math.isnan(theirs)
        )
    return mine == theirs


def frames(preceding: int, count: int) -> Frames:
    return Ordered(np.zeros(count, np.int64), np.arange(count)).rows(np.arange(count), preceding)


def test_a_large_value_does_not_spoil_the_frames_after_it() -> None:
    column = pa.array([1e300, 0.1, 0.2, 0.3, float("inf"), 1.0, 2.0, 4.0])
    assert rolling.aggregate("sum", column, frames(1, 8), pa.float64()).to_pylist()[2:4] == [
        0.1 + 0.2,
        0.2 + 0.3,
    ]
    assert rolling.aggregate("sum", column, frames(1, 8), pa.float64()).to_pylist()[6:] == [
        3.0,
        6.0,
    ]
    assert rolling.aggregate("stddev_pop", column, frames(1, 8), pa.float64()).to_pylist()[7] == 1.0


def test_the_spread_of_large_numbers_that_lie_close() -> None:
    column = pa.array([1e9 + 1, 1e9 + 2, 1e9 + 3])
    assert rolling.aggregate("stddev_samp", column, frames(2, 3), pa.float64()).to_pylist() == [
        None,
        pytest.approx(math.sqrt(0.5)),
        1.0,
    ]


def test_sums_of_integers_are_exact_or_refused() -> None:
    top = 2**63 - 1
    column = pa.array([top, -top, 5, top])
    assert rolling.aggregate("sum", column, frames(2, 4), pa.int64()).to_pylist()[:3] == [top, 0, 5]
    assert (
        rolling.aggregate("avg", pa.array([top, top]), frames(1, 2), pa.float64()).to_pylist()
        == [2.0**63] * 2
    )
    with pytest.raises(SpillwayError, match="does not fit bigint"):
        rolling.aggregate("sum", pa.array([top, 1]), frames(1, 2), pa.int64())


def test_sums_of_wide_decimals_are_exact_or_refused() -> None:
    kind = pa.decimal128(38, 0)
    top, low = Decimal(10**38 - 1), Decimal(1 - 10**38)
    column = pa.array([top, low, Decimal(7), None, low], kind)
    assert rolling.aggregate("sum", column, frames(1, 5), kind).to_pylist() == [
        top,
        Decimal(0),
        Decimal(8 - 10**38),
        Decimal(7),
        low,
    ]
    for values in ([top, Decimal(1)], [low, Decimal(-1)]):
        with pytest.raises(SpillwayError, match=r"decimal\(38, 0\)"):
            rolling.aggregate("sum", pa.array(values, kind), frames(1, 2), kind)


def test_nan_is_the_greatest_double_as_in_spark() -> None:
    column = pa.array([float("nan"), 1.0, None, float("inf")])
    least = rolling.aggregate("min", column, frames(1, 4), pa.float64()).to_pylist()
    most = rolling.aggregate("max", column, frames(1, 4), pa.float64()).to_pylist()
    assert math.isnan(least[0]) and least[1:] == [1.0, 1.0, float("inf")]
    assert math.isnan(most[0]) and math.isnan(most[1]) and most[2:] == [1.0, float("inf")]


def test_trimming_keeps_what_frames_can_reach() -> None:
    marks = pa.array(np.zeros(6, np.uint64))
    batch = pa.RecordBatch.from_arrays(
        [
            marks,
            pa.array(["a", "a", "a", "b", "a", "b"]),
            pa.array([1, 2, 3, 1, 9, 8]),
            pa.array(range(6)),
        ],
        names=[HASH, "k", "ts", "o"],
    )

    def kept(until: int, *wanted: Frame) -> list[int]:
        made = tuple(
            Aggregate(f"~{n}", "count", None, frame, "bigint") for n, frame in enumerate(wanted)
        )
        return group_by.trim(batch, Grouping(1, "ts", ("o",), made), until).column("o").to_pylist()

    assert kept(8, Frame(rows=1)) == [2, 3, 4, 5]
    assert kept(8, Frame(us=5)) == [2, 4, 5]
    assert kept(10, Frame(rows=1)) == [4, 5]
    assert kept(10, Frame(rows=0)) == []
    assert kept(10, Frame(rows=2), Frame(us=0)) == [2, 3, 4, 5]
