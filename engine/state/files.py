"""Segment files on a node: writing, mapping, merging runs, and making a lost memory copy again.

Runs inside tasks on workers. Which files make up the state is the manifest's business (model.py);
deleting them is the driver's (sweep.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from engine.columns import concat, longs, row_bytes, take_rows
from engine.errors import StateError
from engine.hashing import group_of, group_offsets, lower_bounds
from engine.operators.multi_join import View, hashes
from engine.state.model import Change, Hold, Run, Runs, Segment, Times, pack_counts
from engine.state.ranges import Ranges

MERGE_RATIO = 2  # a run at most so many times as large as the one after it is merged with it
DURABLE_FILES_MAX = 8  # a run made of more durable files is written out afresh when it merges


@dataclass(frozen=True, slots=True)
class Tiers:
    """Where files are: `memory` on tmpfs, `durable` in the checkpoint; and how large they may grow."""

    memory: str
    durable: str
    groups: int
    segment_bytes_max: int = 8_000_000
    merge_bytes_max: int = 256_000_000
    fsync: bool = False
    owner: str = (
        ""  # on a cluster, the checkpoint: each host has a memory folder of its own (hosts.py)
    )


@dataclass(frozen=True, slots=True)
class Fresh:
    """Names for the files that one task attempt writes."""

    version: int
    node: int

    def name(self) -> str:
        return f"{self.version:010d}-{self.node:04d}-{uuid.uuid4().hex[:12]}.arrow"


def sort_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in hash order; rows of equal hash keep their order."""
    return take_rows(batch, np.argsort(hashes(batch), kind="stable"))


def cuts(batch: pa.RecordBatch, tiers: Tiers) -> list[int]:
    """Row numbers at which a sorted batch is cut into segments, ends included."""
    rows = batch.num_rows
    step = max(1, int(tiers.segment_bytes_max / max(1.0, batch.nbytes / max(1, rows))))
    if rows <= step:
        return [0, rows]
    marks = hashes(batch)
    bounds = lower_bounds(tiers.groups)
    out = [0]
    while rows - out[-1] > step:
        at = out[-1] + step
        group = int(group_of(marks[at : at + 1], tiers.groups)[0])
        start = int(np.searchsorted(marks, bounds[group]))
        out.append(start if start > out[-1] else at)
    return [*out, rows]


def write_run(
    batch: pa.RecordBatch, tiers: Tiers, fresh: Fresh, folders: Sequence[str]
) -> tuple[Segment, ...]:
    """Write a sorted batch as segments into each of the folders under the same names."""
    ends = cuts(batch, tiers)
    return tuple(
        _write(batch.slice(a, b - a), fresh.name(), folders, tiers.fsync) for a, b in pairwise(ends)
    )


def _write(batch: pa.RecordBatch, name: str, folders: Sequence[str], fsync: bool) -> Segment:
    data = _encode(batch)
    for folder in folders:
        _store(os.path.join(folder, name), data, fsync)
    marks = hashes(batch)
    checksum = xxhash.xxh3_64_hexdigest(memoryview(data))
    return Segment(name, 0, batch.num_rows, data.size, checksum, int(marks[0]), int(marks[-1]))


