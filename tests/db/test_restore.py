"""Restoring a backup: what was comes back, what was taken away since does not, and nothing comes in with it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from control.errors import StoreError
from control.people import AuditLine, Role, Session, Source, Token
from db.maintenance import backup
from db.open import Store, open_store
from db.restore import LOCKS, restore
from db.schema import AUDIT_TRIGGERS
from db.upgrade import upgrade
from tests.before import unpack
from tests.db.made import START_S, sample, user

S = START_S


def line(number: int, what: str = "spill") -> AuditLine:
    return AuditLine(S + number, "ann", Source.CLI, "", what, "q", "accepted")


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Files are private whatever the user's umask says."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_restore_brings_back_what_was_and_keeps_what_is(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    store.metrics.write([sample(S)])
    backup(store.folder, tmp_path / "b", metrics=True)
    copy = (tmp_path / "b" / "ledger.db").read_bytes()
    store.users.add(user("bob"))
    restored = restore(tmp_path / "b", store.folder, now_s=S)
    assert [path.name for path in restored.files] == ["ledger.db", "metrics.db"]
    assert store.users.all() == [user()], "a store that was open finds the other file"
    assert store.metrics.newest("q") is not None
    store.users.add(user("cyd"))
    assert (tmp_path / "b" / "ledger.db").read_bytes() == copy, "the backup is as it was"
    replaced = open_store(store.folder / "replaced")
    assert [one.name for one in replaced.users.all()] == ["ann", "bob"]
    replaced.close()
    elsewhere = restore(tmp_path / "b", tmp_path / "new" / "folder", now_s=S)
    assert not elsewhere.before
    for path in (
        *restored.files,
        *elsewhere.files,
        store.folder / "replaced" / "ledger.db",
        tmp_path / "b" / "ledger.db",
    ):
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert not list(store.folder.glob("*.new*"))


@pytest.mark.parametrize("name", LOCKS)
def test_restore_refuses_while_something_runs(store: Store, tmp_path: Path, name: str) -> None:
    store.users.add(user())
    backup(store.folder, tmp_path / "b")
    store.users.add(user("bob"))
    with open(store.folder / name, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=f"{name.split('.')[0]} is running"):
            restore(tmp_path / "b", store.folder, now_s=S)
    assert len(store.users.all()) == 2
    restore(tmp_path / "b", store.folder, now_s=S)
    assert len(store.users.all()) == 1


def test_restore_refuses_what_is_no_backup(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    with pytest.raises(StoreError, match="no backup"):
        restore(tmp_path / "nowhere", store.folder, now_s=S)
    copy = tmp_path / "b"
    (ledger,) = backup(store.folder, copy)
    good = ledger.read_bytes()
    ledger.write_bytes(good[: len(good) // 2])
    with pytest.raises(StoreError):
        restore(copy, store.folder, now_s=S)
    ledger.write_bytes(b"something else entirely" * 1000)
    with pytest.raises(StoreError, match="not a store"):
        restore(copy, store.folder, now_s=S)
    ledger.unlink()
    with closing(sqlite3.connect(ledger)) as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(StoreError, match="no store of Spillway"):
        restore(copy, store.folder, now_s=S)
    ledger.write_bytes(good)
    with closing(sqlite3.connect(ledger, isolation_level=None)) as db:
        db.execute("UPDATE alembic_version SET version_num = 'ledger_9999'")
    with pytest.raises(StoreError, match="newer"):
        restore(copy, store.folder, now_s=S)
    assert store.users.all() == [user()]


@pytest.mark.chaos
def test_restore_replaces_a_ledger_that_is_damaged(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    backup(store.folder, tmp_path / "b")
    store.close()
    (store.folder / "ledger.db").write_bytes(b"\xff" * 10_000)
    restore(tmp_path / "b", store.folder, now_s=S)
    assert store.users.all() == [user()]
    assert (store.folder / "replaced" / "ledger.db").read_bytes() == b"\xff" * 10_000


def changed(ledger: Path, *statements: str) -> None:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_restore_brings_nobody_back_who_was_sent_away(store: Store, tmp_path: Path) -> None:
    """A token revoked, a user disabled, a password changed, a role taken since the backup: they stay so."""
    for name in ("ann", "bob", "cyd"):
        store.users.add(user(name, role=Role.ADMIN))
    for id in ("stays", "goes"):
        store.tokens.add(Token(id, "ann", id, id, Role.ADMIN, S))
    store.sessions.add(Session("hash", "ann", "csrf", S, S, S))
    store.audit.add(line(1))
    backup(store.folder, tmp_path / "b")
    store.tokens.revoke("goes", S + 5)
    store.users.set_disabled("bob", True)
    store.users.set_password("cyd", "a later one", S + 6)
    store.users.set_role("ann", Role.VIEWER)
    store.audit.add(line(2, what="token.revoke"))
    done = restore(tmp_path / "b", store.folder, now_s=S + 9)
    assert (done.before, done.sessions, done.revoked, done.disabled) == (True, 1, 1, 1)
    assert (done.changed, done.lines) == (2, 1)
    assert {t.id: t.revoked_s for t in store.tokens.of("ann")} == {"stays": None, "goes": S + 5}
    found = {one.name: one for one in store.users.all()}
    assert found["bob"].disabled and not found["ann"].disabled
    assert found["cyd"].password_hash == "a later one"
    assert (found["ann"].role, found["cyd"].role) == (Role.VIEWER, Role.ADMIN)
    assert store.sessions.find("hash") is None
    audit = store.audit.page()
    assert [one.what for one in audit] == ["restore", "token.revoke", "spill"]
    assert (audit[0].time_s, audit[0].source, audit[0].outcome) == (S + 9, Source.CLI, "accepted")
    assert "1 revoked tokens" in audit[0].detail


def test_another_folder_s_users_say_nothing_of_the_backup_s(store: Store, tmp_path: Path) -> None:
    """A new machine has an `admin` of its own already: the backup's comes back with its password."""
    store.users.add(replace(user("admin", Role.ADMIN), password_hash="old machine"))
    store.audit.add(line(1))
    backup(store.folder, tmp_path / "b")
    upgrade(tmp_path / "new")
    other = open_store(tmp_path / "new")
    other.users.add(replace(user("admin"), disabled=True, created_s=S + 1))
    other.audit.add(line(7))
    done = restore(tmp_path / "b", tmp_path / "new", now_s=S)
    assert other.users.all() == store.users.all()
    assert done.before and not done.lines
    other.close()


