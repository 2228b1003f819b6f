"""Putting a backup back in place of a data folder's files.

A backup is a file that somebody had in hands: its tables, indexes, triggers and views must be exactly those of its
own version, and the audit's triggers are made anew. It is also old: whoever signed in then is signed out, and what
was taken away since (tokens revoked, users disabled, passwords changed) stays so. Lines that the audit got since are
kept, and one more says that the backup was restored.

The engine, at its next start, reconciles commands and actions with its own commits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alembic.util import CommandError

from control.errors import StoreError
from control.people import Role, Source
from db.errors import RAISED, disk, explained
from db.files import Kind, connect, forget_wal, making
from db.maintenance import check_whole, copy_whole, reading, sync
from db.open import LEDGER_FILE, METRICS_FILE
from db.schema import AUDIT_TRIGGERS, trigger_sql
from db.upgrade import migrate

LOCKS = ("up.lock", "control.lock", "engine.lock")
VERSION = re.compile(r"(ledger|metrics)_\d{4}")
OF_SQLITE = re.compile(r"sqlite_(sequence|stat[1-4]|autoindex_.*)")
Schema = dict[tuple[str, str], str]  # kind and name → SQL


@dataclass(frozen=True, slots=True)
class Restored:
    """The files that were put back, and what of the ledger that was there is still valid. `before`: there was one,
    and it could be read."""

    files: tuple[Path, ...]
    before: bool = False
    sessions: int = 0  # that the backup would have brought back
    revoked: int = 0  # tokens
    disabled: int = 0  # users
    changed: int = 0  # users whose later password or lesser role stays
    lines: int = 0  # of the audit

    def __str__(self) -> str:
        if not self.before:
            return "there was no ledger here to compare with: everybody signs in again; look through tokens and users"
        return (
            f"kept of what was here: {self.revoked} revoked tokens, {self.disabled} disabled users, {self.changed} "
            f"changed passwords or roles, {self.lines} lines of the audit; everybody signs in again"
        )


def restore(source: Path, folder: Path, *, now_s: float) -> Restored:
    """A backup's files in place of a folder's, which go to `replaced/`. Nothing may be running there.
    `source` is the folder of a backup, or a copy of a ledger by itself, as an upgrade makes it."""
    found = _found(source)
    with disk(folder), _alone(folder), ExitStack() as fresh:
        copies = [(fresh.enter_context(_copy(path, folder, kind)), kind) for path, kind in found]
        for copy, kind in copies:
            _fit(copy, kind, source)
        done = Restored(())
        for copy, kind in copies:
            target = folder / kind.name
            with making(target):
                old = _aside(target)
                if kind is LEDGER_FILE:
                    done = _carried(old, copy, source, now_s)
                _put_back(copy, target)
    return replace(done, files=tuple(folder / kind.name for _, kind in copies))


def _found(source: Path) -> list[tuple[Path, Kind]]:
    if source.is_file():
        return [(source, LEDGER_FILE)]
    kinds = (LEDGER_FILE, METRICS_FILE)
    found = [(source / k.name, k) for k in kinds if (source / k.name).exists()]
    if (source / LEDGER_FILE.name, LEDGER_FILE) not in found:
        hint = "Give what run.py backup wrote, or a copy of a ledger."
        raise StoreError("there is no backup here", where=str(source), hint=hint, again=False)
    return found


@contextmanager
def _copy(source: Path, folder: Path, kind: Kind) -> Iterator[Path]:
    """A private copy beside the file that it will replace: what is checked is what is put back."""
    fresh = folder / f"{kind.name}.new"
    fresh.unlink(missing_ok=True)
    try:
        with (
            source.open("rb") as file,
            open(fresh, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy,
        ):
            shutil.copyfileobj(file, copy)
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
        forget_wal(fresh)


# -- is it one of ours? --------------------------------------------------------------------------------


def _fit(path: Path, kind: Kind, said_of: Path) -> None:
    """Raises unless it is whole, of a version that is known, and with that version's tables; its audit's
    triggers are made anew."""
    try:
        check_whole(path)
        with contextlib.closing(reading(path)) as db:
            found, schema = _version(db), _schema(db)
    except RAISED as error:
        raise explained(error, str(said_of)) from error
    if found is None or found > kind.version:
        text = "this is no store of Spillway's" if found is None else f"it is newer ({found})"
        hint = f"This version reads up to {kind.version}."
        raise StoreError(text, where=str(said_of), hint=hint, again=False)
    wanted = _schema_of(kind, found) if VERSION.fullmatch(found) else {}
    triggers = {("trigger", name) for name in AUDIT_TRIGGERS}
    odd = {key for key in {*schema, *wanted} - triggers if schema.get(key) != wanted.get(key)}
    if wanted == {} or odd:
        names = ", ".join(f"{what} {name}" for what, name in sorted(odd)[:5])
        raise StoreError(
            f"its tables are not those of {found}: {names or 'no such version'}",
            where=str(said_of),
            hint="Somebody has changed it. Use another backup.",
            again=False,
        )
    if kind is LEDGER_FILE:
        _triggers_anew(path, {key: sql for key, sql in wanted.items() if key in triggers})


def _version(db: sqlite3.Connection) -> str | None:
    there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    row = db.execute("SELECT version_num FROM alembic_version").fetchone() if there else None
    return None if row is None else str(row[0])


def _schema(db: sqlite3.Connection) -> Schema:
    """Everything that is in a file, however it was spelt. Only tables and indexes may be SQLite's own."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {
        (str(kind), str(name)): re.sub(r"[\s\"]+", "", str(sql))
        for kind, name, sql in rows
        if not (kind in ("table", "index") and OF_SQLITE.fullmatch(str(name)))
    }


