"""Every GET of the API over a filled store, timed from the request to the last byte of its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.api.all import ROUTES
from app.api.table import PREFIX
from control.ledger import QueryRow, Wanted
from tests.app.made import Clock, Console, begin, people
from tests.bench.store_fill import END_S, HOUR_S, QUERY, Scale

SPANS = {"15 min": 900, "1 h": HOUR_S, "24 h": 24 * HOUR_S, "7 d": 168 * HOUR_S}
RULE = (
    'name = "calm"\nquery = "q"\nevery = "1h"\nmode = "propose"\n\n[policy]\nname = "best_gain"\n'
)


def console_over(folder: Path, scale: Scale) -> Console:
    """A console at the store's end, as an hour after it: with its query, a rule and a proposal."""
    console = begin(folder, Clock(END_S + 1))
    people(console.store)  # `begin` makes them in new stores only
    text = f'name = "{QUERY}"\n'
    console.store.queries.add(QueryRow(QUERY, text, "", scale.nodes, Wanted.RUNNING, True, END_S))
    console.store.queries.told(QUERY, "running", "", {"tree": "join"}, END_S)
    saved = console.post("/rules", {"text": RULE})
    assert saved.status_code == 200, saved.text
    return console


def gets(console: Console, scale: Scale) -> Mapping[str, Callable[[int], int]]:
    """By name, each route's request for the n-th time; the size of its answer."""
    known = _known(console, scale)
    found: dict[str, Callable[[int], int]] = {}
    for route in ROUTES:
        if route.method != "GET":
            continue
        id_ = "proposal" if route.path.startswith("/proposals") else "id"
        path = route.path.replace("{id}", known[id_])
        for name, value in known.items():
            path = path.replace(f"{{{name}}}", value)
        params = {"query": QUERY} if route.path.endswith("/interlock") else {}
        if "since_s" in route.params and "until_s" in route.params:
            for title, span_s in SPANS.items():
                since = {"since_s": str(END_S - min(span_s, scale.hours * HOUR_S))}
                found[f"GET {route.path}, {title}"] = _get(console, path, params | since)
        else:
            found[f"GET {route.path}"] = _get(console, path, params)
    return found


def _known(console: Console, scale: Scale) -> dict[str, str]:
    """What stands for the parts of paths."""
    last = console.get("/actions?limit=1")["items"][0]["id"]
    wanted = {"do": "spill", "node": 0, "percent": 5}
    made = console.post(f"/queries/{QUERY}/proposals", wanted)
    assert made.status_code in (200, 201), made.text
    return {
        "query": QUERY,
        "node": str(scale.nodes // 2),
        "operator": "join",
        "group": str(scale.groups // 2),
        "rule": "calm",
        "id": last,
        "proposal": made.get_json()["id"],
    }


def _get(console: Console, path: str, params: Mapping[str, str]) -> Callable[[int], int]:
    def get(number: int) -> int:
        console.clock.now_s += 0.001 * (number + 1)
        answer: Any = console.call("GET", f"{PREFIX}{path}", query_string=dict(params))
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}"
        return len(answer.data)

    return get
