"""TOML that no person writes, by every door that takes TOML: refused with a message, in little time and few lines of log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import run
from app.server import make_app
from control import logs
from control.dispatch import Dispatcher
from control.people import Role
from engine.registry import check
from tests.app.dashed import call, said
from tests.app.made import Console, with_query

HOSTILE = {
    "brackets": "x=" + "[" * 19_000,
    "braces": "x=" + "{a=" * 5_000,
    "digits": "x=" + "9" * 19_000,
    "many-bits": "name=0x" + "f" * 15_000,
    "beyond-floats": "cooldown=" + "9" * 400,
    "dotted-name": "name" + ".a" * 9_000 + "=1",
    "quoted-dots": 'name."a"' + '. "a"' * 3_000 + "=1",
    "dotted-head": "[" + ".".join("a" * 9_000) + "]",
    "negative": "x=-" + "9" * 19,
}


@pytest.fixture
def written(running: Console) -> Iterator[io.StringIO]:
    """What the console's process would write into its log."""
    stream = io.StringIO()
    handler = logs.handler(stream)
    running.app.logger.addHandler(handler)
    yield stream
    running.app.logger.removeHandler(handler)


def test_a_rule_s_check_refuses_it(running: Console, written: io.StringIO) -> None:
    browser = running.signed_in("vic")
    for name, text in HOSTILE.items():
        answer = call(
            browser, "rules-check.children", "rules-text.value", {"rules-text.value": text}
        )
        assert "is not TOML" in said(answer["rules-check"]["children"]), name
    assert written.getvalue() == ""


def test_the_api_refuses_it_as_a_rule(running: Console, written: io.StringIO) -> None:
    for name, text in HOSTILE.items():
        for path, more in (("/rules", {}), ("/backtest", {"query": "market"})):
            answer = running.post(path, {"text": text, **more}, Role.OPERATOR)
            assert answer.status_code == 422, (name, answer.text)
            assert "is not TOML" in answer.get_json()["detail"]
    assert written.getvalue() == ""


def test_the_api_refuses_it_as_a_query(console: Console, tmp_path: Path) -> None:
    data = tmp_path / "data"
    dispatcher = Dispatcher(console.store, console.clock, check=lambda t: check(t, data, []))
    console.app = make_app(
        console.store, dispatcher, console.settings, console.clock, passwords=console.passwords
    )
    for name, text in HOSTILE.items():
        answer = console.post("/queries", {"text": text})
        assert answer.status_code == 422, (name, answer.text)
        assert "is not TOML" in answer.get_json()["detail"]


@pytest.mark.parametrize(
    "line",
    [
        "memory_per_node = { " + "9" * 5_000 + ' = "1MB" }',
        'memory_per_node = { "²" = "1MB" }',
        'memory_per_node = "' + "9" * 400 + 'MB"',
        "placement = { " + "9" * 5_000 + " = 1 }",
        'window = "' + "9" * 400 + ' s"',
        'streams.p.schema = "a ' + "array<" * 3_000 + "long" + ">" * 3_000 + '"',
        'streams.p.schema = "a ' + "struct<a:" * 40 + "long" + ">" * 40 + '"',
        'streams.p.schema = "a decimal(' + "9" * 5_000 + ',1)"',
        'sql = "SELECT p.a, ' + "9" * 5_000 + ' AS b FROM p JOIN v ON p.a = v.a"',
        'sql = "SELECT p.a FROM p JOIN v ON p.a = v.a AND p.a < ' + "9" * 5_000 + '"',
    ],
    ids=lambda line: line[:30],
)
def test_what_toml_allows_and_a_query_does_not(tmp_path: Path, line: str, capsys: Any) -> None:
    path = tmp_path / "q.toml"
    lines = {
        "sql": 'sql = "SELECT p.a FROM p JOIN v ON p.a = v.a"',
        "streams.p.schema": 'streams.p.schema = "a long"',
    }
    lines[line.partition(" =")[0]] = line
    more = (
        'streams.p.format = "generator"\nstreams.v = { format = "generator", schema = "a long" }\n'
    )
    path.write_text(
        'name = "q"\n' + "\n".join(lines.values()) + "\n" + more + "[sink]\nformat='noop'\n"
    )
    assert run.main(["query", "check", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}")


def test_files_of_the_command_line_are_refused(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "x.toml"
    query = str(Path(__file__).parents[2] / "docs/examples/orders.toml")
    for name, text in HOSTILE.items():
        path.write_text(text)
        for words in (
            ["--settings", str(path), "settings"],
            ["query", "check", str(path)],
            ["query", "run", query, "--adapt", str(path)],
            ["query", "run", query, "--script", str(path)],
        ):
            assert run.main(words) == 2
            err = capsys.readouterr().err
            assert str(path) in err and "is not TOML" in err, (name, err)


def test_a_traceback_in_the_log_has_a_bounded_length(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_query(console)

    def here() -> int:
        return there() + 1

    def there() -> int:  # frames that alternate are not folded into one line
        return here() + 1

    monkeypatch.setattr(console.store.queries, "all", here)
    stream = io.StringIO()
    root = logging.getLogger()
    root.addHandler(handler := logs.handler(stream))
    try:
        assert console.call("GET", "/api/v1/queries").status_code == 500
    finally:
        root.removeHandler(handler)
    text = stream.getvalue()
    assert "RecursionError" in text and "characters left out" in text
    assert "app/api/queries.py" in text, "where it began is still there"
    assert len(text) < 1.1 * logs.TEXT_MAX
