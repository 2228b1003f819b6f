"""A store of before, with a Kafka password in a query's file: it works on, and only admins see it, wherever they look."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import run as command_line
from app.api.all import ROUTES
from app.api.table import PREFIX
from app.desk import desk_of
from control.alerts import Seen, View, conditions
from control.people import Role, User
from db.secrets import FOLDER, SecretFolder
from db.upgrade import upgrade
from engine.query.paths import Roots
from engine.registry import spec_of
from tests.app.made import PASSWORD, Console, begin
from tests.before import Before, unpack

QUERY, SECRET = "feed", "two words of before"
APP = Path(__file__).resolve().parents[2] / "app"


@pytest.fixture
def before(tmp_path: Path) -> Before:
    return unpack(tmp_path / "before")


@pytest.fixture
def console(before: Before) -> Iterator[Console]:
    upgrade(before.data)
    made = begin(before.data)
    for name, role in (("ada", Role.ADMIN), ("olga", Role.OPERATOR), ("vic", Role.VIEWER)):
        made.store.users.add(User(name, role, made.passwords.hash(PASSWORD), False, made.clock()))
    row = made.store.queries.find(QUERY)
    made.store.queries.told(QUERY, "failed", f"the broker said {SECRET}", row.about, made.clock())
    yield made
    made.store.close()


def test_it_works_on(console: Console, before: Before) -> None:
    row = console.store.queries.find(QUERY)
    secrets = SecretFolder(before.data / FOLDER)
    spec = spec_of(row, before.data, Roots([before.root], []), secrets=secrets)
    revealed = spec.streams["payments"].options.revealed()  # type: ignore[attr-defined]
    assert revealed["kafka.sasl.jaas.config"].endswith(f'password="{SECRET}";')


def test_no_route_shows_it_to_anybody_but_admins(console: Console) -> None:
    """Every route that reads, so that a new one cannot forget."""
    places = {"query": QUERY, "rule": "lazy", "name": "admin", "operator": "join-1"}
    seen = dict.fromkeys((Role.VIEWER, Role.OPERATOR, Role.ADMIN), "")
    for role in seen:
        for route in ROUTES:
            if not route.changes and route.tokens:
                path = re.sub(r"{(\w+)}", lambda found: places.get(found[1], "0"), route.path)
                answer = console.call("GET", PREFIX + path, role)
                assert answer.status_code < 500 or answer.status_code == 503, (path, answer.text)
                seen[role] += answer.get_data(as_text=True)
    assert SECRET in seen[Role.ADMIN]
    for role in (Role.VIEWER, Role.OPERATOR):
        assert "two words" not in seen[role]
        assert "the broker said ***" in seen[role]
    about = console.get(f"/queries/{QUERY}")["about"]
    assert "two words" not in json.dumps(about)


def test_neither_the_page_without_scripts_nor_an_alert_shows_it(console: Console) -> None:
    page = console.signed_in("vic").client.get("/status").text
    assert "the broker said ***" in page
    assert "two words" not in page
    row = console.store.queries.find(QUERY)
    view = View(console.clock(), [Seen(row)])
    (found,) = [one for one in conditions(view) if one.kind == "query_failed"]
    assert found.text == "the broker said ***"


def test_pages_read_queries_without_it(console: Console) -> None:
    """All pages read the same rows; who reads the store itself is listed here, and says why."""
    with console.app.app_context():
        rows = desk_of(console.app).feed.queries()
    assert "two words" not in repr(rows)
    own = {
        str(path.relative_to(APP))
        for path in APP.rglob("*.py")
        if re.search(r"store\.queries\.(all|find)", path.read_text())
    }
    assert own == {
        "api/queries.py",  # through seen_by
        "api/rules.py",  # names
        "api/secrets.py",  # the names that files refer to
        "diagnose.py",  # through seen_by
        "feed.py",  # through seen_by
        "firsts.py",  # whether there is a demo
        "pages/queries.py",  # the file, for admins
        "pages/settings_secrets.py",  # the names that files refer to
        "plain.py",  # through seen_by
        "prometheus.py",  # names and states
    }


def test_diagnose_leaves_it_out_and_backup_says_that_it_is_there(
    before: Before, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upgrade(before.data)
    log = before.data / "logs" / "engine.log"
    log.write_text(f"{log.read_text()}\nsaid {SECRET}, {json.dumps(SECRET)}\n")
    packed, saved = tmp_path / "told.tar.gz", tmp_path / "saved"
    given = ["--data", str(before.data)]
    assert command_line.main(["diagnose", *given, "--out", str(packed)]) == 0
    with tarfile.open(packed) as archive:
        files = [archive.extractfile(one) or io.BytesIO() for one in archive.getmembers()]
        text = b"".join(file.read() for file in files).decode()
    assert "two words" not in text
    assert 'said ***, "***"' in text
    assert QUERY in text
    assert command_line.main(["backup", str(saved), *given]) == 0
    assert (
        f"passwords stand in the files of {QUERY}, and so in this backup" in capsys.readouterr().err
    )
