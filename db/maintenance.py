"""Checkpoints and backups. Restoring one is restore.py's.

Automatic checkpoints are off on every connection: SQLite before 3.51.3 can lose a commit when a checkpoint and
a writer reset the log at once. One task calls `checkpoint`: TRUNCATE, never PASSIVE, with a short wait, because
for as long as it waits behind a slow reader it stalls writers.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from control.errors import StoreError
from db.errors import RAISED, disk, explained, name_of
from db.files import File
from db.open import LEDGER_FILE, METRICS_FILE, Store

CHECKPOINT_WAIT_S = 0.1
CHECKPOINT_TRIES = 5


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
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # SQLite fills it
    try:
        with contextlib.closing(sqlite3.connect(source, timeout=5, isolation_level=None)) as db:
            db.execute("PRAGMA wal_autocheckpoint=0")
            db.execute("VACUUM INTO ?", (str(fresh),))
        check_whole(fresh)
    except RAISED as error:
        fresh.unlink(missing_ok=True)
        raise explained(error, str(source)) from error
    os.replace(fresh, target)
    sync(target, target.parent)
    return target


def check_whole(path: Path) -> None:
    """Raises when a file is damaged."""
    with contextlib.closing(reading(path)) as db:
        said = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if said != "ok":
        hint = "Use another backup."
        raise StoreError(f"it is damaged: {said}", where=str(path), hint=hint, again=False)


def reading(path: Path) -> sqlite3.Connection:
    """Nothing is written, and nothing of what its schema calls is trusted."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    db.execute("PRAGMA trusted_schema = OFF")
    return db


def sync(*paths: Path) -> None:
    """Contents and names are on disk afterwards."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
