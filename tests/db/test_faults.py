"""Locked, full, damaged, deleted, replaced: told as StoreError, and going on afterwards."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from control.errors import StoreConflict, StoreError
from control.people import AuditLine, Source
from db import files
from db.open import Store, open_store
from db.upgrade import upgrade
from tests.db.locks import locked
from tests.db.made import NASTY, START_S, command, sample, user

S = START_S
PAGES_MOST = 1073741823


@contextmanager
def full(store: Store) -> Iterator[None]:
    """No page may be added to either file: SQLite says what it says when the disk is full."""

    def limit(pages: int) -> None:
        for file in (store.ledger_file, store.metrics_file):
            with file.read() as db:
                db.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    limit(1)
    yield
    limit(PAGES_MOST)


def large(id: str) -> object:
    return command(id, body={"text": "x" * 100_000})


@pytest.mark.chaos
def test_a_locked_store_is_told_and_read_meanwhile(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True, busy_s=0.02)
    store.commands.add(command("a"))
    store.metrics.write([sample(S)])
    with locked(tmp_path / "ledger.db"), locked(tmp_path / "metrics.db"):
        for write in (
            lambda: store.commands.add(command("b")),
            lambda: store.commands.take(S),
            lambda: store.metrics.write([sample(S + 1)]),
            lambda: store.together().__enter__(),
        ):
            with pytest.raises(StoreError, match="locked") as caught:
                write()
            assert caught.value.again
            assert caught.value.hint
            assert "db" in caught.value.where
        assert store.commands.find("a") is not None
        assert store.metrics.newest("q") is not None
    store.commands.add(command("b"))
    store.metrics.write([sample(S + 1)])
    assert [one.id for one in store.commands.take(S)] == ["a", "b"]
    store.close()


@pytest.mark.chaos
def test_a_full_disk_is_told_and_nothing_is_half_written(store: Store) -> None:
    store.commands.add(command("a"))
    store.metrics.write([sample(S)])
    with full(store):
        with pytest.raises(StoreError, match="full") as caught:
            store.commands.add(large("b"))  # type: ignore[arg-type]
        assert caught.value.again
        with pytest.raises(StoreError, match="full"):
            store.metrics.write([sample(S + 60, groups=20_000)])
        assert [one.id for one in store.commands.page()] == ["a"]
    found = store.metrics.newest("q")
    assert found is not None
    assert found.time_s == S
    assert len(store.metrics.query_series("q", S, S + 100).time_s) == 1
    store.commands.add(large("b"))  # type: ignore[arg-type]
    store.metrics.write([sample(S + 60, groups=20_000)])
    assert [one.id for one in store.commands.take(S)] == ["a", "b"]


@pytest.mark.chaos
def test_a_full_disk_within_a_transaction_undoes_all_of_it(store: Store) -> None:
    with full(store), pytest.raises(StoreError), store.together():
        store.audit.add(AuditLine(S, "ann", Source.CLI, "", "x", "y", "accepted"))
        with pytest.raises(StoreError, match="full"):
            store.commands.add(large("b"))  # type: ignore[arg-type]
        store.commands.add(command("c"))  # must not be written by itself
    assert store.commands.page() == []
    assert store.audit.page() == []
    store.commands.add(command("c"))
    assert [one.id for one in store.commands.page()] == ["c"]


def damage(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)


@pytest.mark.chaos
def test_damaged_metrics_are_put_aside_and_begun_anew(store: Store) -> None:
    store.metrics.write([sample(S)])
    store.close()
    damage(store.folder / "metrics.db")
    for end in ("-wal", "-shm"):
        (store.folder / f"metrics.db{end}").unlink(missing_ok=True)
    with pytest.raises(StoreError, match="put aside") as caught:
        store.metrics.write([sample(S)])
    assert caught.value.again
    assert (store.folder / "metrics.db.damaged").exists()
    store.metrics.write([sample(S + 1)])
    assert store.metrics.newest("q") is not None
    other = open_store(store.folder)
    assert other.metrics.newest("q") is not None
    other.close()


@pytest.mark.chaos
def test_a_damaged_ledger_is_told_and_left_alone(store: Store) -> None:
    store.commands.add(command("a"))
    store.close()
    damage(store.folder / "ledger.db")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"not a store|damaged") as caught:
            store.commands.find("a")
        assert not caught.value.again
        assert "restore" in caught.value.hint
    with pytest.raises(StoreError, match=r"not a store|damaged"):
        open_store(store.folder)


@pytest.mark.chaos
@pytest.mark.parametrize("ends", [("",), ("", "-wal", "-shm"), ("", "-wal"), ("", "-shm")])
def test_metrics_may_be_deleted_while_two_processes_use_them(
    store: Store, ends: tuple[str, ...]
) -> None:
    """Two stores, as two processes have them; neither's old connections spoil the new file."""
    other = open_store(store.folder)
    for number in range(4):
        store.metrics.write([sample(S + 10 * number)])
        assert other.metrics.newest("q") is not None
        for end in ends:
            (store.folder / f"metrics.db{end}").unlink()
        one, two = (store, other) if number % 2 else (other, store)
        assert one.metrics.newest("q") is None
        one.metrics.write([sample(S + 10 * number + 1)])
        two.metrics.write([sample(S + 10 * number + 2)])
        for each in (store, other):
            times = each.metrics.query_series("q", S, S + 100).time_s - S
            assert times.tolist() == [10 * number + 1, 10 * number + 2]
    other.close()
    store.metrics.write([sample(S + 99)])
    store.close()
    again = open_store(store.folder)
    assert (again.metrics.query_series("q", S, S + 100).time_s - S).tolist() == [31, 32, 99]
    again.close()


