"""One SQLite file: connections, transactions, and what is done when the file is gone, damaged or another one.

    read()   a transaction that is ended after READ_MOST_S
    write()  BEGIN IMMEDIATE; inside another write() of the same thread, a savepoint of it

A file is known by its inode: when another one lies at its path (restored, thrown away), connections are
made anew. SQLite's own automatic checkpoints are off: maintenance.py has the reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool

from control.errors import StoreError
from db.errors import RAISED, disk, explained, is_damage

READ_MOST_S = 2.0
BUSY_S = 5.0
CONNECTIONS = 8
STEPS = 10_000  # of SQLite's machine between two looks at the clock


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file holds, and how it is treated."""

    name: str
    tables: MetaData
    version: str
    synchronous: str
    disposable: bool  # may be made anew, empty


class File:
    """Thread-safe; `close` ends all connections."""

    def __init__(self, folder: Path, kind: Kind, busy_s: float = BUSY_S) -> None:
        self.path, self.kind, self.busy_s = folder / kind.name, kind, busy_s
        self._lock = threading.Lock()
        self._here = threading.local()
        self._key: tuple[int, int] | None = None
        self._engine: Engine | None = None
        with self._told():
            self._current()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        held: Connection | None = getattr(self._here, "connection", None)
        if held is not None:
            yield held
            return
        with self._told(), self._current().execution_options(start="BEGIN").begin() as connection:
            with _ended_after(connection, READ_MOST_S):
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        held: Connection | None = getattr(self._here, "connection", None)
        if held is not None:
            with self._told(), _savepoint(held):
                yield held
            return
        with self._told(), self._current().begin() as connection:
            self._here.connection = connection
            try:
                yield connection
            finally:
                self._here.connection = None

    @contextmanager
    def bare(self, busy_s: float) -> Iterator[sqlite3.Connection]:
        """A connection of its own outside any transaction: checkpoints, VACUUM."""
        with self._told():
            self._current()
            connection = sqlite3.connect(self.path, timeout=busy_s, isolation_level=None)
            try:
                connection.execute("PRAGMA wal_autocheckpoint=0")
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine, self._key = None, None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except RAISED as error:
            if self.kind.disposable and is_damage(error):
                self._set_aside()
                raise StoreError(
                    "the file was damaged; it was put aside and begun anew, empty",
                    where=str(self.path),
                    hint=f"What was in it is in {self.path.name}.damaged.",
                ) from error
            raise explained(error, str(self.path)) from error

    def _current(self) -> Engine:
        """The engine for the file that lies at the path now."""
        with disk(self.path):
            key = _key(self.path)
            if key is not None and key == self._key and self._engine is not None:
                return self._engine
            return self._anew()

    def _anew(self) -> Engine:
        with self._lock:
            key = _key(self.path)
            if key is None:
                self._missing()
                key = _key(self.path)
            if key != self._key or self._engine is None:
                self._open(key)
            assert self._engine is not None
            return self._engine

    def _missing(self) -> None:
        if not self.kind.disposable:
            raise StoreError(
                "there is no store here",
                where=str(self.path),
                hint="run.py up makes one; run.py restore brings a backup back.",
                again=False,
            )
        make(self.path, self.kind)

    def _open(self, key: tuple[int, int] | None) -> None:
        if self._engine is not None:
            self._engine.dispose()
        self._engine, self._key = connect(self.path, self.kind, self.busy_s), None
        check_version(self._engine, self.path, self.kind)
        self._key = key

    def _set_aside(self) -> None:
        """A damaged file gives way to an empty one, once, whoever notices first."""
        with self._lock, making(self.path):
            if _key(self.path) == self._key or self._key is None:
                if self._engine is not None:
                    self._engine.dispose()
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self.path, f"{self.path}.damaged")
                forget_wal(self.path)
            self._engine, self._key = None, None


def _key(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _ended_after(connection: Connection, most_s: float) -> Iterator[None]:
    """SQLite asks from time to time whether to go on."""
    driver: Any = connection.connection.driver_connection
    end = time.monotonic() + most_s
    driver.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    if not driver.in_transaction:  # SQLite itself ended it, as it does when the disk is full
        raise StoreError("the transaction had been rolled back", hint="Begin again.")
    connection.exec_driver_sql("SAVEPOINT inner_write")
    try:
        yield
    except BaseException:
        if driver.in_transaction:
            connection.exec_driver_sql("ROLLBACK TO inner_write")
            connection.exec_driver_sql("RELEASE inner_write")
        raise
    connection.exec_driver_sql("RELEASE inner_write")


def connect(path: Path, kind: Kind, busy_s: float = BUSY_S) -> Engine:
    """An engine whose transactions are BEGIN IMMEDIATE, unless `start` says otherwise."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=QueuePool,
        pool_size=CONNECTIONS,
        max_overflow=4 * CONNECTIONS,
        pool_timeout=busy_s,
        connect_args={"timeout": busy_s, "check_same_thread": False},
    )

    def opened(driver: sqlite3.Connection, _: object) -> None:
        driver.isolation_level = None  # transactions are begun below, not by the driver
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={kind.synchronous}",
            "wal_autocheckpoint=0",
            "foreign_keys=ON",
            # Some systems' SQLite writes zeros over what is freed: twice the bytes for each tick's blob.
            *(("secure_delete=OFF",) if kind.disposable else ()),
        ):
            driver.execute(f"PRAGMA {pragma}")

    def begun(connection: Connection) -> None:
        start = connection.get_execution_options().get("start", "BEGIN IMMEDIATE")
        connection.exec_driver_sql(start)

    event.listen(engine, "connect", opened)
    event.listen(engine, "begin", begun)
    return engine


def version_of(engine: Engine) -> str | None:
    """The revision that a file says it has."""
    with engine.execution_options(start="BEGIN").begin() as connection:
        there = "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"
        if connection.exec_driver_sql(there).first() is None:
            return None
        row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
        return None if row is None else str(row[0])


def check_version(engine: Engine, path: Path, kind: Kind) -> None:
    found = version_of(engine)
    if found == kind.version:
        return
    if found is None:
        text, hint = "this is no store of Spillway's", "Give another data folder."
    elif found < kind.version:
        text, hint = f"the store is older ({found})", "run.py up brings it up to date."
    else:
        text = f"the store was written by a newer Spillway ({found})"
        hint = "Use that version, or restore a backup made by this one."
    hint += f" This version reads {kind.version}."
    raise StoreError(text, where=str(path), hint=hint, again=False)


@contextmanager
def making(path: Path) -> Iterator[None]:
    """One process at a time makes or replaces a file."""
    with open(f"{path}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(path: Path, kind: Kind) -> bool:
    """An empty file with today's tables. It is at its path whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with making(path):
        if path.exists():
            return False
        fresh = Path(f"{path}.new")
        fresh.unlink(missing_ok=True)
        engine = connect(fresh, kind)
        with engine.begin() as connection:
            kind.tables.create_all(connection)
            connection.exec_driver_sql(
                "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
                "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
            )
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (kind.version,))
        engine.dispose()
        forget_wal(path)  # of a file that was deleted without it: SQLite would read it
        os.chmod(fresh, 0o600)  # hashes of passwords are in it
        os.replace(fresh, path)
        return True


def forget_wal(path: Path) -> None:
    """Nothing may have the file open that is meant by it."""
    for end in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{end}")