def _schema_of(kind: Kind, version: str) -> Schema:
    """What our own migrations make of nothing; empty for a version that never was."""
    with tempfile.TemporaryDirectory(prefix="spillway-") as folder:
        path = Path(folder) / kind.name
        engine = connect(path, kind)
        try:
            migrate(engine, replace(kind, version=version))
        except CommandError:
            return {}
        finally:
            engine.dispose()
        with contextlib.closing(reading(path)) as db:
            return _schema(db)


def _triggers_anew(path: Path, wanted: Schema) -> None:
    """Those that the file's version has, as we write them."""
    with _changing(path) as db:
        for name in AUDIT_TRIGGERS:
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
            if ("trigger", name) in wanted:
                db.execute(trigger_sql(name))


@contextmanager
def _changing(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction over a file that nobody else has open, without a log that would be left beside it."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
    except RAISED as error:
        raise explained(error, str(path)) from error


# -- what stays of the ledger that was there -----------------------------------------------------------


def _carried(present: Path, copy: Path, source: Path, now_s: float) -> Restored:
    """Into the copy: everybody is signed out, and what the present ledger took away stays so."""
    with _changing(copy) as db:
        sessions = db.execute("DELETE FROM sessions").rowcount
        done = Restored((), sessions=sessions)
        try:
            with contextlib.closing(reading(present)) as old:
                done = _taken_away(old, db, done)
        except sqlite3.Error:  # there is none, or it is damaged: that is why somebody restores
            done = Restored((), sessions=sessions)
        db.execute(
            "INSERT INTO audit (time_s, user, source, what, subject, outcome, detail) "
            "VALUES (?, '(command line)', ?, 'restore', ?, 'accepted', ?)",
            (now_s, Source.CLI.value, str(source), str(done)),
        )
    return done


def _taken_away(old: sqlite3.Connection, db: sqlite3.Connection, done: Restored) -> Restored:
    ended = "SELECT revoked_s, id FROM tokens WHERE revoked_s IS NOT NULL"
    end = "UPDATE tokens SET revoked_s = ? WHERE id = ? AND revoked_s IS NULL"
    revoked = sum(db.execute(end, row).rowcount for row in old.execute(ended).fetchall())
    done = replace(done, before=True, revoked=revoked)
    last = "SELECT id, time_s, user, what, subject FROM audit ORDER BY id DESC"
    same = "SELECT id, time_s, user, what, subject FROM audit WHERE id = ?"
    newest = db.execute(last).fetchone()
    if newest is not None and old.execute(same, newest[:1]).fetchone() != newest:
        return done  # another folder's ledger, or one older than the backup: its users say nothing of ours
    disabled, changed = 0, 0
    for row in _rows(old, "SELECT * FROM users"):
        disabled_now, changed_now = _user(db, row)
        disabled, changed = disabled + disabled_now, changed + changed_now
    return replace(
        done,
        disabled=disabled,
        changed=changed,
        lines=_lines(old, db, newest[0] if newest is not None else 0),
    )


def _rows(db: sqlite3.Connection, sql: str, given: tuple[object, ...] = ()) -> list[dict[str, Any]]:
    cursor = db.execute(sql, given)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _user(db: sqlite3.Connection, now: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a user was disabled in the copy, and whether a later password or a lesser role was put into it."""
    sql = "SELECT * FROM users WHERE name = ? AND created_s = ?"
    then = next(iter(_rows(db, sql, (now["name"], now["created_s"]))), None)
    if then is None:
        return False, False
    passwords = [name for name in ("password_hash", "must_change") if name in now and name in then]
    kept: dict[str, Any] = {
        **{name: now[name] for name in passwords},
        "role": min((now["role"], then["role"]), key=[role.value for role in Role].index),
        "disabled": int(now["disabled"] or then["disabled"]),
    }
    changes = ", ".join(f"{name} = ?" for name in kept)
    db.execute(f"UPDATE users SET {changes} WHERE name = ?", (*kept.values(), then["name"]))
    changed = any(kept[name] != then[name] for name in kept if name != "disabled")
    return kept["disabled"] != then["disabled"], changed


def _lines(old: sqlite3.Connection, db: sqlite3.Connection, after: int) -> int:
    """The audit's lines since the backup, with their numbers."""
    there = {row["name"] for row in _rows(old, "PRAGMA table_info(audit)")}
    both = [n for row in _rows(db, "PRAGMA table_info(audit)") if (n := row["name"]) in there]
    names, marks = ", ".join(both), ", ".join("?" * len(both))
    rows = old.execute(f"SELECT {names} FROM audit WHERE id > ? ORDER BY id", (after,)).fetchall()
    db.executemany(f"INSERT INTO audit ({names}) VALUES ({marks})", rows)
    return len(rows)


# -- in its place --------------------------------------------------------------------------------------


def _aside(path: Path) -> Path:
    """The file that is replaced, with what is in its log; as it is, when it cannot be read."""
    old = path.parent / "replaced" / path.name
    if not path.exists():
        return path
    old.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        return copy_whole(path, old)
    except StoreError:
        for end in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{end}", f"{old}{end}")
                os.chmod(f"{old}{end}", 0o600)
        return old


def _put_back(fresh: Path, target: Path) -> None:
    sync(fresh)
    forget_wal(target)  # a log without its file would be read into the new one
    os.replace(fresh, target)
    sync(target.parent)


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
