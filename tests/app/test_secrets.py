"""Named secrets by HTTP, and who sees the passwords that stand in query files."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.diagnose import bundle
from app.server import make_app
from control.dispatch import Dispatcher
from control.ledger import QueryRow, Wanted
from control.people import Role
from db.secrets import FOLDER, SecretFolder
from engine.query.paths import Roots
from engine.registry import check, spec_of
from tests.app.dashed import call
from tests.app.made import PASSWORD, Console, begin, with_query

VALUE = 'two "words" \\ and $1; x=1'
FILE = """
name = "orders"
sql = "SELECT a.topic, b.value FROM a JOIN b ON a.topic = b.topic"
[streams.a]
format = "kafka"
options = {{ kafka.bootstrap.servers = "h:1", subscribe = "a", "kafka.ssl.key.password" = {password} }}
[streams.b]
format = "kafka"
[streams.b.options]
kafka.bootstrap.servers = "h:1"
subscribe = "b"
kafka.sasl.jaas.config = '''
org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password={jaas};'''
[sink]
format = "parquet"
path = "out"
"""
NAMED = FILE.format(password='"{secret:key}"', jaas='"{secret:db}"')
BEFORE = FILE.format(password='"s3same open"', jaas='"hunter2 at night"')
PLAIN = ("s3same open", "hunter2 at night")


@dataclass
class Place:
    console: Console
    secrets: SecretFolder


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    data = tmp_path / "data"
    data.mkdir()
    made, secrets, roots = begin(data), SecretFolder(data / FOLDER), Roots([], [])
    dispatcher = Dispatcher(
        made.store,
        made.clock,
        check=lambda text: check(text, data, roots, secrets=secrets),
        keeper=secrets,
    )
    made.app = make_app(
        made.store, dispatcher, made.settings, made.clock, passwords=made.passwords, secrets=secrets
    )
    yield Place(made, secrets)
    made.store.close()


def everything(console: Console, role: Role) -> str:
    """What somebody of this role can read of queries."""
    paths = ["/queries", "/queries/orders", "/commands", "/alerts", "/actions"]
    if role is Role.ADMIN:
        paths += ["/audit", "/secrets"]
    return json.dumps([console.get(path, role) for path in paths], ensure_ascii=False)


def test_a_secret_is_kept_listed_and_dropped_and_its_value_never_comes_back(place: Place) -> None:
    console = place.console
    for name in ("key", "db"):
        assert console.post("/secrets", {"name": name, "value": VALUE}).status_code == 200
    answer = console.post("/queries", {"text": NAMED, "start": False})
    assert answer.status_code == 202, answer.text
    assert [(one["name"], one["queries"]) for one in console.get("/secrets")["items"]] == [
        ("db", ["orders"]), ("key", ["orders"])
    ]  # fmt: skip
    refused = console.call("DELETE", "/api/v1/secrets/db")
    assert refused.status_code == 409, refused.text
    assert "orders could not start again without it" in refused.get_json()["detail"]
    replaced = console.post("/secrets", {"name": "db", "value": "another one"}).get_json()
    assert replaced["text"] == "replaced; taken when started again: orders"
    assert place.secrets.value("db") == "another one"
    assert console.call("DELETE", "/api/v1/queries/orders").status_code == 200
    assert console.call("DELETE", "/api/v1/secrets/db").status_code == 200
    assert console.call("DELETE", "/api/v1/secrets/db").status_code == 404
    lines = [line for line in console.get("/audit")["items"] if line["what"].startswith("secret")]
    assert [(line["what"], line["subject"], line["outcome"]) for line in reversed(lines)] == [
        ("secret.set", "key", "accepted"), ("secret.set", "db", "accepted"),
        ("secret.drop", "db", "refused"), ("secret.set", "db", "accepted"),
        ("secret.drop", "db", "accepted"), ("secret.drop", "db", "refused"),
    ]  # fmt: skip
    for text in (VALUE, json.dumps(VALUE)[1:-1], "another one"):
        assert text not in json.dumps(lines, ensure_ascii=False)
        assert text.encode() not in b"".join(p.read_bytes() for p in console.folder.glob("*.db*"))


def test_the_values_come_only_with_the_engines_start(place: Place) -> None:
    console = place.console
    place.secrets.put("key", VALUE)
    place.secrets.put("db", VALUE)
    assert console.post("/queries", {"text": NAMED, "start": False}).status_code == 202
    row = console.store.queries.find("orders")
    assert row.text == NAMED
    spec = spec_of(row, console.folder, Roots([], []), secrets=place.secrets)
    a, b = (spec.streams[name].options for name in "ab")
    assert a["kafka.ssl.key.password"] == "{secret:key}"
    assert VALUE not in repr(spec) and VALUE not in json.dumps(row.about)
    assert a.revealed()["kafka.ssl.key.password"] == VALUE  # type: ignore[attr-defined]
    jaas = b.revealed()["kafka.sasl.jaas.config"]  # type: ignore[attr-defined]
    assert jaas.endswith(r'username="me" password="two \"words\" \\ and $1; x=1";')


@pytest.mark.parametrize("missing", ["key", "db"])
def test_what_is_missing_is_named(place: Place, missing: str) -> None:
    for name in {"key", "db"} - {missing}:
        place.secrets.put(name, VALUE)
    answer = place.console.post("/queries", {"text": NAMED})
    assert answer.status_code == 422
    detail = answer.get_json()["detail"]
    assert f"there is no secret `{missing}`" in detail
    assert f"ctl secret set {missing}" in detail
    assert "streams." in detail
    assert place.console.get("/queries")["items"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("../x", VALUE), ("", VALUE), ("a b", VALUE), ("x" * 65, VALUE), ("a", ""), ("a", "abc"),
     ("a", "a\0bcdef"), ("a", "x" * 70_000), ("a", 5), ("a", None)],
)  # fmt: skip
def test_what_is_no_secret_is_refused(place: Place, name: str, value: Any) -> None:
    answer = place.console.post("/secrets", {"name": name, "value": value})
    assert answer.status_code == 422, answer.text
    assert VALUE not in answer.text
    assert place.secrets.names() == []


def test_secrets_are_for_admins_who_gave_their_password_lately(place: Place) -> None:
    console = place.console
    for role in (Role.VIEWER, Role.OPERATOR):
        assert console.post("/secrets", {"name": "a", "value": VALUE}, role).status_code == 403
        assert console.call("GET", "/api/v1/secrets", role).status_code == 403
        assert console.call("DELETE", "/api/v1/secrets/a", role).status_code == 403
    browser = console.signed_in("ada")
    body = {"name": "a", "value": VALUE}
    assert browser.client.post("/api/v1/secrets", json=body).status_code == 403  # no CSRF token
    console.clock.pause(1_000)
    late = browser.client.post("/api/v1/secrets", json=body, headers=browser.csrf)
    assert (late.status_code, late.get_json()["type"]) == (403, "/api#confirm")
    again = {"password": PASSWORD}
    browser.client.post("/api/v1/session/confirm", json=again, headers=browser.csrf)
    assert (
        browser.client.post("/api/v1/secrets", json=body, headers=browser.csrf).status_code == 200
    )


def test_passwords_of_before_work_on_and_only_admins_see_them(place: Place) -> None:
    """Registered as before: the file, what the engine said of it, and an error that has the password in it."""
    console = place.console
    about = {
        "tree": "join",
        "streams": {"a": {"format": "kafka", "options": {}, "file": {"kafka.ssl.key.password": PLAIN[0]}}},
    }  # fmt: skip
    row = QueryRow("orders", BEFORE, "failed", None, Wanted.STOPPED, False, console.clock())
    console.store.queries.add(row)
    console.store.queries.told(
        "orders", "failed", f"no way with {PLAIN[1]} there", about, console.clock()
    )
    spec = spec_of(row, console.folder, Roots([], []), secrets=place.secrets)
    assert spec.streams["a"].options.revealed()["kafka.ssl.key.password"] == PLAIN[0]  # type: ignore[attr-defined]
    assert (console.folder / "queries" / "orders" / "query.toml").stat().st_mode & 0o077 == 0
    for role in (Role.VIEWER, Role.OPERATOR):
        text = everything(console, role)
        assert not [one for one in PLAIN if one in text]
        assert '"error": "no way with *** there"' in text
        shown = console.get("/queries/orders", role)["text"]
        assert 'subscribe = "b"' in shown and 'username="me"' not in shown
    assert console.get("/queries/orders")["text"] == BEFORE


def test_the_page_shows_passwords_to_admins_alone(place: Place) -> None:
    console = place.console
    with_query(console, "other")
    console.store.queries.add(
        QueryRow("orders", BEFORE, "", None, Wanted.STOPPED, False, console.clock())
    )
    for user, there in (("vic", False), ("olga", False), ("ada", True)):
        answer = call(
            console.signed_in(user),
            "queries-file.children",
            "poll.n_intervals",
            {
                "poll.n_intervals": 1,
                "view.data": {"query": "orders"},
                "queries-chosen.data": None,
                "queries-did.data": None,
                "queries-done.data": None,
                "queries-registered.data": None,
            },
            {"queries-at.data": None},
        )
        shown = json.dumps(answer, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')
        assert 'subscribe = "b"' in shown
        assert [one in shown for one in PLAIN] == [there, there]


def test_registering_says_that_passwords_stand_in_the_file_and_repeats_none(place: Place) -> None:
    answer = place.console.post("/queries", {"text": BEFORE, "start": False}).get_json()
    assert "streams.a.options.kafka.ssl.key.password" in answer["text"]
    assert "streams.b.options.kafka.sasl.jaas.config" in answer["text"]
    bad = BEFORE.replace('subscribe = "b"', "subscribe = \"b\"\npassword = 's3same open'")
    refused = place.console.post("/queries", {"text": bad.replace("orders", "others")})
    assert refused.status_code == 422
    for text in (json.dumps(answer), refused.text, everything(place.console, Role.VIEWER)):
        assert not [one for one in PLAIN if one in text]
    audit = json.dumps(place.console.get("/audit"))
    assert not [one for one in PLAIN if one in audit]


LOG = """\
2026 INFO  password="two words" pwd=mine
connecting to //user:pw-of-url@broker, amqp://u:p@ss@h/x
{"kafka.ssl.key.password": "json \\"word\\""}
it said hunter2 at night, and s3same%20open, and NAMED
"""


def test_what_diagnose_packs_has_no_secret(place: Place, tmp_path: Path) -> None:
    """Those that nobody told it of, those of query files, and the named ones."""
    console = place.console
    place.secrets.put("db", VALUE)
    console.store.queries.add(
        QueryRow("orders", BEFORE, "", None, Wanted.STOPPED, False, console.clock(), about={"x": PLAIN[0]})
    )  # fmt: skip
    logs = console.folder / "logs"
    logs.mkdir()
    (logs / "engine.log").write_text("hunter2 at ni" * 60_000 + "\n" + LOG.replace("NAMED", VALUE))
    (logs / "spark.log").write_text(
        "ght and so on " * 40_000 + LOG.replace("NAMED", json.dumps(VALUE))
    )
    bundle(
        console.store, console.folder, {"jars": f"x?password={PLAIN[0]}"}, tmp_path / "b.tar.gz",
        secrets=place.secrets.values(),
    )  # fmt: skip
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        packed = "".join(
            (archive.extractfile(one) or io.BytesIO()).read().decode()
            for one in archive.getmembers()
        )
    leaks = (
        "two words",
        "mine",
        "pw-of-url",
        "p@ss",
        'json \\\\"word',
        VALUE,
        *PLAIN,
        "s3same%20open",
    )
    for secret in (*leaks, *(json.dumps(one)[1:-1] for one in leaks)):
        assert secret not in packed
    assert "it said ***, and ***, and ***" in packed
    assert 'subscribe = \\"b\\"' in packed
