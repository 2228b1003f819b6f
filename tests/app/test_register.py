"""Registering a query over the API, with the real check of the engine's allow-lists: what must not get in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.server import make_app
from control.dispatch import Dispatcher
from control.people import Role
from engine.query.paths import Roots
from engine.registry import check
from tests.app.made import Console, begin

SQL = "SELECT p.symbol, v.volume FROM prices AS p JOIN volumes AS v ON p.symbol = v.symbol"
GOOD = """
name = "feed"
sql = '''{sql}'''
nodes = 2
groups = 16
checkpoint = "{checkpoint}"

[streams.prices]
format = "generator"
options = {{ preset = "prices", rate = 10 }}

[streams.volumes]
format = "{format}"
{more}

[sink]
format = "parquet"
path = "{sink}"
"""
FILLED = {
    "sql": SQL,
    "checkpoint": "state",
    "format": "generator",
    "more": 'options = { preset = "volumes", rate = 10 }',
    "sink": "out",
}


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    data = tmp_path / "data"
    data.mkdir()
    made, roots = begin(data), Roots([tmp_path], [tmp_path / "results"], private=data)
    dispatcher = Dispatcher(
        made.store, made.clock, check=lambda text: check(text, made.folder, roots)
    )
    made.app = make_app(made.store, dispatcher, made.settings, made.clock, passwords=made.passwords)
    yield made
    made.store.close()


def text(**changed: str) -> str:
    return GOOD.format(**{**FILLED, **changed})


def test_a_query_is_registered_and_started(console: Console) -> None:
    answer = console.post("/queries", {"text": text(), "nodes": 3})
    assert answer.status_code == 202, answer.text
    one = console.get("/queries/feed")
    assert one["wanted"] == "running"
    assert one["nodes"] == 3
    assert "join" in one["about"]["tree"]
    assert console.post("/queries", {"text": text()}).status_code == 409
    assert [c["kind"] for c in console.get("/commands")["items"]] == ["query.register"]


def test_results_may_lie_below_a_sink_root(console: Console) -> None:
    results = console.folder.parent / "results"
    there = text(sink=f"{results}/out", checkpoint=f"{results}/state")
    assert console.post("/queries", {"text": there}).status_code == 202
    own = f"{console.folder}/queries/own/out"
    answer = console.post("/queries", {"text": text(sink=own).replace('"feed"', '"own"', 1)})
    assert answer.status_code == 202, answer.text


def test_only_admins_register(console: Console) -> None:
    assert console.post("/queries", {"text": text()}, Role.OPERATOR).status_code == 403


@pytest.mark.parametrize(
    "changed",
    [
        {"checkpoint": "/etc/spillway"},
        {"checkpoint": "../../../elsewhere"},
        {"sink": "../../../../tmp/out"},
        {"sink": "/tmp/out"},
        {"format": "csv", "more": 'path = "/etc/passwd"\nschema = "symbol STRING, volume INT, ts TIMESTAMP"\ntime = "ts"'},
        {"format": "csv", "more": 'path = "../../../../etc"\nschema = "symbol STRING, volume INT, ts TIMESTAMP"\ntime = "ts"'},
        {"checkpoint": "{tmp}/state"},
        {"sink": "{tmp}/out"},
        {"sink": "{tmp}/data/queries/other/out"},
        {"sink": "{tmp}/data"},
        {"format": "text", "more": 'path = "{tmp}/data"'},
        {"format": "text", "more": 'path = "{tmp}/data/logs"'},
        {"format": "text", "more": 'path = "{tmp}"'},
        {"format": "text", "more": 'path = "{tmp}/linked"'},
        {"format": "jdbc", "more": 'options = { url = "jdbc:evil" }'},
        {"sql": SQL.replace("v.volume", "reflect('java.lang.Runtime', 'getRuntime')")},
        {"sql": SQL.replace("v.volume", "java_method('java.lang.System', 'exit', 1)")},
        {"sql": SQL.replace("v.volume", "input_file_name()")},
        {"sql": "DROP TABLE users"},
        {"sql": f"{SQL}; DROP TABLE users"},
        {"sql": f"CREATE TABLE t AS {SQL}"},
        {"sql": SQL.replace("prices AS p", "parquet.`/etc/passwd` AS p")},
        {"more": 'options = { preset = "volumes", rate = 10, checkpointLocation = "/etc" }'},
    ],
)  # fmt: skip
def test_what_must_not_get_in(console: Console, changed: dict[str, str]) -> None:
    (console.folder / "logs").mkdir()
    (console.folder.parent / "linked").mkdir()
    (console.folder.parent / "linked" / "all").symlink_to("/etc")
    there = {
        name: part.replace("{tmp}", str(console.folder.parent)) for name, part in changed.items()
    }
    answer = console.post("/queries", {"text": text(**there)})
    assert answer.status_code == 422, answer.text
    assert answer.get_json()["detail"]
    assert console.get("/queries")["items"] == []
    assert console.get("/commands")["items"] == []
    assert not list((console.folder / "queries").glob(".check-*"))


@pytest.mark.parametrize(
    "name", ["../evil", "a/b", ".", "", "a b", "<script>", "x" * 80, "'; DROP"]
)
def test_names_that_are_paths_or_markup(console: Console, name: str) -> None:
    answer = console.post("/queries", {"text": text().replace('"feed"', repr(name), 1)})
    assert answer.status_code == 422, answer.text
    assert console.get("/queries")["items"] == []
