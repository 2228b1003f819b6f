"""What SQLite and SQLAlchemy raise, as StoreError: what happened, where, what to do, whether to try again."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from control.errors import StoreConflict, StoreError, StoreInvalid


@dataclass(frozen=True, slots=True)
class Told:
    """What one of SQLite's results means to somebody who runs Spillway."""

    what: str
    hint: str
    again: bool = True


DAMAGED = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB"})
_TOLD: Mapping[str, Told] = {
    "SQLITE_BUSY": Told(
        "another process keeps the store locked",
        "Try again; if it lasts, look for a backup or a shell that has the file open.",
    ),
    "SQLITE_LOCKED": Told("the store is locked", "Try again."),
    "SQLITE_FULL": Told("the disk is full", "Make room; nothing of this was written."),
    "SQLITE_IOERR": Told("the disk failed", "Look at the disk and the system's log."),
    "SQLITE_CANTOPEN": Told(
        "the file cannot be opened", "See that the data folder is there and may be written."
    ),
    "SQLITE_READONLY": Told(
        "the file may not be written", "Give this user write permission to the data folder."
    ),
    "SQLITE_PERM": Told(
        "access is denied", "Give this user write permission to the data folder.", False
    ),
    "SQLITE_CORRUPT": Told(
        "the file is damaged", "Stop Spillway and restore a backup: run.py restore.", False
    ),
    "SQLITE_NOTADB": Told(
        "the file is not a store", "Stop Spillway and restore a backup: run.py restore.", False
    ),
    "SQLITE_INTERRUPT": Told(
        "a read took too long and was ended", "Ask for less: a shorter time, fewer rows."
    ),
}
_CONSTRAINTS: Mapping[str, str] = {
    "SQLITE_CONSTRAINT_FOREIGNKEY": "it refers to something that is not there",
    "SQLITE_CONSTRAINT_NOTNULL": "a value is missing",
    "SQLITE_CONSTRAINT_TRIGGER": "audit lines are never changed",
}


def name_of(error: BaseException) -> str:
    """SQLite's own name for what happened, like SQLITE_BUSY; empty when it was not SQLite."""
    inner = getattr(error, "orig", None) or error
    return str(getattr(inner, "sqlite_errorname", "") or "")


def is_damage(error: BaseException) -> bool:
    return any(name_of(error).startswith(name) for name in DAMAGED)


def explained(error: Exception, where: str) -> StoreError:
    """The StoreError that stands for what was raised."""
    name = name_of(error)
    if name.startswith("SQLITE_CONSTRAINT"):
        return _constraint(name, where)
    if name.startswith("SQLITE_TOOBIG"):
        return StoreInvalid("a text is too large for the store", where=where, hint="Give less.")
    for start, told in _TOLD.items():
        if name.startswith(start):
            return StoreError(told.what, where=where, hint=told.hint, again=told.again)
    if isinstance(error, PoolTimeout):
        hint = "Too many requests at once; try again."
        return StoreError("every connection is in use", where=where, hint=hint)
    if isinstance(error, StatementError) and error.orig is not None:
        return StoreInvalid(f"cannot be stored: {error.orig}", where=where)
    if isinstance(error, OverflowError | UnicodeError):
        return StoreInvalid(f"cannot be stored: {error}", where=where)
    hint = "This is a defect of Spillway: run.py diagnose gathers what a report needs."
    return StoreError(f"{type(error).__name__}: {error}", where=where, hint=hint, again=False)


def of_disk(error: OSError, where: str) -> StoreError:
    """For files that are handled here and not by SQLite."""
    place = str(error.filename or where)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError("the disk is full", where=place, hint="Make room.")
    hint = "See that the folder is there and that this user may write to it."
    return StoreError(error.strerror or str(error), where=place, hint=hint, again=False)


@contextmanager
def disk(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise of_disk(error, str(where)) from error


def _constraint(name: str, where: str) -> StoreError:
    text = _CONSTRAINTS.get(name)
    if text is None:
        return StoreConflict("it is there already", where=where)
    return StoreInvalid(text, where=where)


RAISED = (SQLAlchemyError, sqlite3.Error, OverflowError, UnicodeEncodeError)
