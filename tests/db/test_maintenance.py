"""Checkpoints beside readers and writers; backups that are whole; restoring one."""

from __future__ import annotations

import fcntl
import itertools
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from time import perf_counter

import pytest

from control.errors import StoreError
from db.maintenance import LOCKS, about, backup, checkpoint, restore
from db.open import Store, open_store
from tests.db.made import START_S, command, sample, user

S = START_S


def wal(store: Store, name: str = "ledger.db") -> int:
    path = store.folder / f"{name}-wal"
    return path.stat().st_size if path.exists() else 0


def test_nothing_is_checkpointed_but_by_a_checkpoint(store: Store) -> None:
    checkpoint(store)
    begun = about(store).ledger_bytes
    for number in range(300):
        store.commands.add(command(f"c{number}", body={"text": "x" * 20_000}))
    assert wal(store) > 1000 * 4096, "SQLite itself would have done it after 1000 pages"
    before = about(store)
    assert before.wal_bytes >= wal(store)
    assert before.ledger_bytes == begun
    done = checkpoint(store)
    assert [(one.name, one.done, one.tries) for one in done] == [
        ("ledger.db", True, 1),
        ("metrics.db", True, 1),
    ]
    assert wal(store) == 0 == about(store).wal_bytes
    assert about(store).ledger_bytes > before.ledger_bytes
    assert about(store).sqlite == sqlite3.sqlite_version


@pytest.mark.chaos
def test_a_checkpoint_behind_a_reader_gives_up_soon_and_stalls_nobody(store: Store) -> None:
    store.commands.add(command("a"))
    with closing(sqlite3.connect(store.folder / "ledger.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM commands").fetchone()
        store.commands.add(command("b"))
        started = perf_counter()
        ledger, metrics = checkpoint(store, tries=3)
        assert perf_counter() - started < 3, "three times a tenth of a second, on a slow machine"
        assert (ledger.done, ledger.tries, metrics.done) == (False, 3, True)
        assert ledger.wal_bytes > 0
        store.commands.add(command("c"))
        assert reader.execute("SELECT count(*) FROM commands").fetchone() == (1,)
        reader.execute("COMMIT")
    assert checkpoint(store)[0].done
    assert len(store.commands.page()) == 3


@pytest.mark.chaos
def test_a_checkpoint_behind_a_writer_gives_up_too(store: Store) -> None:
    store.commands.add(command("a"))
    with closing(sqlite3.connect(store.folder / "ledger.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert not checkpoint(store, tries=1)[0].done
        writer.execute("ROLLBACK")
    assert checkpoint(store)[0].done


def test_a_backup_while_somebody_writes_is_of_one_moment(store: Store, tmp_path: Path) -> None:
    """Each transaction writes a command and its number: no copy may have the one without the other."""
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            with store.together():
                store.commands.add(command(f"c{number}"))
                store.kept.put("last", number)

    thread = threading.Thread(target=write)
    thread.start()
    while store.kept.get("last") is None:
        pass
    copies = [tmp_path / f"backup{number}" for number in range(5)]
    for copy in copies:
        assert backup(store.folder, copy) == (copy / "ledger.db",)
    stop.set()
    thread.join()
    for copy in copies:
        found = open_store(copy)
        assert found.commands.newest_mark() == found.kept.get("last") + 1
        found.close()


def test_a_backup_does_not_overwrite_one(store: Store, tmp_path: Path) -> None:
    store.metrics.write([sample(S)])
    made = backup(store.folder, tmp_path / "b", metrics=True)
    assert [path.name for path in made] == ["ledger.db", "metrics.db"]
    before = made[0].read_bytes()
    with pytest.raises(StoreError, match="already"):
        backup(store.folder, tmp_path / "b")
    assert made[0].read_bytes() == before
    with pytest.raises(StoreError, match="no store"):
        backup(tmp_path / "nowhere", tmp_path / "c")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        backup(store.folder, tmp_path / "file" / "c")


def test_restore_brings_back_what_was_and_keeps_what_is(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    store.metrics.write([sample(S)])
    backup(store.folder, tmp_path / "b", metrics=True)
    copy = (tmp_path / "b" / "ledger.db").read_bytes()
    store.users.add(user("bob"))
    restored = restore(tmp_path / "b", store.folder)
    assert [path.name for path in restored] == ["ledger.db", "metrics.db"]
    assert store.users.all() == [user()], "a store that was open finds the other file"
    assert store.metrics.newest("q") is not None
    store.users.add(user("cyd"))
    assert (tmp_path / "b" / "ledger.db").read_bytes() == copy, "the backup is as it was"
    replaced = open_store(store.folder / "replaced")
    assert [one.name for one in replaced.users.all()] == ["ann", "bob"]
    replaced.close()
    elsewhere = restore(tmp_path / "b", tmp_path / "new" / "folder")
    assert elsewhere[0].read_bytes() == copy


@pytest.mark.parametrize("name", LOCKS)
def test_restore_refuses_while_something_runs(store: Store, tmp_path: Path, name: str) -> None:
    store.users.add(user())
    backup(store.folder, tmp_path / "b")
    store.users.add(user("bob"))
    with open(store.folder / name, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=f"{name.split('.')[0]} is running"):
            restore(tmp_path / "b", store.folder)
    assert len(store.users.all()) == 2
    restore(tmp_path / "b", store.folder)
    assert len(store.users.all()) == 1


def test_restore_refuses_what_is_no_backup(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    with pytest.raises(StoreError, match="no backup"):
        restore(tmp_path / "nowhere", store.folder)
    copy = tmp_path / "b"
    (ledger,) = backup(store.folder, copy)
    good = ledger.read_bytes()
    ledger.write_bytes(good[: len(good) // 2])
    with pytest.raises(StoreError):
        restore(copy, store.folder)
    ledger.write_bytes(b"something else entirely" * 1000)
    with pytest.raises(StoreError, match="not a store"):
        restore(copy, store.folder)
    ledger.unlink()
    with closing(sqlite3.connect(ledger)) as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(StoreError, match="no store of Spillway"):
        restore(copy, store.folder)
    ledger.write_bytes(good)
    with closing(sqlite3.connect(ledger, isolation_level=None)) as db:
        db.execute("UPDATE alembic_version SET version_num = 'ledger_9999'")
    with pytest.raises(StoreError, match="newer"):
        restore(copy, store.folder)
    assert store.users.all() == [user()]


@pytest.mark.chaos
def test_restore_replaces_a_ledger_that_is_damaged(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    backup(store.folder, tmp_path / "b")
    store.close()
    (store.folder / "ledger.db").write_bytes(b"\xff" * 10_000)
    restore(tmp_path / "b", store.folder)
    assert store.users.all() == [user()]
    assert (store.folder / "replaced" / "ledger.db").read_bytes() == b"\xff" * 10_000