def _encode(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _store(path: str, data: pa.Buffer, fsync: bool) -> None:
    try:
        with open(path, "wb", buffering=0) as file:
            rest = memoryview(data)
            while len(rest):
                rest = rest[file.write(rest) :]
            if fsync:
                os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(path)  # half a file takes up the space that is missing
        raise write_error(path, error) from error


def write_error(path: str, error: OSError) -> StateError:
    """The error for state that could not be written, with advice that fits the cause."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "Free space there or point `checkpoint` or the memory directory elsewhere, then start again."
        return StateError("no space left for state; the last commit stands", where=path, hint=hint)
    hint = "The last commit stands; repair the cause and start again."
    return StateError(f"state cannot be written ({error.strerror})", where=path, hint=hint)


def read(folder: str, segment: Segment) -> pa.RecordBatch:
    """Map a segment without copying it."""
    path = os.path.join(folder, segment.file)
    try:
        if os.path.getsize(path) != segment.bytes:
            raise StateError("state file has the wrong size", where=path, hint=_DAMAGED)
        batch = pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise StateError(
            f"state file cannot be read ({error})", where=path, hint=_DAMAGED
        ) from error
    return batch.slice(segment.start, segment.rows)


_DAMAGED = (
    "The checkpoint is damaged or incomplete: restore it from a copy, or start with a new one."
)


def verify(folder: str, segment: Segment) -> bytes:
    """A file's content, compared with its checksum."""
    path = os.path.join(folder, segment.file)
    try:
        with open(path, "rb") as file:
            content = file.read()
        found = xxhash.xxh3_64_hexdigest(content)
    except OSError as error:
        raise StateError(
            f"state file cannot be read ({error.strerror})", where=path, hint=_DAMAGED
        ) from error
    if found != segment.checksum:
        raise StateError("state file does not match its checksum", where=path, hint=_DAMAGED)
    return content


def whole(folder: str, segment: Segment) -> bool:
    try:
        return os.path.getsize(os.path.join(folder, segment.file)) == segment.bytes
    except OSError:
        return False


def view(run: Run, tiers: Tiers) -> View:
    """A run ready to be probed, fetched from the checkpoint first where it is missing."""
    ensure(run, tiers)
    batches = [read(tiers.memory, s) for s in run.memory]
    if run.trimmed:
        return View(batches)
    return View([part for batch in batches for part in slices(batch, run.groups, tiers.groups)])


def slices(batch: pa.RecordBatch, wanted: Ranges | None, groups: int) -> list[pa.RecordBatch]:
    """The rows of some groups in a sorted batch, without copying them."""
    if wanted is None or not batch.num_rows:
        return [batch]
    marks = hashes(batch)
    starts = group_offsets(marks, groups)
    parts = [batch.slice(starts[low], starts[high] - starts[low]) for low, high in wanted]
    return [part for part in parts if part.num_rows]


def ensure(run: Run, tiers: Tiers) -> bool:
    """Fetch a run from the checkpoint unless it is here; True if it had to be."""
    if all(whole(tiers.memory, segment) for segment in run.memory):
        return False
    fetch(run, tiers)
    return True


def fetch(run: Run, tiers: Tiers) -> None:
    """Make a run's memory files again from its durable ones, and check that they are the same."""
    if not run.memory:
        return
    if [s.file for s in run.memory] == [s.file for s in run.durable]:
        for segment in run.memory:
            _publish(tiers.memory, segment.file, pa.py_buffer(verify(tiers.durable, segment)))
        return
    for segment in {s.file: s for s in run.durable}.values():
        verify(tiers.durable, segment)
    parts = [
        part
        for s in run.durable
        for part in slices(read(tiers.durable, s), run.stored, tiers.groups)
    ]
    batch = sort_batch(concat(parts))
    at = 0
    for segment in run.memory:
        data = _encode(batch.slice(at, segment.rows))
        if xxhash.xxh3_64_hexdigest(memoryview(data)) != segment.checksum:
            raise StateError(
                "state made again differs from what was there", where=segment.file, hint=_DAMAGED
            )
        _publish(tiers.memory, segment.file, data)
        at += segment.rows


def _publish(folder: str, name: str, data: pa.Buffer) -> None:
    part = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}")
    _store(part, data, fsync=False)
    os.replace(part, os.path.join(folder, name))


@dataclass(frozen=True, slots=True)
class Clock:
    """The event time columns of an input, and how far apart in time runs may end that merge (None: any)."""

    columns: tuple[str, ...] = ()
    span_us: int | None = None

    def of(self, batch: pa.RecordBatch) -> Times:
        """Least and greatest of each."""
        stamps = [longs(batch.column(name)) for name in self.columns]
        return tuple((int(t.min()), int(t.max())) for t in stamps)

    def joins(self, one: Times, two: Times) -> bool:
        """May runs of these times be merged? A run goes when the last of its rows can, so the ends count. Time
        is cut into spans: runs that merge one after the other would else grow for ever."""
        span = self.span_us
        return span is None or all(
            a[1] // span == b[1] // span for a, b in zip(one, two, strict=True)
        )


UNTIMED = Clock()


Trim = Callable[[pa.RecordBatch], pa.RecordBatch]


def insert(
    runs: Runs,
    delta: pa.RecordBatch,
    tiers: Tiers,
    fresh: Fresh,
    clock: Clock = UNTIMED,
    trim: Trim | None = None,
    frozen: int = 0,
) -> Change:
    """Add a sorted delta to an input's runs: durable at once, merged with runs of its own size. `trim`
    leaves out the rows of merged runs that nobody needs any more; the first `frozen` runs stay as they are."""
    times = clock.of(delta)
    kept = _merge_from(runs, delta.num_rows, delta.nbytes, times, tiers, clock, frozen)
    merged = runs[kept:]
    times = hull([run.times for run in merged] + [times])
    if not merged:
        segments = write_run(delta, tiers, fresh, [tiers.memory, tiers.durable])
        return Change(kept, (_run(delta, segments, segments, times, tiers, fresh),))
    old = [b for run in merged for b in view(run, tiers).segments]
    batch = sort_batch(concat([*old, delta]))
    needed = trim(batch) if trim is not None else batch
    if needed.num_rows < batch.num_rows:
        return Change(kept, written(needed, tiers, fresh, clock))
    own = write_run(delta, tiers, fresh, [tiers.durable])
    durable = tuple(s for run in merged for s in run.durable) + own
    afresh = len({s.file for s in durable}) > DURABLE_FILES_MAX + len(cuts(batch, tiers))
    afresh = afresh or any(run.groups is not None for run in merged)
    folders = [tiers.memory, tiers.durable] if afresh else [tiers.memory]
    segments = write_run(batch, tiers, fresh, folders)
    run = _run(batch, segments, segments if afresh else durable, times, tiers, fresh)
    return Change(kept, (run,))


