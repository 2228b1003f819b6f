"""Changing a generated stream while its query runs: the record of what was asked for.

`<checkpoint>/workload/<stream>.json` holds the stream's options as the query file has them and every change
since, oldest first, each with its time. The engine writes it; the stream's reader, which Spark runs in a process
of its own, looks into it whenever it plans a batch. What a reader has taken is in its offsets (segments.py), so
nothing depends on the record once a batch is planned. Not here: what a change does to rows.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.errors import HostError, QueryFileError, SourceError
from engine.query.model import StreamSpec, is_stream_name
from engine.sources.generator import FORMAT, generate
from engine.sources.knobs import LIVE, OPTIONS, read_knobs
from engine.sources.segments import Segment, fixed_of, keys_dealt, live_of

FOLDER = "workload"
CHANGES_MAX = 500  # what is older has long been taken
SLOW_MAX = 1000.0


@dataclass(frozen=True, slots=True)
class Change:
    """From a time on (microseconds since 1970) the stream has these options, of those that may change. `asked`:
    what differs, as it was asked for; `file`: by editing the query file."""

    at_us: int
    options: Mapping[str, str]
    asked: Mapping[str, str] = field(default_factory=dict)
    file: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One stream's. `declared`: as in the query file; `readers`: how often the query reads it."""

    declared: Mapping[str, str]
    changes: Sequence[Change]
    readers: int = 1

    @property
    def fixed(self) -> dict[str, str]:
        return fixed_of(self.declared)

    @property
    def base(self) -> Change:
        """As the query file last had it."""
        return next(change for change in reversed(self.changes) if change.file)


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream as it was last asked for. `values`: every option that may change, as a user would write it."""

    stream: str
    values: Mapping[str, str]
    changed: Mapping[str, str]  # of these, what differs from the query file


def change(checkpoint: Path, stream: str, options: Mapping[str, Any], *, now_us: int) -> Workload:
    """Have a running query's stream go on with other options from its next planned batch on; an empty value
    takes an option back to its default. Any thread or process may call it; QueryFileError says what is wrong."""
    path = _path(checkpoint / FOLDER, stream)
    asked = {name.lower(): _text(value) for name, value in options.items()}
    with _alone(path):
        record = read(path)
        if record is None:
            raise SourceError(
                f"no generated stream {stream} has been started here",
                where=str(checkpoint),
                hint=f"There are: {', '.join(streams(checkpoint)) or 'none'}.",
            )
        last = record.changes[-1]
        _check(stream, record, asked, last)
        after = {n: t for n, t in {**last.options, **asked}.items() if t}
        if after != dict(last.options):
            _try(record, after)
            made = Change(max(now_us, last.at_us + 1), after, asked)
            record = replace(record, changes=(*record.changes, made))
            _write(path, record)
    return _workload(stream, record)


def current(checkpoint: Path, stream: str) -> Workload | None:
    """What a stream was last asked to be; None if it is not generated, or was never started."""
    record = read(_path(checkpoint / FOLDER, stream))
    return _workload(stream, record) if record else None


def streams(checkpoint: Path) -> list[str]:
    """The generated streams of a query that was started."""
    return sorted(path.stem for path in (checkpoint / FOLDER).glob("*.json"))


def slow_down(slow: dict[int, float], nodes: int, wanted: Mapping[Any, Any]) -> dict[int, float]:
    """Have nodes of a running query take so many seconds more for every 1000 rows (0: none) from its next tick
    on; what holds then. `slow` is QueryRun.slow; nothing is changed if anything is wrong."""
    found: dict[int, float] = {}
    for node, seconds in wanted.items():
        try:
            number, value = int(node), float(seconds)
        except (TypeError, ValueError):
            number, value = -1, -1.0
        if not (0 <= number < nodes and 0 <= value <= SLOW_MAX):
            raise HostError(
                f"node {node} cannot be slowed down by {seconds!r} s for 1000 rows",
                where="slow",
                hint=f"Nodes are 0 to {nodes - 1}, seconds 0 to {SLOW_MAX:g}.",
            )
        found[number] = value
    slow.update(found)
    return {node: value for node, value in slow.items() if value}


# -- the engine's and the reader's side ---------------------------------------------------------------


def prepare_all(checkpoint: Path, streams: Iterable[StreamSpec], now_us: int) -> dict[str, Path]:
    """Before a query's streams start: the records of those that are generated, as often as each is read."""
    given = [stream for stream in streams if stream.format == FORMAT]
    readers = Counter(stream.name for stream in given)
    return {
        stream.name: prepare(
            checkpoint, stream.name, stream.options, readers=readers[stream.name], now_us=now_us
        )
        for stream in given
    }


