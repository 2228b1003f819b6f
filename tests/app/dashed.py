"""Calling Dash's callbacks as a browser does: by the output's name, with the values of its inputs and states."""

from __future__ import annotations

import json
from typing import Any

from app.desk import desk_of
from tests.app.made import Browser

PATH = "/_dash-update-component"


def output_of(browser: Browser, of: str) -> str:
    """The one callback that fills `id.property` and is called by the page."""
    known = desk_of(browser.console.app).callbacks.outputs()
    found = [
        name for name in known if name == of or f"..{of}.." in f".{name}." or f".{of}." in name
    ]
    assert len(found) == 1, (of, found)
    return found[0]


def call(
    browser: Browser,
    of: str,
    changed: str,
    inputs: dict[str, Any],
    state: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What the callback returns: {"id": {"property": value}}; ids in JSON stand for themselves."""
    output = output_of(browser, of)
    body = {
        "output": output,
        "outputs": _outputs(output),
        "inputs": [_given(name, value) for name, value in inputs.items()],
        "changedPropIds": [changed],
        "state": [_given(name, value) for name, value in (state or {}).items()],
    }
    answer = browser.client.post(PATH, json=body, headers=browser.csrf)
    if answer.status_code == 204:
        return {}
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.get_json()["response"]
    return found


def _outputs(output: str) -> Any:
    if not output.startswith(".."):
        return _named(output)
    return [_named(one) for one in output[2:-2].split("...")]


def _named(text: str) -> dict[str, str]:
    id, _, prop = text.rpartition(".")
    return {"id": id, "property": prop}


class Many(dict[str, Any]):
    """Values of components whose ids match a pattern: id as JSON (with sorted keys) → value; an input of its own."""


def _given(name: str, value: Any) -> Any:
    if isinstance(value, Many):
        property = name.rpartition(".")[2]
        return [
            {"id": json.loads(id), "property": property, "value": one} for id, one in value.items()
        ]
    return {**_named(name), "value": value}


def said(value: Any) -> str:
    """All text in what a callback returned, as somebody would read it."""
    if isinstance(value, dict):
        props = value.get("props", value)
        return " ".join(
            said(props[name]) for name in props if name in ("children", "title", "data")
        )
    if isinstance(value, list | tuple):
        return " ".join(said(one) for one in value)
    return value if isinstance(value, str) else ""
