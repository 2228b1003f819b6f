"""Users, sessions, tokens, lockouts, audit."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, update

from control.errors import StoreConflict, StoreError
from control.people import AuditLine, Lockout, Role, Session, Source, Token, User
from db.open import Store
from db.schema import AUDIT
from tests.db.made import NASTY, START_S, anything, user

S = START_S


def session(id_hash: str, of: str = "ann", active_s: float = S) -> Session:
    return Session(id_hash, of, "csrf", S, active_s, S, "127.0.0.1")


@given(some=st.lists(anything(User), unique_by=lambda u: u.name, max_size=5))
def test_users_come_back_as_they_were_put_in(fresh: Callable[[], Store], some: list[User]) -> None:
    store = fresh()
    for one in some:
        store.users.add(one)
    assert store.users.all() == sorted(some, key=lambda u: u.name.encode())
    for one in some:
        assert store.users.find(one.name) == one


@given(one=anything(Session), other=anything(Token), line=anything(AuditLine))
def test_sessions_tokens_and_audit_come_back(
    fresh: Callable[[], Store], one: Session, other: Token, line: AuditLine
) -> None:
    store = fresh()
    for name in {one.user, other.user}:
        store.users.add(user(name))
    store.sessions.add(one)
    store.tokens.add(other)
    store.audit.add(line)
    assert store.sessions.find(one.id_hash) == one
    assert store.tokens.find(other.sha256) == other
    assert store.tokens.of(other.user) == [other]
    assert store.audit.page() == [replace(line, id=1)]


@given(of=anything(Lockout), again=st.integers(0, 9))
def test_a_lockout_is_replaced_and_unlocked(
    fresh: Callable[[], Store], of: Lockout, again: int
) -> None:
    store = fresh()
    store.users.keep_lockout(of)
    store.users.keep_lockout(replace(of, failures=again))
    where = (of.user, of.address, of.device)
    assert store.users.lockout(*where) == replace(of, failures=again)
    assert store.users.lockout(of.user, of.address + "x", of.device) is None
    assert store.users.lockout(of.user, of.address, of.device + "x") is None
    assert store.users.unlock(of.user) == 1
    assert store.users.lockout(*where) is None
    assert store.users.unlock(of.user) == 0


def test_a_taken_name_is_a_conflict_and_changes_nothing(store: Store) -> None:
    store.users.add(user())
    with pytest.raises(StoreConflict) as caught:
        store.users.add(user(role=Role.ADMIN))
    assert not caught.value.again
    assert store.users.all() == [user()]


def test_a_new_password_and_disabling_end_the_user_s_sessions(store: Store) -> None:
    store.users.add(user())
    store.users.add(user("bob"))
    for change in (
        lambda: store.users.set_password("ann", "new", S),
        lambda: store.users.set_disabled("ann", True),
    ):
        store.sessions.add(session("1"))
        store.sessions.add(session("2", "bob"))
        change()
        assert store.sessions.find("1") is None
        assert store.sessions.find("2") is not None
        store.sessions.end("2")
    found = store.users.find("ann")
    assert found is not None
    assert (found.password_hash, found.disabled) == ("new", True)
    store.users.set_disabled("ann", False)
    store.users.set_role("ann", Role.ADMIN)
    store.users.seen("ann", S + 5)
    found = store.users.find("ann")
    assert found == replace(user(role=Role.ADMIN), password_hash="new", seen_s=S + 5)


@pytest.mark.parametrize("name", NASTY)
def test_who_does_not_exist_cannot_be_changed(store: Store, name: str) -> None:
    store.users.add(user())
    with pytest.raises(StoreError, match="no user"):
        store.users.set_role(name, Role.ADMIN)
    with pytest.raises(StoreError, match="no user"):
        store.users.set_password(name, "x", S)
    assert store.users.all() == [user()]


def test_sessions_are_touched_confirmed_and_dropped_when_old(store: Store) -> None:
    store.users.add(user())
    for number in range(4):
        store.sessions.add(replace(session(str(number), active_s=S + number), created_s=S + number))
    store.sessions.touch("0", S + 100)
    store.sessions.confirm("0", S + 50)
    store.sessions.touch("gone", S)
    assert store.sessions.find("0") == replace(session("0", active_s=S + 100), confirmed_s=S + 50)
    assert store.sessions.drop_before(S + 2, S) == 1, "1 was idle; 0 was touched"
    assert store.sessions.drop_before(S, S + 3) == 2, "0 and 2 are too old, however active"
    assert store.sessions.find("3") is not None


def test_a_session_of_nobody_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="not there"):
        store.sessions.add(session("1"))


def test_a_token_is_revoked_once(store: Store) -> None:
    store.users.add(user())
    token = Token("t1", "ann", "ci", "f" * 64, Role.VIEWER, S)
    store.tokens.add(token)
    with pytest.raises(StoreConflict):
        store.tokens.add(replace(token, id="t2"))
    store.tokens.used("t1", S + 1)
    assert store.tokens.revoke("t1", S + 2)
    assert not store.tokens.revoke("t1", S + 3)
    assert not store.tokens.revoke("t0", S + 3)
    assert store.tokens.find("f" * 64) == replace(token, used_s=S + 1, revoked_s=S + 2)


def test_a_new_password_revokes_the_user_s_tokens_but_a_local_one(store: Store) -> None:
    store.users.add(user())
    store.users.add(user("bob"))
    for number, (name, local) in enumerate([("ann", False), ("ann", True), ("bob", False)]):
        token = Token(f"t{number}", name, "n", f"{number}", Role.VIEWER, S, local=local)
        store.tokens.add(token)
    store.users.rehash("ann", "the same, hashed anew")
    assert {token.revoked_s for token in store.tokens.all()} == {None}
    store.users.set_password("ann", "new", S + 1, must_change=True)
    assert [token.revoked_s for token in store.tokens.all()] == [S + 1, None, None]
    found = store.users.find("ann")
    assert found is not None
    assert found.must_change


def test_tokens_that_end_late_or_never_end_when_they_are_told_to(store: Store) -> None:
    store.users.add(user())
    for number, end_s in enumerate((None, S + 10, S + 99)):
        store.tokens.add(Token(f"t{number}", "ann", "n", f"{number}", Role.VIEWER, S, end_s))
    assert store.tokens.limit(S + 50) == 2
    assert [token.expires_s for token in store.tokens.all()] == [S + 50, S + 10, S + 50]
    assert store.tokens.limit(S + 60) == 0, "a start later makes nothing longer"
    assert store.tokens.named("t1") == store.tokens.of("ann")[1]
    assert store.tokens.named("t9") is None


def test_all_sessions_of_one_user_but_one_are_ended(store: Store) -> None:
    store.users.add(user())
    store.users.add(user("bob"))
    for number, name in enumerate(("ann", "ann", "ann", "bob")):
        store.sessions.add(session(str(number), name, active_s=S + number))
    assert [one.id_hash for one in store.sessions.of("ann")] == ["2", "1", "0"]
    assert store.sessions.end_others("ann", "1") == 2
    assert [one.id_hash for one in store.sessions.of("ann")] == ["1"]
    assert store.sessions.find("3") is not None


def line(number: int, **more: str) -> AuditLine:
    given = {"user": "ann", "what": "spill", "subject": "q", **more}
    return AuditLine(S + number, source=Source.CLI, address="", outcome="accepted", **given)


def test_audit_pages_go_back_without_gap_or_repetition(store: Store) -> None:
    for number in range(25):
        store.audit.add(line(number))
    seen: list[int] = []
    before: int | None = None
    while page := store.audit.page(before=before, most=7):
        seen += [one.id for one in page]
        before = page[-1].id
        store.audit.add(line(99))  # what comes meanwhile does not move the pages
    assert seen == list(range(25, 0, -1))


def test_audit_is_filtered(store: Store) -> None:
    store.audit.add(line(1))
    store.audit.add(line(2, user="bob"))
    store.audit.add(line(3, user="bob", what="move", subject="r"))
    assert [one.time_s - S for one in store.audit.page(user="bob")] == [3, 2]
    assert [one.time_s - S for one in store.audit.page(user="bob", what="spill")] == [2]
    assert [one.time_s - S for one in store.audit.page(subject="r")] == [3]
    assert store.audit.page(user="'; --") == []


def test_audit_lines_are_neither_changed_nor_deleted(store: Store) -> None:
    store.audit.add(line(1))
    for statement in (delete(AUDIT), update(AUDIT).values(user="x")):
        with pytest.raises(StoreError, match="never changed"), store.ledger_file.write() as db:
            db.execute(statement)
    assert [one.user for one in store.audit.page()] == ["ann"]


NEW = "(id, time_s, user, source) VALUES ({id}, 9, 'eve', 'cli')"


REWRITING = (
    "UPDATE audit SET user = 'eve'",
    "UPDATE OR REPLACE audit SET id = 2 WHERE id = 1",
    "DELETE FROM audit",
    *(f"{verb} INTO audit {NEW.format(id=n)}" for n in (1, 2) for verb in ("INSERT OR REPLACE", "REPLACE")),
    f"INSERT OR REPLACE INTO audit {NEW.format(id=2).replace('id', '_rowid_', 1)}",
    f"INSERT INTO audit {NEW.format(id=2)} ON CONFLICT (id) DO UPDATE SET user = 'eve'",
    "REPLACE INTO audit SELECT * FROM audit",
    *(f"INSERT INTO audit {NEW.format(id=n)}" for n in (-1, 0)),
)  # fmt: skip


def test_no_sql_replaces_an_audit_line(store: Store) -> None:
    """Whatever connection it comes by, whatever that connection says of triggers."""
    for number in (1, 2):
        store.audit.add(line(number))
    before = store.audit.page()
    with closing(sqlite3.connect(store.ledger_file.path, isolation_level=None)) as db:
        for recursive, statement in itertools.product(("ON", "OFF"), REWRITING):
            db.execute(f"PRAGMA recursive_triggers = {recursive}")
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                db.execute(statement)
            assert store.audit.page() == before, (recursive, statement)
    store.audit.add(line(3))
    assert store.audit.page()[0].id == 3
