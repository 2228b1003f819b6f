"""The engine's side of commands, over a real store and without Spark: a command may fail, the engine may not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.pages.queries_view import facts
from control.ledger import Command, CommandState, QueryRow, Wanted
from control.people import Role, Source
from db.open import open_store
from db.upgrade import upgrade
from engine.errors import SourceError
from engine.query.file import read_query
from engine.query.model import QuerySpec
from engine.registry import NotAQuery, check, roots_of
from engine.service import Service
from engine.settings import Settings
from engine.sources import workload
from tests.app.made import Console, begin
from tests.before import unpack
from tests.engine.service_shared import FEED

OUTSIDE = ("/proc/x", "../../x", "a/../../x", "/etc/hostname", "a\0", ".", "", "a.json", "nobody")


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    made = begin(tmp_path / "data")
    made.store.queries.add(QueryRow("feed", FEED, "", None, Wanted.STOPPED, True, made.clock()))
    yield made
    made.store.close()


@pytest.fixture
def engine(console: Console) -> Service:
    """An engine that has taken the query in, and whose streams were once started."""
    settings = Settings.load(environment={})
    made = Service(console.store, console.folder, settings, lambda _: None, clock=console.clock)
    made.run_once(force=True)
    spec = spec_of(console)
    workload.prepare_all(spec.checkpoint, spec.streams.values(), now_us=1)
    return made


def spec_of(console: Console) -> QuerySpec:
    return read_query(console.folder / "queries" / "feed" / "query.toml")


def obeyed(console: Console, engine: Service, *commands: str) -> list[Command]:
    """What became of the commands once the engine has had its turn."""
    engine.run_once(force=True)
    found = [console.store.commands.find(id) for id in commands]
    assert None not in found
    return [one for one in found if one is not None]


def left(console: Console, id: str, kind: str, body: Mapping[str, Any], query: str = "feed") -> str:
    """A command as a console of another version might have left it: nothing has looked at its body."""
    now_s = console.clock()
    row = Command(id, kind, query, body, "ada", Source.API, "", now_s, now_s + 60.0)
    console.store.commands.add(row)
    return id


def files_of(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_a_stream_that_the_query_does_not_have_is_refused_at_the_door(
    console: Console, engine: Service
) -> None:
    engine.run_once(force=True)
    for stream in OUTSIDE:
        body = {"stream": stream, "options": {"rate": 1}}
        answer = console.post("/queries/feed/workload", body, Role.OPERATOR)
        assert answer.status_code == 422, (stream, answer.text)
    assert console.get("/commands")["items"] == []


def test_no_stream_of_a_command_becomes_the_name_of_a_file(
    tmp_path: Path, console: Console, engine: Service
) -> None:
    before = files_of(tmp_path)
    bodies = [{"stream": stream, "options": {"rate": 1}} for stream in OUTSIDE]
    ids = [left(console, f"c{n:02}", "workload", body) for n, body in enumerate(bodies)]
    for ended in obeyed(console, engine, *ids):
        assert ended.state is CommandState.REFUSED
        assert "there is no stream" in ended.outcome["text"]
        assert "a, b" in ended.outcome["text"]
    assert {path for path in files_of(tmp_path) - before if "metrics" not in path} == set()


def test_a_record_never_lies_outside_its_folder(tmp_path: Path) -> None:
    """The mechanism itself, whoever calls it: even where a file of that name could be."""
    (tmp_path / "x").mkdir()
    for stream in OUTSIDE[:-1]:
        with pytest.raises(SourceError, match="no stream"):
            workload.change(tmp_path / "state", stream, {"rate": 1}, now_us=1)
        with pytest.raises(SourceError, match="no stream"):
            workload.current(tmp_path / "state", stream)


def test_a_stream_of_the_query_is_changed(console: Console, engine: Service) -> None:
    engine.run_once(force=True)
    answer = console.post("/queries/feed/workload", {"stream": "a", "options": {"rate": 7}})
    assert answer.status_code == 202, answer.text
    [ended] = obeyed(console, engine, answer.get_json()["id"])
    assert ended.state is CommandState.DONE, ended.outcome
    found = workload.current(spec_of(console).checkpoint, "a")
    assert found is not None
    assert found.values["rate"] == "7"


def test_whatever_a_command_meets_is_its_own_failure(console: Console, engine: Service) -> None:
    """Bodies that no console of this version sends; the engine goes on, and the next one is done."""
    bodies: list[tuple[str, Mapping[str, Any]]] = [
        ("workload", {"stream": "a"}),
        ("workload", {"stream": ["a"], "options": {"rate": 1}}),
        ("workload", {"stream": "a", "options": 5}),
        ("workload", {"slow": 5}),
        ("apply", {"plan": 5, "fingerprint": []}),
        ("cancel", {"action": ["x"]}),
    ]
    bad = [left(console, f"c{n}", *one) for n, one in enumerate(bodies)]
    good = left(console, "c9", "workload", {"stream": "a", "options": {"rate": 9}})
    *failed, done = obeyed(console, engine, *bad, good)
    assert {one.state for one in failed} <= {CommandState.FAILED, CommandState.REFUSED}
    assert all(one.outcome["text"] for one in failed)
    assert done.state is CommandState.DONE


def test_a_failure_says_nothing_of_the_machine(
    console: Console, engine: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where even the error is a surprise, its text is for the engine's log, not for whoever sent the command."""
    said: list[str] = []
    engine.warn = said.append

    def broken(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", "/etc/secret")

    monkeypatch.setattr(workload, "change", broken)
    body = {"stream": "a", "options": {"rate": 1}}
    [ended] = obeyed(console, engine, left(console, "c1", "workload", body))
    assert ended.state is CommandState.FAILED
    assert "/etc" not in json.dumps(ended.outcome)
    assert "engine.log" in ended.outcome["text"]
    assert "/etc/secret" in "".join(said)


def test_a_damaged_record_of_one_query_does_not_end_the_engine(
    console: Console, engine: Service
) -> None:
    """What is shown of a query is read from its checkpoint, which anybody may have damaged."""
    record = spec_of(console).checkpoint / "workload" / "a.json"
    record.write_text("{")
    [ended] = obeyed(console, engine, left(console, "c1", "query.stop", {}))
    assert ended.state is CommandState.DONE
    row = console.store.queries.find("feed")
    assert row is not None
    assert row.about["streams"]["a"]["options"] == {}


def test_a_query_that_cannot_be_put_on_disk_is_failed_and_tried_again(
    console: Console, engine: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = QueryRow("other", FEED.replace("feed", "other"), "", None, Wanted.STOPPED, True, 1.0)
    (console.folder / "queries" / "other").write_text("in the way")
    console.store.queries.add(row)
    obeyed(console, engine, left(console, "c1", "query.stop", {}))
    found = console.store.queries.find("other")
    assert found is not None
    assert found.state == "failed"
    assert "cannot" in found.error
    (console.folder / "queries" / "other").unlink()
    obeyed(console, engine, left(console, "c2", "query.stop", {}))
    found = console.store.queries.find("other")
    assert found is not None
    assert found.state != "failed"


def test_a_query_of_before_that_writes_below_source_roots_goes_on_and_says_so(
    tmp_path: Path,
) -> None:
    before = unpack(tmp_path / "before")
    upgrade(before.data)
    store = open_store(before.data)
    for name in ("inside", "outside", "feed"):
        store.queries.want(name, Wanted.STOPPED)  # that a query is taken in needs no Spark
    said: list[str] = []
    settings = Settings.load({"source_roots": str(before.root)}, environment={})
    engine = Service(store, before.data, settings, lambda _: None, warn=said.append)
    engine.run_once(force=True)
    rows = {row.name: row for row in store.queries.all()}
    store.close()
    assert rows["outside"].error == ""
    notes = rows["outside"].about["notes"]
    assert [note.split()[0] for note in notes] == ["checkpoint", "sink.path"]
    assert all("sink_roots" in note for note in notes)
    assert {line.partition(":")[0] for line in said} == {"outside"}
    assert rows["inside"].about["notes"] == []
    assert str(notes[0]) in str(facts(rows["outside"], 0, 1.0))
    with pytest.raises(NotAQuery, match="outside the allowed folders"):
        check(rows["outside"].text, before.data, roots_of(settings, before.data))
