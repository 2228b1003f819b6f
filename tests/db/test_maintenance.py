"""Checkpoints beside readers and writers; backups that are whole; restoring one."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from control.errors import StoreError
from db.maintenance import CHECKPOINT_WAIT_S, about, backup, checkpoint
from db.open import Store, open_store
from tests.db.made import START_S, command, sample

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
        ledger, metrics = checkpoint(store, tries=3)
        assert CHECKPOINT_WAIT_S <= 0.2, "soon: three times that, and no more"
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
        (newest,) = found.commands.page(most=1)
        assert newest.id == f"c{found.kept.get('last')}", "both parts of a transaction, or none"
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
