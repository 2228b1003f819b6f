"""Registering from the console: examples that are right, files put together from fields, refusals where they belong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plotly.io.json import to_json_plotly

from app.pages import queries_new as new
from app.pages import queries_view as shown
from app.pages.queries_view import DOES, LIVE, REST
from app.server import make_app
from control.dispatch import Dispatcher
from control.kinds import KINDS
from control.ledger import QueryRow, Wanted
from engine.lifecycle import LIVE as ENGINE_LIVE
from engine.query.paths import Roots
from engine.registry import check
from tests.app.dashed import call, said
from tests.app.made import PASSWORD, START_S, Browser, Console, begin

FORM = {"name": "feed", "sql": new.SQL_EXAMPLE, "streams": new.STREAMS_EXAMPLE, "nodes": 2, "groups": 64,
        "memory": "20MB", "window": "2 minutes", "sink": "", "path": ""}  # fmt: skip


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """With the engine's own check of query files."""
    data = tmp_path / "data"
    data.mkdir()
    made = begin(data)
    dispatcher = Dispatcher(
        made.store, made.clock, check=lambda text: check(text, data, Roots([], [], private=data))
    )
    made.app = make_app(made.store, dispatcher, made.settings, made.clock, passwords=made.passwords)
    yield made
    made.store.close()


def press(
    console: Console,
    how: str,
    text: str | None,
    *,
    browser: Browser | None = None,
    own: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    states = {f"queries-f-{name}.value": fields.get(name) for name in new.FIELDS}
    return call(
        browser or console.signed_in("ada"),
        "queries-registered.data",
        "queries-register.n_clicks",
        {"queries-register.n_clicks": 1},
        {
            "queries-how.value": how,
            "queries-text.value": text,
            "queries-start.checked": False,
            "queries-own.value": own,
            **states,
        },
    )


def test_the_example_is_right(console: Console) -> None:
    answer = press(console, new.FILE, new.FILE_EXAMPLE)
    assert answer["queries-registered"]["data"] == "feed"
    row = console.store.queries.find("feed")
    assert row is not None and row.text == new.FILE_EXAMPLE
    assert row.about["plan"]["root"]["inputs"] == ["p", "v"]
    assert "feed is registered." in said(answer["queries-said"])


def test_the_form_with_its_examples_is_right(console: Console) -> None:
    answer = press(console, new.FORM, None, **FORM)
    assert answer["queries-registered"]["data"] == "feed"
    assert ".check-" not in str(console.store.queries.find("feed").about)


@pytest.mark.parametrize(
    ("wrong", "right", "text"),
    [("FROM prices", "FROM pricez", "did you mean"), ("[sink]", "[zink]", "sink"), ("sql = ", "sql ", "TOML"),
     ('path = "out"', 'path = "/etc"', "etc")],
)  # fmt: skip
def test_a_mistake_is_named_and_nothing_is_lost(
    console: Console, wrong: str, right: str, text: str
) -> None:
    answer = press(console, new.FILE, new.FILE_EXAMPLE.replace(wrong, right))
    assert text in said(answer["queries-said"])
    assert "queries-registered" not in answer and "value" not in answer.get("queries-text", {})
    assert not console.store.queries.all()


def test_it_wants_the_password_of_a_sign_in_that_is_a_while_ago(console: Console) -> None:
    browser = console.signed_in("ada")
    console.clock.pause(console.settings.confirm_s + 1)
    answer = press(console, new.FILE, new.FILE_EXAMPLE, browser=browser)
    assert "password is needed again" in said(answer["queries-said"])
    assert not console.store.queries.all()
    answer = press(console, new.FILE, new.FILE_EXAMPLE, browser=browser, own=PASSWORD)
    assert answer["queries-registered"]["data"] == "feed"


def test_nothing_is_not_registered(console: Console) -> None:
    assert "nothing to register" in said(press(console, new.FILE, "  ")["queries-said"])


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@given(TEXTS, TEXTS, st.integers(1, 1_000), TEXTS)
@example("", "\x00\r", 1, "\x7f")
def test_what_is_typed_into_fields_is_what_the_file_says(
    name: str, sql: str, nodes: int, memory: str
) -> None:
    """Quotes, backslashes and line ends included: no field can become another key."""
    given_ = {**FORM, "name": name, "sql": sql, "nodes": nodes, "memory": memory}
    raw = tomllib.loads(new.composed(given_))
    assert raw["name"] == name.strip() and raw["nodes"] == nodes
    assert raw["sql"].strip() == sql.replace("\r\n", "\n").strip()
    assert raw.get("memory_per_node", "") == memory.strip() or not memory
    assert set(raw) <= {
        "name",
        "sql",
        "nodes",
        "groups",
        "memory_per_node",
        "window",
        "streams",
        "sink",
    }


def test_while_two_plans_run_both_are_drawn() -> None:
    def tree(*joins: str) -> dict[str, Any]:
        leaf = {"id": "scan-a", "kind": "stream", "alias": "a", "streams": ["a"]}
        below = tree(*joins[1:]) if joins[1:] else leaf
        return {"id": joins[0], "kind": "window_join", "inputs": ["a", "a"], "groups": 4, "on": [joins[0]],
                "children": [below, leaf]}  # fmt: skip

    about = {"plan": {"root": tree("join-2", "join-1"), "beside": tree("join-4", "join-3")}}
    row = QueryRow("q", "", "", None, Wanted.RUNNING, False, START_S, "running", about=about)
    text = to_json_plotly(shown.plan(row, None, "join-2"))
    ids = re.findall(r'"id":"(join-\d)"', text)
    assert ids == ["join-1", "join-2", "join-3", "join-4"]
    assert (
        shown.operator_named(row, "") == "join-2"
        and shown.operator_named(row, "join-3") == "join-3"
    )
    assert "join-4" in to_json_plotly(shown.definition(row, "join-4"))
    alone = replace(row, about={"plan": {**about["plan"], "beside": None}})
    assert shown.operator_named(alone, "join-3") == "join-2"


def test_every_state_has_its_buttons() -> None:
    assert {str(state) for state in ENGINE_LIVE} == LIVE == set(DOES)
    assert {kind for does in (*DOES.values(), REST) for kind, _ in does} <= set(KINDS)
