"""The join kernel against DuckDB: any cut into ticks and runs, duplicates, ties, forced hash collisions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hashing import hash_keys
from engine.operators import multi_join
from engine.operators.multi_join import HASH, View
from engine.state import files
from engine.state.files import Fresh, Tiers
from engine.state.model import Runs

MASKS = [(1 << 64) - 1, 0, 1 << 63, 0xF000_0000_0000_0000, 3]


def sorted_batch(keys: list[pa.Array], payload: pa.Array, mask: int) -> pa.RecordBatch:
    marks = pa.array(hash_keys(keys, mask))
    names = [HASH, *(f"${i}" for i in range(len(keys))), "v"]
    return files.sort_batch(pa.RecordBatch.from_arrays([marks, *keys, payload], names=names))


def oracle(inputs: list[list[tuple[object, int]]]) -> Counter[tuple[object, ...]]:
    con = duckdb.connect()
    for i, rows in enumerate(inputs):
        con.register(
            f"t{i}",
            pa.table(
                {
                    "k": pa.array([k for k, _ in rows], pa.string()),
                    "v": pa.array([v for _, v in rows], pa.int64()),
                }
            ),
        )
    joins = " ".join(f"JOIN t{i} ON t0.k = t{i}.k" for i in range(1, len(inputs)))
    columns = ", ".join(f"t{i}.v" for i in range(len(inputs)))
    return Counter(con.execute(f"SELECT t0.k, {columns} FROM t0 {joins}").fetchall())


@st.composite
def streams(draw: st.DrawFn) -> list[list[list[tuple[str, int]]]]:
    """inputs -> ticks -> rows (key, row number)."""
    inputs, ticks = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    keys = st.sampled_from(
        ["", "a", "b", "ä", "long-" * 9] + [f"k{i}" for i in range(draw(st.integers(0, 9)))]
    )
    size = 12 if inputs < 4 else 6
    number = iter(range(10**6))
    return [
        [[(k, next(number)) for k in draw(st.lists(keys, max_size=size))] for _ in range(ticks)]
        for _ in range(inputs)
    ]


def join_all(
    data: list[list[list[tuple[str, int]]]], mask: int, tiers: Tiers, chunk: int
) -> list[tuple[object, ...]]:
    runs: list[Runs] = [() for _ in data]
    out: list[tuple[object, ...]] = []
    for tick in range(len(data[0])):
        views = [[files.view(run, tiers) for run in mine] for mine in runs]
        for source, ticks in enumerate(data):
            rows = ticks[tick]
            if not rows:
                continue
            delta = sorted_batch(
                [pa.array([k for k, _ in rows], pa.string())], pa.array([v for _, v in rows]), mask
            )
            wanted = [["$0", "v"] if i == source else ["v"] for i in range(len(data))]
            for c in multi_join.probe(
                delta, source, views, keys=1, exact_hash=False, wanted=wanted, chunk_rows=chunk
            ):
                columns = [c.columns[source].column(0).to_pylist()]
                columns += [b.column(b.num_columns - 1).to_pylist() for b in c.columns]
                assert c.rows == len(columns[0]) == int(c.counts.sum())
                assert c.rows <= max(chunk, 1)
                out += zip(*columns, strict=True)
            views[source].append(View([delta]))
            change = files.insert(runs[source], delta, tiers, Fresh(tick + 1, 0))
            runs[source] = change.apply(runs[source])
    return out


@given(
    streams(),
    st.sampled_from(MASKS),
    st.sampled_from([1, 7, 10_000]),
    st.sampled_from([60, 8_000_000]),
)
def test_any_cut_into_ticks_gives_the_batch_join(
    tmp_path_factory: pytest.TempPathFactory,
    data: list[list[list[tuple[str, int]]]],
    mask: int,
    chunk: int,
    segment: int,
) -> None:
    root = tmp_path_factory.mktemp("state")
    tiers = tiers_in(root, segment)
    got = Counter(join_all(data, mask, tiers, chunk))
    assert got == oracle([[row for tick in ticks for row in tick] for ticks in data])


def tiers_in(root: Path, segment_bytes: int = 8_000_000) -> Tiers:
    for name in ("memory", "durable"):
        (root / name).mkdir()
    return Tiers(
        str(root / "memory"), str(root / "durable"), groups=16, segment_bytes_max=segment_bytes
    )


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.dates(), st.booleans()), max_size=40),
    st.lists(st.tuples(st.integers(-3, 3), st.dates(), st.booleans()), max_size=40),
    st.sampled_from(MASKS),
)
def test_composite_keys_under_collisions(
    left: list[tuple[object, ...]], right: list[tuple[object, ...]], mask: int
) -> None:
    def keys(rows: list[tuple[object, ...]]) -> list[pa.Array]:
        kinds = (pa.int64(), pa.date32(), pa.bool_())
        return [pa.array([r[i] for r in rows], kinds[i]) for i in range(3)]

    if not left or not right:
        return
    a = sorted_batch(keys(left), pa.array(np.arange(len(left))), mask)
    b = sorted_batch(keys(right), pa.array(np.arange(len(right))), mask)
    got: list[tuple[int, int]] = []
    for c in multi_join.probe(
        a, 0, [[], [View([b])]], keys=3, exact_hash=False, wanted=[["v"], ["v"]]
    ):
        got += zip(
            c.columns[0].column(0).to_pylist(), c.columns[1].column(0).to_pylist(), strict=True
        )
    want = [(i, j) for i, x in enumerate(left) for j, y in enumerate(right) if x == y]
    assert sorted(got) == want


def test_one_hot_key_is_enumerated_in_bounded_chunks() -> None:
    key = [pa.array(np.zeros(300, dtype=np.int64))]
    batch = sorted_batch(key, pa.array(np.arange(300)), (1 << 64) - 1)
    sizes = [
        c.rows
        for c in multi_join.probe(
            batch,
            0,
            [[], [View([batch])], [View([batch])]],
            keys=1,
            exact_hash=True,
            wanted=[["v"], ["v"], []],
            chunk_rows=1 << 20,
        )
    ]
    assert sum(sizes) == 300**3 and max(sizes) <= 1 << 20


def test_the_input_with_the_least_fan_out_is_probed_first() -> None:
    rng = np.random.default_rng(5)
    many = sorted_batch(
        [pa.array(rng.integers(0, 50, 5000))], pa.array(np.arange(5000)), (1 << 64) - 1
    )
    few = sorted_batch([pa.array(np.array([7, 9]))], pa.array(np.arange(2)), (1 << 64) - 1)
    delta = sorted_batch([pa.array(np.arange(50))], pa.array(np.arange(50)), (1 << 64) - 1)
    asked: dict[str, int] = {}

    class Spy(View):
        def __init__(self, name: str, batch: pa.RecordBatch) -> None:
            super().__init__([batch])
            self.name = name

        def locate(self, wanted: multi_join.Hashes) -> tuple[multi_join.Longs, multi_join.Longs]:
            asked[self.name] = len(wanted)
            return super().locate(wanted)

    list(
        multi_join.probe(
            delta,
            0,
            [[], [Spy("many", many)], [Spy("few", few)]],
            keys=1,
            exact_hash=True,
            wanted=[["v"], ["v"], ["v"]],
        )
    )
    assert asked == {"few": 50, "many": 2}  # the second probe asks only for what the first one left
