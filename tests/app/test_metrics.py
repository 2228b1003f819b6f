"""/metrics: a token's, in Prometheus' format, newest figures only."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from control.people import Role
from tests.app.made import MB, QUERY, Console, action_row, picture, sample_of, with_query

LINE = re.compile(
    r'^(spillway_[a-z_]+)((?:\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)+\})?) (-?[\d.e+-]+|NaN|\+Inf|-Inf)$'
)


def figures(text: str) -> dict[str, float]:
    """Every sample; the format itself is checked on the way."""
    assert text.endswith("\n")
    found: dict[str, float] = {}
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed
            typed.add(name)
        elif not line.startswith("# HELP "):
            match = LINE.match(line)
            assert match, line
            assert match[1] in typed
            key = match[1] + match[2]
            assert key not in found
            found[key] = float(match[3])
    return found


def test_it_needs_a_token(running: Console) -> None:
    assert running.call("GET", "/metrics", None).status_code == 401
    assert running.signed_in().client.get("/metrics").status_code == 401
    answer = running.call("GET", "/metrics", Role.VIEWER)
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/plain; version=0.0.4")


def test_figures(running: Console) -> None:
    now_s = running.clock()
    running.store.actions.keep([action_row("a1", now_s), action_row("a2", now_s, over=False)])
    running.store.alerts.raised("lag", QUERY, "behind", now_s)
    running.clock.pause(4)
    found = figures(running.call("GET", "/metrics", Role.VIEWER).text)
    assert found[f'spillway_node_memory_bytes{{query="{QUERY}",node="0"}}'] == 42 * MB
    assert found[f'spillway_node_budget_bytes{{query="{QUERY}",node="2"}}'] == 100 * MB
    assert found[f'spillway_query_tick_seconds{{query="{QUERY}"}}'] == 2
    assert found[f'spillway_query_sample_age_seconds{{query="{QUERY}"}}'] == 4
    assert found['spillway_actions_last_day{state="done"}'] == 1
    assert found['spillway_actions_last_day{state="running"}'] == 1
    assert found[f'spillway_actions_running{{query="{QUERY}"}}'] == 1
    assert found['spillway_alerts_open{kind="lag"}'] == 1
    assert found['spillway_process_up{process="engine"}'] == 1
    assert found['spillway_process_age_seconds{process="control"}'] == 4
    assert found['spillway_samples_dropped_total{process="engine"}'] == 3


def test_names_are_escaped(console: Console) -> None:
    with_query(console, 'a"b\\c\nd')
    text = console.call("GET", "/metrics", Role.VIEWER).text
    found = figures(text)
    assert 'spillway_query_tick_seconds{query="a\\"b\\\\c\\nd"}' in found


def test_with_nothing_there_it_still_answers(console: Console) -> None:
    found = figures(console.call("GET", "/metrics", Role.VIEWER).text)
    assert found['spillway_process_up{process="engine"}'] == 0
    assert found["spillway_alerts_open"] == 0


def test_a_node_that_is_not_alive_is_seen_everywhere_and_gets_nothing(running: Console) -> None:
    running.clock.pause(1)
    now_s = running.clock()
    bare = picture(QUERY, now_s, 3, 24)
    alive = np.array([True, False, True])
    snapshot = replace(bare, nodes=replace(bare.nodes, alive=alive))
    running.store.metrics.write([sample_of(snapshot, now_s)])
    found = figures(running.call("GET", "/metrics", Role.VIEWER).text)
    name = 'spillway_node_alive{query="%s",node="%d"}'
    assert [found[name % (QUERY, n)] for n in range(3)] == [1, 0, 1]
    nodes = running.get(f"/queries/{QUERY}/nodes")["items"]
    assert [node["alive"] for node in nodes] == alive.tolist()
    body = {"do": "move", "node": 0, "to": 1, "percent": 10}
    refused = running.post(f"/queries/{QUERY}/proposals", body)
    assert refused.status_code == 409
    assert "node_not_alive" in {refusal["why"] for refusal in refused.get_json()["refusals"]}
    body["to"] = 2
    assert running.post(f"/queries/{QUERY}/proposals", body).status_code == 200
