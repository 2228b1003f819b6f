"""Whatever a browser sends as values of these pages' inputs, no callback falls over: the page or a refusal comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.desk import desk_of
from tests.app.dashed import PATH
from tests.app.made import Console

PAGES = ("queries", "workload", "alerts", "audit", "users", "settings")
JUNK: tuple[Any, ...] = (
    None,
    7,
    -1.5,
    "x",
    "",
    [],
    [[]],
    {},
    {"type": "y", "stream": []},
    True,
    ["a", {}],
)


def _filled(spec: dict[str, Any], value: Any) -> Any:
    """An id with a wildcard stands for a list of components, here of one, or of none."""
    if spec["id"].startswith("{"):
        return [] if "ALL" in spec["id"] else None
    return {**spec, "value": value}


@pytest.mark.parametrize("page", PAGES)
def test_junk_is_no_error_of_the_server(running: Console, page: str) -> None:
    browser = running.signed_in("ada")
    dash = desk_of(running.app).dash
    tried = 0
    for output, spec in dash.callback_map.items():
        if page not in output or "MATCH" in output or "callback" not in spec:
            continue
        for value in JUNK:
            inputs = [_filled(one, value) for one in spec["inputs"]]
            first = next((one for one in inputs if one), None)
            body = {
                "output": output,
                "outputs": _outputs(output),
                "inputs": [one for one in inputs if one is not None],
                "changedPropIds": [f"{first['id']}.{first['property']}"] if first else [],
                "state": [s for one in spec["state"] if (s := _filled(one, value)) is not None],
            }
            answer = browser.client.post(PATH, json=body, headers=browser.csrf)
            assert answer.status_code != 500, (output, value, answer.text)
            tried += 1
    assert tried > len(JUNK)


def _outputs(output: str) -> Any:
    names = output[2:-2].split("...") if output.startswith("..") else [output]
    found = [_output(one) for one in names]
    return found if output.startswith("..") else found[0]


def _output(name: str) -> Any:
    id, _, prop = name.rpartition(".")
    if "ALL" in id:
        return []
    return {"id": json.loads(id) if id.startswith("{") else id, "property": prop}
