"""Migrations: they lead to today's tables, keep data, copy the ledger first, and fail whole."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from control.errors import StoreError
from control.people import Lockout
from db.files import Kind, connect, make
from db.open import LEDGER_FILE, METRICS_FILE, open_store
from db.restore import restore
from db.upgrade import SCRIPTS, Upgraded, migrate, upgrade
from tests.db.made import START_S, action, command, sample, user

KINDS = pytest.mark.parametrize("kind", [LEDGER_FILE, METRICS_FILE], ids=lambda kind: kind.name)
NEXT = '''"""What a later version might do."""
import sqlalchemy as sa
from alembic import op

revision = "ledger_9000"
down_revision = "{before}"


def upgrade():
    op.add_column("users", sa.Column("mail", sa.Text(), nullable=False, server_default="none"))
    op.execute("UPDATE users SET mail = name || '@x'")
    {more}
'''


def tables(path: Path) -> set[tuple[str, str, str]]:
    """Everything in a file's schema, however it was spelt."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
        )
        return {(t, n, re.sub(r"[\s\"]+", "", str(sql))) for t, n, sql in rows}


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


@KINDS
def test_migrations_from_nothing_lead_to_today_s_tables(tmp_path: Path, kind: Kind) -> None:
    make(tmp_path / "made", replace(kind, name="made"))
    engine = connect(tmp_path / kind.name, kind)
    migrate(engine, kind)
    engine.dispose()
    assert tables(tmp_path / kind.name) == tables(tmp_path / "made")


@KINDS
def test_the_newest_migration_is_the_version_that_is_asked_for(kind: Kind) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.set_main_option("version_locations", str(SCRIPTS / Path(kind.name).stem))
    config.set_main_option("path_separator", "newline")
    assert ScriptDirectory.from_config(config).get_heads() == [kind.version]


def test_a_new_folder_gets_both_files_and_the_next_time_nothing(tmp_path: Path) -> None:
    made = upgrade(tmp_path / "data")
    assert made == Upgraded(("ledger.db", "metrics.db"), (), None)
    assert upgrade(tmp_path / "data") == Upgraded((), (), None)
    open_store(tmp_path / "data").close()
    (tmp_path / "data" / "metrics.db").unlink()
    assert upgrade(tmp_path / "data") == Upgraded(("metrics.db",), (), None)


def later(folder: Path, more: str = "pass") -> tuple[Kind, Path]:
    """A ledger's kind and scripts as of a later version, which adds a column."""
    scripts = folder / "scripts"
    shutil.copytree(SCRIPTS, scripts)
    text = NEXT.format(before=LEDGER_FILE.version, more=more)
    (scripts / "ledger" / "ledger_9000.py").write_text(text)
    return replace(LEDGER_FILE, version="ledger_9000"), scripts


def filled(folder: Path) -> None:
    """A ledger of this version that is in use: part of it is in its log only."""
    upgrade(folder)
    store = open_store(folder)
    store.users.add(user())
    store.users.add(user("bob"))
    store.commands.add(command("c"))
    store.actions.keep([action("a")])
    store.metrics.write([sample(START_S)])


@pytest.mark.parametrize("folder", ["data", "100 % of it"])
def test_data_survives_a_migration_and_the_ledger_is_copied_first(
    tmp_path: Path, folder: str
) -> None:
    data = tmp_path / folder
    filled(data)
    kind, scripts = later(tmp_path)
    done = upgrade(data, kinds=(kind, METRICS_FILE), scripts=scripts)
    copy = data / "backups" / f"ledger-before-{LEDGER_FILE.version}-1.db"
    assert done == Upgraded((), ("ledger.db",), copy)
    found = rows(data / "ledger.db", "SELECT name, mail FROM users ORDER BY name")
    assert found == [("ann", "ann@x"), ("bob", "bob@x")]
    assert rows(data / "ledger.db", "SELECT id FROM commands UNION SELECT id FROM actions") == [
        ("a",),
        ("c",),
    ]
    with pytest.raises(StoreError, match="newer"):
        open_store(data)
    with pytest.raises(StoreError, match="newer"):
        upgrade(data)
    restore(copy, data, now_s=START_S)
    assert [one.name for one in open_store(data).users.all()] == ["ann", "bob"]


@pytest.mark.chaos
def test_a_migration_that_fails_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    kind, scripts = later(tmp_path, 'op.execute("INSERT INTO users (name) VALUES (NULL)")')
    before = tables(tmp_path / "data" / "ledger.db")
    for number in (1, 2):
        with pytest.raises(StoreError, match="could not be brought") as caught:
            upgrade(tmp_path / "data", kinds=(kind,), scripts=scripts)
        assert f"-{number}.db" in caught.value.hint, "each try copies under a name of its own"
    assert tables(tmp_path / "data" / "ledger.db") == before
    store = open_store(tmp_path / "data")
    assert len(store.users.all()) == 2
    store.users.add(user("cyd"))
    store.close()


def test_from_the_first_tables_nothing_of_people_is_lost(tmp_path: Path) -> None:
    """What a folder of ledger_0001 holds, also when something refers to a user."""
    path, first = tmp_path / "ledger.db", replace(LEDGER_FILE, version="ledger_0001")
    engine = connect(path, first)
    migrate(engine, first)
    engine.dispose()
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO users VALUES ('ann', 'admin', 'hash', 0, 1.0, NULL)")
        db.execute("INSERT INTO lockouts VALUES ('ann', '::1', 7, 2.0, 9.0)")
        db.execute("INSERT INTO sessions VALUES ('f', 'ann', 'c', 1.0, 1.0, 1.0, '::1')")
        for id in ("local-1", "t2"):
            db.execute(
                "INSERT INTO tokens VALUES (?, 'ann', 'n', ?, 'admin', 1.0, NULL, NULL, NULL)",
                (id, id),
            )
        db.execute(
            "INSERT INTO audit VALUES (5, 1.0, 'ann', 'api', '', 'hold', '', 'accepted', '')"
        )
        db.commit()
    assert upgrade(tmp_path).migrated == ("ledger.db",)
    store = open_store(tmp_path)
    ann = store.users.find("ann")
    assert ann is not None
    assert not ann.must_change
    assert store.users.lockout("ann", "::1") == Lockout("ann", "::1", 7, 2.0, 9.0)
    session = store.sessions.find("f")
    assert session is not None
    assert session.agent == ""
    assert [(t.id, t.local) for t in store.tokens.of("ann")] == [("local-1", True), ("t2", False)]
    assert [(line.id, line.token) for line in store.audit.page()] == [(5, "")]
    store.close()
