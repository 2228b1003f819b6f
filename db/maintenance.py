"""Checkpoints, backup, restore.

Automatic checkpoints are off on every connection: SQLite before 3.51.3 can lose a commit when a checkpoint and
a writer reset the log at once. One task calls `checkpoint`: TRUNCATE, never PASSIVE, with a short wait, because
for as long as it waits behind a slow reader it stalls writers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from control.errors import StoreError
from db.errors import RAISED, disk, explained, name_of
from db.files import File, Kind, forget_wal, making
from db.open import LEDGER_FILE, METRICS_FILE, Store

CHECKPOINT_WAIT_S = 0.1
CHECKPOINT_TRIES = 5
LOCKS = ("up.lock", "control.lock", "engine.lock")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Of one file: whether its log is empty now, after how many tries, and what is in it."""

    name: str
    done: bool
    tries: int
    wal_bytes: int


@dataclass(frozen=True, slots=True)
class About:
    """For Settings and diagnose."""

    sqlite: str
    wal_reset_bug: bool  # this SQLite has it; automatic checkpoints are off either way
    ledger_bytes: int
    metrics_bytes: int
    wal_bytes: int


def checkpoint(store: Store, tries: int = CHECKPOINT_TRIES) -> tuple[Checkpoint, ...]:
    """Logs into their files. One that a reader holds up is left for the next time."""
    return tuple(_checkpoint(file, tries) for file in (store.ledger_file, store.metrics_file))


def _checkpoint(file: File, tries: int) -> Checkpoint:
    number, done = 0, False
    with file.bare(CHECKPOINT_WAIT_S) as db:
        while number < tries and not done:
            number += 1
            done = _tried(db)
    return Checkpoint(file.kind.name, done, number, _wal_bytes(file.path))


def _tried(db: sqlite3.Connection) -> bool:
    try:
        busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        if name_of(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return False
        raise
    return not busy


def about(store: Store) -> About:
    ledger, metrics = store.ledger_file.path, store.metrics_file.path
    return About(
        sqlite3.sqlite_version,
        sqlite3.sqlite_version_info < (3, 51, 3),
        _size(ledger),
        _size(metrics),
        _wal_bytes(ledger) + _wal_bytes(metrics),
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _wal_bytes(path: Path) -> int:
    return _size(Path(f"{path}-wal"))


def backup(folder: Path, target: Path, *, metrics: bool = False) -> tuple[Path, ...]:
    """Copies into a folder, each as it was at one moment, while everything runs on.

    The ledger; `metrics` too, on request: they are large, and may be lost."""
    kinds = (LEDGER_FILE, METRICS_FILE) if metrics else (LEDGER_FILE,)
    for kind in kinds:
        if (target / kind.name).exists():
            hint = "Give another folder."
            raise StoreError("there is a backup already", where=str(target), hint=hint, again=False)
    with disk(target):
        target.mkdir(parents=True, exist_ok=True)
        return tuple(copy_whole(folder / kind.name, target / kind.name) for kind in kinds)


def copy_whole(source: Path, target: Path) -> Path:
    """A consistent copy by VACUUM INTO, checked, on disk; at its name whole or not at all."""
    fresh = Path(f"{target}.new")
    fresh.unlink(missing_ok=True)
    if not source.exists():
        raise StoreError("there is no store here", where=str(source), again=False)
    try:
        with contextlib.closing(sqlite3.connect(source, timeout=5, isolation_level=None)) as db:
            db.execute("PRAGMA wal_autocheckpoint=0")
            db.execute("VACUUM INTO ?", (str(fresh),))
        _check(fresh)
    except RAISED as error:
        fresh.unlink(missing_ok=True)
        raise explained(error, str(source)) from error
    os.replace(fresh, target)
    _sync(target, target.parent)
    return target


def _check(path: Path) -> None:
    """Raises when a file is damaged."""
    with contextlib.closing(_reading(path)) as db:
        said = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if said != "ok":
        hint = "Use another backup."
        raise StoreError(f"it is damaged: {said}", where=str(path), hint=hint, again=False)


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _version(db: sqlite3.Connection) -> str | None:
    there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    row = db.execute("SELECT version_num FROM alembic_version").fetchone() if there else None
    return None if row is None else str(row[0])


def _sync(*paths: Path) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def restore(source: Path, folder: Path) -> tuple[Path, ...]:
    """A backup's files in place of a folder's, which go to `replaced/`. Nothing may be running there.
    `source` is the folder of a backup, or a copy of a ledger by itself, as an upgrade makes it.

    The engine, at its next start, reconciles commands and actions with its own commits."""
    found = _found(source)
    for path, kind in found:
        _fit(path, kind)
    with disk(folder), _alone(folder):
        return tuple(_put_back(path, folder / kind.name) for path, kind in found)


def _found(source: Path) -> list[tuple[Path, Kind]]:
    if source.is_file():
        return [(source, LEDGER_FILE)]
    kinds = (LEDGER_FILE, METRICS_FILE)
    found = [(source / k.name, k) for k in kinds if (source / k.name).exists()]
    if (source / LEDGER_FILE.name, LEDGER_FILE) not in found:
        hint = "Give what run.py backup wrote, or a copy of a ledger."
        raise StoreError("there is no backup here", where=str(source), hint=hint, again=False)
    return found


def _fit(path: Path, kind: Kind) -> None:
    try:
        _check(path)
        with contextlib.closing(_reading(path)) as db:
            found = _version(db)
    except RAISED as error:
        raise explained(error, str(path)) from error
    if found is None or found > kind.version:
        text = "this is no store of Spillway's" if found is None else f"it is newer ({found})"
        hint = f"This version reads up to {kind.version}."
        raise StoreError(text, where=str(path), hint=hint, again=False)


def _put_back(source: Path, target: Path) -> Path:
    fresh = Path(f"{target}.new")
    shutil.copyfile(source, fresh)
    _sync(fresh)
    with making(target):
        if target.exists():
            _aside(target)
        # A log without its file would be read into the new one.
        forget_wal(target)
        os.replace(fresh, target)
    _sync(target.parent)
    return target


def _aside(path: Path) -> None:
    """The file that is replaced, with what is in its log; as it is, when it cannot be read."""
    old = path.parent / "replaced" / path.name
    old.parent.mkdir(exist_ok=True)
    try:
        copy_whole(path, old)
    except StoreError:
        for end in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{end}", f"{old}{end}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the locks of all processes meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        for name in LOCKS:
            file = held.enter_context(open(folder / name, "a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = f"{name.removesuffix('.lock')} is running"
                hint = "Stop it first: run.py up ends with Ctrl-C."
                raise StoreError(text, where=str(folder), hint=hint, again=False) from None
        yield
