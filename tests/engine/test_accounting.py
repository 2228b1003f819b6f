"""The figures in reports are those of the files: per group, per node, per tier, after merges, holds and restarts;
and wide rows are packed in pieces that the shuffle can carry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from engine import exchange
from engine import tick as tick_module
from engine.brief import Brief
from engine.columns import row_bytes
from engine.exchange import Packing, route_of, unpack
from engine.hashing import group_offsets, hash_keys
from engine.ingest import Layout, Union
from engine.operators.multi_join import hashes
from engine.query.model import Field
from engine.reports import TickReport
from engine.state import files
from engine.state.commits import CommitLog
from engine.state.model import Manifest
from tests.engine.oracle import Case, Kept, quiet

GROUPS = 16
OVERHEAD = (
    2048  # of an IPC file of few columns: schema twice, footer, padding, validity bits of few rows
)


def memory_folder(manifest: Manifest) -> Path:
    name = next(iter(manifest.memory_files()))
    return next(Path(quiet().mem_dir).glob(f"*/{name}")).parent


def by_group(manifest: Manifest, folder: Path) -> np.ndarray:
    """Bytes of the values in the memory files, group by group."""
    total = np.zeros(GROUPS, dtype=np.int64)
    for runs in manifest.runs.values():
        for run in runs:
            for segment in run.memory:
                batch = files.read(str(folder), segment)
                total += row_bytes(batch, group_offsets(hashes(batch), GROUPS))
    return total


def agree(case: Case, report: TickReport) -> None:
    manifest = CommitLog(case.checkpoint / "commits").recover().manifest
    folder = memory_folder(manifest)
    (groups,) = report.groups
    assert groups.memory_bytes.tolist() == by_group(manifest, folder).tolist()
    memory = durable = 0
    for node in report.nodes:
        runs = [
            run for place, some in manifest.runs.items() if place.node == node.node for run in some
        ]
        for have, tier, at in (
            (node.memory_bytes, {s.file for r in runs for s in r.memory}, folder),
            (
                node.checkpoint_bytes,
                {s.file for r in runs for s in r.durable},
                case.checkpoint / "state",
            ),
        ):
            assert have == sum((at / name).stat().st_size for name in tier)
        mine = int(groups.memory_bytes[groups.node == node.node].sum())
        segments = sum(len(r.memory) for r in runs)
        rows = sum(r.rows for r in runs)
        assert mine <= node.memory_bytes <= mine + OVERHEAD * segments + rows // 2
        memory, durable = memory + node.memory_bytes, durable + node.checkpoint_bytes
    assert report.memory_bytes == memory == sum(p.stat().st_size for p in folder.glob("[!.]*"))
    assert durable == sum(p.stat().st_size for p in (case.checkpoint / "state").iterdir())


class Agree(Kept):
    """Compares every report with the files while they are there: memory goes at the end of a run."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def publish(self, report: TickReport) -> None:
        super().publish(report)
        if report.rows_in:
            agree(self.case, report)


def test_reports_are_what_is_in_the_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarts go on from snapshots and from commits after them."""
    monkeypatch.setattr(tick_module, "SNAPSHOT_EVERY", 3)
    case = Case(
        tmp_path,
        "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k",
        {"a": "k string, v decimal(20,2)", "b": "k string, w string"},
        groups=GROUPS,
    )
    case.write()
    rng = np.random.default_rng(8)
    rows_in = 0
    for tick in range(6):
        keys = [f"key-{n}" for n in rng.integers(0, 200, 300)]
        numbers = pa.array(rng.integers(0, 99, 300), mask=rng.random(300) < 0.2).cast(
            pa.decimal128(38, 2)
        )
        case.feed("a", tick, pa.table({"k": keys, "v": numbers.cast(pa.decimal128(20, 2))}))
        words = pa.array(
            ["w" * int(n) for n in rng.integers(0, 30, 300)], mask=rng.random(300) < 0.2
        )
        case.feed("b", tick, pa.table({"k": keys, "w": words}))
        rows_in += 600
        if tick in (1, 4, 5):
            kept = Agree(case)
            summary = case.run(kept)
            groups = kept.reports[-1].groups[0]
            assert (groups.rows_in.sum(), groups.rows_out.sum()) == (rows_in, summary.rows_out)
            assert summary.rows_out == case.check()
            assert summary.state_bytes == kept.reports[-1].memory_bytes
    assert list((case.checkpoint / "commits").glob("snapshot-*"))
    assert groups.last_insert_tick.max() == kept.reports[-1].version


# -- packing -----------------------------------------------------------------------------------------

LAYOUT = Layout(
    number=0,
    alias="a",
    mark="a",
    op=0,
    side=0,
    columns=(Field("$0", "bigint"), Field("a.w", "string")),
    keys=1,
    needed=("$0",),
    time=None,
    native=None,
    fields=(),
    slots=(0, 1),
)


def packed(rows: list[tuple[int | None, int]], held: set[int]) -> list[pa.RecordBatch]:
    """Keys and widths through the map side, over 8 groups and 3 nodes."""
    union = Union((LAYOUT,), ("bigint", "string"))
    route = route_of(0, [g % 3 for g in range(8)], [5, 6, 7], sorted(held), 2, (1 << 64) - 1)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(np.zeros(len(rows), dtype=np.int8)),
            pa.nulls(len(rows), pa.string()),
            pa.array([k for k, _ in rows], pa.int64()),
            pa.array(["x" * width for _, width in rows], pa.string()),
        ],
        names=["input", "path", "k0", "s0"],
    )
    tick = Brief(version=1, routes={0: route}, marks={}, runs={})
    return list(Packing(union.layouts, tick).run(iter([batch])))


def test_no_piece_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 MB of wide rows with a limit of 20 kB."""
    monkeypatch.setattr(exchange, "PACK_BYTES_MAX", 20_000)
    sent = packed([(k, 1000) for k in range(2000)], set())
    sizes = [len(row.column("body")[0].as_buffer()) for row in sent]
    assert max(sizes) < 2 * 20_000 and sum(sizes) > 2_000_000


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(0, 900)), max_size=60),
    st.integers(200, 20_000),
    st.sets(st.integers(0, 7), max_size=3),
)
def test_wide_rows_are_packed_in_pieces(
    rows: list[tuple[int | None, int]], limit: int, held: set[int]
) -> None:
    """Each piece fits, goes to its group's node, waits if its group does; no row is lost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "PACK_BYTES_MAX", limit)
        sent = packed(rows, held)
    found: list[tuple[int | None, int]] = []
    for row in sent:
        token, node, _, _, kind, body = (column[0] for column in row.columns)
        assert token.as_py() == 5 + node.as_py()
        part = unpack(body)
        columns = part.columns if kind.as_py() == exchange.NULL_KEY else part.columns[1:]
        keys, words = (c.to_pylist() for c in columns)
        found += [(k, len(w)) for k, w in zip(keys, words, strict=True)]
        if kind.as_py() == exchange.NULL_KEY:
            assert keys == [None] * len(keys)
            continue
        groups = set(
            (
                ((hash_keys([pa.array(keys)]) >> np.uint64(32)) * np.uint64(8)) >> np.uint64(32)
            ).tolist()
        )
        waits = kind.as_py() == exchange.HELD
        assert groups <= held if waits else not groups & held
        assert node.as_py() == 2 if waits else {g % 3 for g in groups} == {node.as_py()}
    assert sorted(found, key=str) == sorted(rows, key=str)