def _run(
    batch: pa.RecordBatch,
    memory: tuple[Segment, ...],
    durable: tuple[Segment, ...],
    times: Times,
    tiers: Tiers,
    fresh: Fresh,
) -> Run:
    starts = group_offsets(hashes(batch), tiers.groups)
    counts = pack_counts(np.diff(starts), row_bytes(batch, starts))
    return Run(fresh.name()[:-6], batch.num_rows, memory, durable, times, counts)


def written(
    batch: pa.RecordBatch, tiers: Tiers, fresh: Fresh, clock: Clock, *, memory: bool = True
) -> Runs:
    """A run of these sorted rows and no others, in both tiers or the durable one alone; none if there are none."""
    if not batch.num_rows:
        return ()
    folders = [tiers.memory, tiers.durable] if memory else [tiers.durable]
    segments = write_run(batch, tiers, fresh, folders)
    mine = segments if memory else ()
    return (_run(batch, mine, segments, clock.of(batch), tiers, fresh),)


def lying(run: Run, tiers: Tiers) -> Iterator[pa.RecordBatch]:
    """A run's sorted rows where they are: in memory, or, if it is there only, on disk."""
    folder, segments = (tiers.memory, run.memory) if run.memory else (tiers.durable, run.durable)
    for segment in segments:
        yield read(folder, segment)


def hold(
    operator: str, side: int, batch: pa.RecordBatch, clock: Clock, tiers: Tiers, fresh: Fresh
) -> Hold:
    """Write sorted rows that have to wait into the hold buffer."""
    whole = replace(tiers, segment_bytes_max=1 << 40)
    (segment,) = write_run(batch, whole, fresh, [tiers.durable])
    counts = np.diff(group_offsets(hashes(batch), tiers.groups))
    at = np.flatnonzero(counts)
    groups, rows = tuple(at.tolist()), tuple(counts[at].tolist())
    return Hold(operator, side, segment, groups, rows, clock.of(batch))


def hull(times: Sequence[Times]) -> Times:
    return tuple(
        (min(t[0] for t in column), max(t[1] for t in column))
        for column in zip(*times, strict=True)
    )


def _merge_from(
    runs: Runs, rows: int, size: int, times: Times, tiers: Tiers, clock: Clock, frozen: int
) -> int:
    """How many of the oldest runs stay as they are when `rows` more come in."""
    kept = len(runs)
    while (
        kept > frozen
        and runs[kept - 1].rows <= MERGE_RATIO * rows
        and clock.joins(times, runs[kept - 1].times)
    ):
        times = hull([times, runs[kept - 1].times])
        size += runs[kept - 1].bytes
        if size > tiers.merge_bytes_max:
            break
        rows += runs[kept - 1].rows
        kept -= 1
    return kept


def in_order(runs: Runs, span_us: int | None) -> Runs:
    """Runs of several origins as `insert` wants them: it merges the last ones, so what new rows may merge with
    must be last. Old spans of time first; within one, large runs first."""

    def key(run: Run) -> tuple[tuple[int, ...], int]:
        return tuple(end // span_us for _, end in run.times) if span_us else (), -run.rows

    return tuple(sorted(runs, key=key))


OWNER_NOTE = ".owner"  # whose folder it is


def sweep(folder: Path, keep: Iterable[str], *, version: int | None, parts: bool = True) -> int:
    """Delete files in a state folder that no manifest names; with `version`, not those of later ones, and
    without `parts` no copies that are being made. Another task may be doing the same."""
    wanted = set(keep)
    dropped = 0
    for entry in os.scandir(folder):
        stem = entry.name.lstrip(".")
        if entry.name == OWNER_NOTE or (not parts and entry.name.startswith(".")):
            continue
        made = int(stem[:10]) if stem[:10].isdigit() else 0
        if entry.name not in wanted and (version is None or made <= version):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)
            dropped += 1
    return dropped