DOCTORED = {
    "trigger evil": "CREATE TRIGGER evil AFTER INSERT ON audit BEGIN UPDATE users SET role = 'admin'; END",
    "view evil": "CREATE VIEW evil AS SELECT * FROM users",
    "table evil": "CREATE TABLE evil (x)",
    "index evil": "CREATE INDEX evil ON users (role)",
    "table users": "ALTER TABLE users ADD COLUMN evil TEXT",
    "index audit_user": "DROP INDEX audit_user",
}


def test_a_doctored_backup_is_refused(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    (ledger,) = backup(store.folder, tmp_path / "b")
    good, before = ledger.read_bytes(), (store.folder / "ledger.db").read_bytes()
    for name, statement in DOCTORED.items():
        ledger.write_bytes(good)
        changed(ledger, statement)
        with pytest.raises(StoreError, match=f"tables are not those of ledger_.*{name}"):
            restore(tmp_path / "b", store.folder, now_s=S)
    for version in ("ledger_0000", "head", "ledger_0001:ledger_0002"):
        ledger.write_bytes(good)
        changed(ledger, f"UPDATE alembic_version SET version_num = '{version}'")
        with pytest.raises(StoreError, match="tables are not those of"):
            restore(tmp_path / "b", store.folder, now_s=S)
    assert (store.folder / "ledger.db").read_bytes() == before
    assert not (store.folder / "replaced").exists()


def test_the_audit_s_triggers_are_made_anew(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    store.audit.add(line(1))
    (ledger,) = backup(store.folder, tmp_path / "b")
    harmless = "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT 1; END"
    changed(ledger, *(f"DROP TRIGGER {name}" for name in AUDIT_TRIGGERS), harmless)
    restore(tmp_path / "b", store.folder, now_s=S)
    for statement in ("UPDATE audit SET user = 'eve'", "DELETE FROM audit"):
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            changed(store.folder / "ledger.db", statement)


def test_a_backup_of_before_comes_back_without_what_was_taken_away(tmp_path: Path) -> None:
    """Its tables are those of the first version; the folder's own ledger is of this one."""
    before = unpack(tmp_path / "before")
    upgrade(before.data)
    done = restore(before.backup, before.data, now_s=S + 1e7)
    assert done.before and (done.revoked, done.disabled) == (1, 1)
    upgrade(before.data)
    store = open_store(before.data)
    assert {one.name for one in store.users.all() if one.disabled} == {"gone"}
    revoked = {one.name for one in store.tokens.of("admin") if one.revoked_s is not None}
    assert "revoked-after" in revoked
    assert store.audit.page()[0].what == "restore"
    store.close()


def test_what_was_replaced_can_be_put_back(store: Store, tmp_path: Path) -> None:
    store.users.add(user())
    store.audit.add(line(1))
    backup(store.folder, tmp_path / "b")
    store.users.add(user("bob"))
    store.audit.add(line(2))
    restore(tmp_path / "b", store.folder, now_s=S + 3)
    copy = tmp_path / "replaced.db"
    (store.folder / "replaced" / "ledger.db").rename(copy)
    restore(copy, store.folder, now_s=S + 4)
    assert [one.name for one in store.users.all()] == ["ann", "bob"]
    assert [one.time_s for one in store.audit.page()][:2] == [S + 4, S + 3]