@pytest.mark.chaos
def test_a_ledger_that_is_gone_is_told_and_found_again(store: Store) -> None:
    store.users.add(user())
    path = store.folder / "ledger.db"
    path.rename(store.folder / "elsewhere")
    with pytest.raises(StoreError, match="no store") as caught:
        store.users.all()
    assert not caught.value.again
    assert not path.exists(), "an empty one would be worse than none"
    (store.folder / "elsewhere").rename(path)
    assert store.users.all() == [user()]


@pytest.mark.chaos
def test_another_process_making_the_file_is_waited_for(tmp_path: Path) -> None:
    done: list[Store] = []
    with open(tmp_path / "ledger.db.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=lambda: done.append(open_store(tmp_path, create=True)))
        thread.start()
        thread.join(0.1)
        assert not done
    thread.join(60)
    assert done[0].users.all() == []
    done[0].close()


def test_many_make_and_use_one_store_at_once(tmp_path: Path) -> None:
    wrong: list[BaseException] = []
    start = threading.Barrier(8)

    def run(who: int) -> None:
        try:
            start.wait()
            store = open_store(tmp_path, create=True)
            for number in range(10):
                store.commands.add(command(f"{who}-{number}"))
                store.metrics.write([sample(S + number, query=f"q{who}")])
                assert len(store.commands.page(most=1000)) > number
            store.close()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    store = open_store(tmp_path)
    assert len(store.commands.page(most=1000)) == 80
    store.close()


def test_one_store_serves_many_threads(store: Store) -> None:
    wrong: list[BaseException] = []

    def run(who: int) -> None:
        try:
            for number in range(10):
                with store.together():
                    store.commands.add(command(f"{who}-{number}"))
                    store.kept.put(f"{who}", number)
                assert store.kept.get(f"{who}") == number
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(store.commands.page(most=1000)) == 240


def test_a_read_that_takes_too_long_is_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    monkeypatch.setattr(files, "READ_MOST_S", 0.05)
    with pytest.raises(StoreError, match="too long") as caught, store.ledger_file.read() as db:
        db.exec_driver_sql(endless)
    assert caught.value.again
    monkeypatch.setattr(files, "READ_MOST_S", 2.0)
    assert store.users.all() == []


def test_there_has_to_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store") as caught:
        open_store(tmp_path / "nowhere")
    assert "run.py up" in caught.value.hint
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(StoreError):
        open_store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"(?i)exists|directory"):
        open_store(tmp_path / "file" / "data", create=True)
    with pytest.raises(StoreError, match=r"(?i)exists|directory"):
        upgrade(tmp_path / "file" / "data")


@pytest.mark.parametrize(
    ("version", "what"),
    [("ledger_0000", "older"), ("ledger_9999", "newer"), (None, "no store of")],
)
def test_another_version_is_refused(tmp_path: Path, version: str | None, what: str) -> None:
    open_store(tmp_path, create=True).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as db:
        db.execute("DELETE FROM alembic_version")
        if version is not None:
            db.execute("INSERT INTO alembic_version VALUES (?)", (version,))
    with pytest.raises(StoreError, match=what) as caught:
        open_store(tmp_path)
    assert not caught.value.again


def test_values_that_cannot_be_kept_are_told(store: Store) -> None:
    for wrong in (
        lambda: store.commands.add(command("a", user="\ud800")),
        lambda: store.commands.add(command("a", body={"x": object()})),
        lambda: store.audit.page(before=1 << 70),
        lambda: store.commands.find("\ud800"),
    ):
        with pytest.raises(StoreError) as caught:
            wrong()
        assert not caught.value.again
        assert not isinstance(caught.value, StoreConflict)
    assert store.commands.page() == []


@pytest.mark.parametrize("text", NASTY)
def test_texts_are_texts(store: Store, text: str) -> None:
    store.commands.add(command(text, query=text))
    store.metrics.write([sample(S, query=text)])
    assert [one.id for one in store.commands.page(query=text)] == [text]
    assert store.commands.page(query=text + "'") == []
    assert store.commands.page(before=text) == []
    assert len(store.metrics.query_series(text, S, S + 1).time_s) == 1
    assert len(store.metrics.snapshots(text, 0, 1e12)) == 1
    assert store.metrics.newest("'" + text) is None
    assert store.users.all() == []
