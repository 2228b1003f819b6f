"""Segment files: cut at group boundaries, made again from the checkpoint byte for byte, never read when damaged;
runs merge in size tiers and keep every row in its order."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StateError
from engine.hashing import group_of
from engine.operators.multi_join import HASH, View, hashes
from engine.state import files
from engine.state.files import Fresh, Tiers
from engine.state.model import Run, Runs, Segment

KINDS = {
    "n": pa.int64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "d": pa.decimal128(38, 2),
    "i": pa.int16(),
}


@st.composite
def batches(draw: st.DrawFn, max_rows: int = 60, least: int = 0) -> pa.RecordBatch:
    """A sorted batch: hashes that cluster, columns with and without nulls and widths that vary."""
    spread = draw(st.sampled_from([1, 4, 64]))
    rows = draw(st.integers(least, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    marks = rng.integers(0, spread, rows, dtype=np.uint64) * np.uint64(2**64 // spread - 1)
    nulls = draw(st.booleans())

    def column(kind: pa.DataType) -> pa.Array:
        values = rng.integers(-9, 9, rows)
        mask = rng.random(rows) < 0.3 if nulls else None
        if kind == pa.string():
            return pa.array(["x" * (int(v) ** 2) for v in values], kind, mask=mask)
        if kind == pa.bool_():
            return pa.array(values > 0, mask=mask)
        return pa.array(values, mask=mask).cast(kind)

    names = draw(st.lists(st.sampled_from(sorted(KINDS)), unique=True, max_size=4))
    columns = [pa.array(marks), pa.array(np.arange(rows)), *(column(KINDS[n]) for n in names)]
    return files.sort_batch(pa.RecordBatch.from_arrays(columns, names=[HASH, "row", *names]))


def tiers_in(root: Path, segment_bytes: int = 8_000_000, **more: int) -> Tiers:
    for name in ("memory", "durable"):
        (root / name).mkdir()
    return Tiers(
        str(root / "memory"),
        str(root / "durable"),
        groups=16,
        segment_bytes_max=segment_bytes,
        **more,
    )


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiers")


def whole(view: View) -> pa.Table:
    return pa.Table.from_batches(view.segments).combine_chunks()


@given(batches(), st.integers(1, 2000))
def test_cuts_are_at_group_boundaries_and_bound_the_size(batch: pa.RecordBatch, limit: int) -> None:
    tiers = Tiers("", "", groups=16, segment_bytes_max=limit)
    ends = files.cuts(batch, tiers)
    assert (ends[0], ends[-1]) == (0, batch.num_rows) and ends == sorted(ends)
    group = group_of(hashes(batch), 16)
    step = max(1, int(limit / max(1.0, batch.nbytes / max(1, batch.num_rows))))
    for a, b in pairwise(ends):
        assert b - a <= step, "more rows than the limit holds"
        inside = b < batch.num_rows and group[b - 1] == group[b]
        assert not inside or group[a] == group[b], "a group that fits is cut in two"


def test_no_cut_is_empty_for_skewed_groups(root: Path) -> None:
    """One group many times the limit between small ones: several segments for it, none without rows."""
    marks = np.sort(
        np.r_[np.zeros(3), np.full(1000, 5 << 60), np.full(2, 2**63 + 2**62)].astype(np.uint64)
    )
    batch = pa.RecordBatch.from_arrays([pa.array(marks)], names=[HASH])
    segments = files.write_run(batch, tiers_in(root, 1000), Fresh(1, 0), [str(root / "memory")])
    assert sum(s.rows for s in segments) == 1005 and min(s.rows for s in segments) > 0
    assert len(segments) > 8


@given(batches(least=1), st.sampled_from([60, 400, 8_000_000]))
def test_written_runs_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, batch: pa.RecordBatch, limit: int
) -> None:
    tiers = tiers_in(tmp_path_factory.mktemp("tiers"), limit)
    segments = files.write_run(batch, tiers, Fresh(7, 3), [tiers.memory, tiers.durable])
    run = Run("r", batch.num_rows, segments, segments)
    for segment in segments:
        files.verify(tiers.memory, segment)
        files.verify(tiers.durable, segment)
        part = hashes(files.read(tiers.memory, segment))
        assert (segment.version, segment.rows) == (7, len(part))
        assert (segment.lo, segment.hi) == (int(part[0]), int(part[-1]))
    assert run.bytes == sum(os.path.getsize(Path(tiers.memory, s.file)) for s in segments)
    assert whole(files.view(run, tiers)).equals(pa.Table.from_batches([batch]))


def fill(tiers: Tiers, deltas: list[pa.RecordBatch]) -> tuple[Runs, list[Runs]]:
    runs: Runs = ()
    history = []
    for number, delta in enumerate(deltas):
        runs = files.insert(runs, delta, tiers, Fresh(number + 1, 0)).apply(runs)
        history.append(runs)
    return runs, history


def alike(draw_from: pa.RecordBatch, pieces: list[int]) -> list[pa.RecordBatch]:
    """Deltas of one schema, cut from rows in any order, each sorted."""
    rows = draw_from.take(
        pa.array(np.random.default_rng(len(pieces)).permutation(draw_from.num_rows))
    )
    out, at = [], 0
    for size in pieces:
        part = rows.slice(at, size)
        at += size
        if part.num_rows:
            out.append(files.sort_batch(part))
    return out


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=14)


@given(batches(max_rows=400, least=100), SIZES, st.sampled_from([200, 8_000_000]))
def test_memory_is_made_again_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, batch: pa.RecordBatch, sizes: list[int], limit: int
) -> None:
    """Whatever merged, the durable files alone give the very memory files; and reading heals by itself."""
    tiers = tiers_in(tmp_path_factory.mktemp("tiers"), limit)
    runs, _ = fill(tiers, alike(batch, sizes))
    before = {s.file: Path(tiers.memory, s.file).read_bytes() for run in runs for s in run.memory}
    for path in Path(tiers.memory).iterdir():
        path.unlink()
    views = [whole(files.view(run, tiers)) for run in runs]
    after = {path.name: path.read_bytes() for path in Path(tiers.memory).iterdir()}
    assert after == before
    assert sum(v.num_rows for v in views) == sum(run.rows for run in runs)


@given(batches(max_rows=400, least=100), SIZES, st.sampled_from([200, 8_000_000]))
def test_insert_keeps_tiers_rows_and_order(
    tmp_path_factory: pytest.TempPathFactory, batch: pa.RecordBatch, sizes: list[int], limit: int
) -> None:
    tiers = tiers_in(tmp_path_factory.mktemp("tiers"), limit)
    deltas = alike(batch, sizes)
    _, history = fill(tiers, deltas)
    for number, runs in enumerate(history, 1):
        rows = [run.rows for run in runs]
        assert sum(rows) == sum(d.num_rows for d in deltas[:number])
        assert all(a > files.MERGE_RATIO * b for a, b in pairwise(rows))
        assert len(rows) <= math.log2(sum(rows)) + 1
    tables = [whole(View([files.read(tiers.memory, s) for s in run.memory])) for run in history[-1]]
    got = pa.concat_tables(tables)
    order = np.argsort(got.column(HASH).to_numpy(), kind="stable")
    want = pa.concat_tables([pa.Table.from_batches([d]) for d in deltas])
    right = np.argsort(want.column(HASH).to_numpy(), kind="stable")
    assert got.take(order).equals(want.take(right)), (
        "rows lost, changed, or out of order within a key"
    )
    durable = {s.file for run in history[-1] for s in run.durable}
    assert durable <= set(os.listdir(tiers.durable))


def test_durable_files_stay_few(root: Path) -> None:
    """Many small ticks must not pile up small files: a merged run is written out afresh in time."""
    tiers = tiers_in(root)
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(500, dtype=np.uint64))], names=[HASH])
    _, history = fill(tiers, alike(batch, [1] * 500))
    worst = max(len({s.file for s in run.durable}) for runs in history for run in runs)
    assert worst <= files.DURABLE_FILES_MAX + 2


def test_large_runs_are_left_alone(root: Path) -> None:
    tiers = tiers_in(root, merge_bytes_max=20_000)
    marks = np.sort(np.random.default_rng(1).integers(0, 2**63, 4000, dtype=np.uint64))
    batch = pa.RecordBatch.from_arrays([pa.array(marks)], names=[HASH])
    runs, _ = fill(tiers, alike(batch, [200] * 20))
    assert max(run.bytes for run in runs) < 20_000 and len(runs) <= 5


def one_run(root: Path, merged: bool) -> tuple[Tiers, Run]:
    tiers = tiers_in(root, 300)
    marks = np.sort(np.random.default_rng(2).integers(0, 2**63, 100, dtype=np.uint64))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(marks), pa.array(np.arange(100))], names=[HASH, "v"]
    )
    runs, _ = fill(tiers, alike(batch, [50, 50] if merged else [100]))
    (run,) = runs
    assert merged == (run.memory != run.durable)
    return tiers, run


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    elif how == "truncate":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.unlink()


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("how", ["truncate", "missing"])
def test_a_damaged_memory_file_heals(root: Path, merged: bool, how: str) -> None:
    tiers, run = one_run(root, merged)
    path = Path(tiers.memory, run.memory[1].file)
    before = path.read_bytes()
    damage(path, how)
    assert whole(files.view(run, tiers)).num_rows == 100
    assert path.read_bytes() == before


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncate", "does not match its checksum"),
        ("flip", "does not match its checksum"),
        ("missing", "cannot be read"),
    ],
)
def test_a_damaged_checkpoint_file_is_named(root: Path, merged: bool, how: str, words: str) -> None:
    tiers, run = one_run(root, merged)
    path = Path(tiers.durable, run.durable[0].file)
    damage(path, how)
    Path(tiers.memory, run.memory[0].file).unlink()
    with pytest.raises(StateError, match=words) as caught:
        files.view(run, tiers)
    assert caught.value.where == str(path) and "copy" in caught.value.hint


@pytest.mark.parametrize("how", ["truncate", "missing"])
def test_reading_a_damaged_file_names_it(root: Path, how: str) -> None:
    tiers, run = one_run(root, False)
    path = Path(tiers.memory, run.memory[0].file)
    damage(path, how)
    with pytest.raises(StateError) as caught:
        files.read(tiers.memory, run.memory[0])
    assert caught.value.where == str(path)


def test_what_is_made_again_is_checked(root: Path) -> None:
    """A manifest whose memory and durable parts do not belong together."""
    tiers, run = one_run(root, True)
    first = run.memory[0]
    wrong = Segment(first.file, 0, first.rows, first.bytes, "0" * 16, first.lo, first.hi)
    for segment in run.memory:
        Path(tiers.memory, segment.file).unlink()
    with pytest.raises(StateError, match="differs from what was there"):
        files.view(Run(run.id, run.rows, (wrong, *run.memory[1:]), run.durable), tiers)


def test_no_space_leaves_no_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiers = tiers_in(root)
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(9, dtype=np.uint64))], names=[HASH])
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    class Names:
        version, node = 1, 0

        def name(self) -> str:
            return "0000000001-0000-aaaaaaaaaaaa.arrow"

    Path(tiers.memory, Names().name()).symlink_to("/dev/full")
    with pytest.raises(
        StateError, match="no space left for state; the last commit stands"
    ) as caught:
        files.write_run(batch, tiers, Names(), [tiers.memory])  # type: ignore[arg-type]
    assert caught.value.where.startswith(tiers.memory)
    assert not os.listdir(tiers.memory), "half a file takes up the space that is missing"


def test_sweep_takes_only_what_nobody_names_or_writes(root: Path) -> None:
    tiers = tiers_in(root)
    names = [Fresh(version, 0).name() for version in (1, 2, 3, 9)]
    for name in [*names, f".{names[1]}.part", "stranger"]:
        Path(tiers.memory, name).touch()
    files.sweep(Path(tiers.memory), {names[0]}, version=3)
    assert sorted(os.listdir(tiers.memory)) == sorted([names[0], names[3]])
    files.sweep(Path(tiers.memory), {names[0]}, version=None)
    assert os.listdir(tiers.memory) == [names[0]]