def prepare(
    checkpoint: Path, stream: str, options: Mapping[str, Any], *, readers: int = 1, now_us: int
) -> Path:
    """Before a stream starts: note its options as the query file has them. Were they edited since the last time,
    the file has the last word: that is a change like any other."""
    path = _path(checkpoint / FOLDER, stream)
    declared = {name.lower(): str(text) for name, text in options.items()}
    live = {name: text for name, text in live_of(declared).items() if text}
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        record = read(path) or Record(declared, (Change(0, live, file=True),), readers)
        if live != dict(record.base.options):
            at = max(now_us, record.changes[-1].at_us + 1)
            record = replace(record, changes=(*record.changes, Change(at, live, live, file=True)))
        _write(path, replace(record, declared=declared, readers=readers))
    return path


def read(path: Path) -> Record | None:
    """A stream's record; None if there is none."""
    try:
        raw = json.loads(path.read_text())
        changes = tuple(Change(**change) for change in raw["changes"])
        record = Record(raw["declared"], changes, raw["readers"])
        assert record.base.options is not None
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, StopIteration) as error:
        raise SourceError(
            "the record of changes to a generated stream cannot be read",
            where=str(path),
            hint="Remove the file: the stream goes on as it is now.",
        ) from error
    return record


def _path(folder: Path, stream: str) -> Path:
    """A stream's record. The name of a stream is no path, whoever gives it: it cannot lead out of the folder."""
    if not is_stream_name(stream):
        raise SourceError(
            f"there is no stream {stream!r}: this is no stream's name",
            hint="Names of streams are letters, digits and _.",
        )
    return folder / f"{stream}.json"


def _write(path: Path, record: Record) -> None:
    """Whole or not at all, and there to stay."""
    first, rest = record.changes[0], record.changes[1:]
    body = asdict(replace(record, changes=(first, *rest[-CHANGES_MAX:])))
    part = path.with_name(f".{path.name}.new")
    try:
        with part.open("w") as file:
            json.dump(body, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise SourceError(
            f"the change cannot be written: {error.strerror}",
            where=str(path),
            hint="Make room, or give this user write permission; nothing was changed.",
        ) from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One change at a time. A folder that is not there has nothing to be guarded."""
    if not path.parent.is_dir():
        yield
        return
    with path.with_name(f".{path.name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- checks ---------------------------------------------------------------------------------------------


def _check(stream: str, record: Record, asked: Mapping[str, str], last: Change) -> None:
    """May these options be changed, here and now?"""
    if record.readers > 1:
        raise QueryFileError(
            f"the query reads stream {stream} {record.readers} times, and all must see the same rows",
            where=f"stream {stream}",
            hint="Only streams that are read once can be changed while they run.",
        )
    for name in asked:
        if name in OPTIONS and name not in LIVE:
            raise QueryFileError(
                "it cannot be changed while the query runs",
                where=f"generator option {name}",
                hint=f"These can: {', '.join(n for n in OPTIONS if n in LIVE)}.",
            )
    whole = read_knobs({**record.fixed, **last.options, **asked})
    if asked.get("shift") and not whole.zipf and whole.skew == 1:
        raise QueryFileError(
            "no keys are hotter than others",
            where="generator option shift",
            hint="It needs zipf or skew; or give class_shares in another order.",
        )
    if whole.fresh_keys:
        _check_fresh(record, whole.tuple_range, keys_dealt(whole))


def _check_fresh(record: Record, tuple_range: int | None, keys: int) -> None:
    """Streams with fresh keys meet because they have the same ones at the same time."""
    base = read_knobs({**record.fixed, **record.base.options})
    hint = "Change rate or join_ratio: the range lasts as long as it did."
    if tuple_range != base.tuple_range:
        what = "with fresh_keys other streams would not have the same keys"
        raise QueryFileError(what, where="generator option tuple_range", hint=hint)
    if keys > keys_dealt(base):
        raise QueryFileError(
            f"with fresh_keys it cannot be less than in the query file, {base.join_ratio}",
            where="generator option join_ratio",
            hint="A range has no more keys than its number had when the query was written.",
        )


def _try(record: Record, options: Mapping[str, str]) -> None:
    """A row, made with the options: some errors show only then."""
    generate(Segment(read_knobs({**record.fixed, **options})), 0, 0, 1)


def _text(value: Any) -> str:
    """As a user would write it in a query file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value)
    return str(value).strip()


def _workload(stream: str, record: Record) -> Workload:
    last, base = record.changes[-1], record.base
    values = {n: last.options.get(n, OPTIONS[n].default) for n in OPTIONS if n in LIVE}
    before = {n: base.options.get(n, OPTIONS[n].default) for n in values}
    changed = {n: text for n, text in values.items() if text != before[n]}
    return Workload(stream, values, changed)
