"""What the API answers: over a real store and dispatcher, each noun as its users use it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from app.api.all import ROUTES
from app.api.openapi import document
from app.api.schema import checked
from app.api.table import PREFIX
from app.problems import of_store
from control.errors import StoreError, StoreInvalid
from control.handling.plans import DAILY_BYTES, DAILY_PAUSE_S
from control.ledger import (
    Delivery,
    Evaluation,
    Learned,
    ProposalState,
    RuleRow,
    Wanted,
    Webhook,
)
from control.people import Role
from control.samples import Heartbeat
from control.watch import Watch
from tests.app.asking import RULE, joined
from tests.app.made import (
    MB,
    PASSWORD,
    QUERY,
    Console,
    action_row,
    heard,
    picture,
    sample_of,
    with_query,
)
from tests.control.migration.outlooks import NEW, OLD


def refused(answer: Any, status: int, kind: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.mimetype == "application/problem+json"
    body: dict[str, Any] = answer.get_json()
    assert body["type"] == f"/api#{kind}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


# -- reading -----------------------------------------------------------------------------------------


def test_queries(running: Console) -> None:
    listed = running.get("/queries")["items"]
    assert [(q["name"], q["state"], q["wanted"]) for q in listed] == [(QUERY, "running", "running")]
    assert "text" not in listed[0]
    running.clock.pause(5)
    one = running.get(f"/queries/{QUERY}")
    assert one["text"].startswith("name")
    assert one["age_s"] == 5
    refused(running.call("GET", "/api/v1/queries/none"), 404, "missing")


def test_nodes(running: Console) -> None:
    found = running.get(f"/queries/{QUERY}/nodes")
    assert found["version"] == 7
    nodes = found["items"]
    assert [node["node"] for node in nodes] == [0, 1, 2]
    assert nodes[0]["memory_bytes"] == 7 * 6 * MB
    assert nodes[0]["disk_bytes"] == 5 * MB
    assert nodes[0]["groups_on_disk"] == 1
    assert nodes[0]["disk_free_bytes"] is None  # no limit
    assert nodes[0]["full_in_s"] == pytest.approx(58 * MB / 80_000, rel=0.5)
    one = running.get(f"/queries/{QUERY}/nodes/0")
    assert one["operators"] == [
        {"operator": "join", "groups": 8, "memory_bytes": 42 * MB, "disk_bytes": 5 * MB}
    ]
    refused(running.call("GET", f"/api/v1/queries/{QUERY}/nodes/3"), 404, "missing")
    refused(running.call("GET", f"/api/v1/queries/{QUERY}/nodes/x"), 404, "missing")


def test_groups_are_filtered_sorted_and_paged(running: Console) -> None:
    path = f"/queries/{QUERY}/groups"
    whole = running.get(path)
    assert whole["groups"] == 24
    assert [g["group"] for g in whole["items"]] == list(range(24))
    on_disk = running.get(f"{path}?tier=disk")["items"]
    assert [(g["group"], g["node"], g["memory_bytes"]) for g in on_disk] == [(21, 0, 0)]
    of_node = running.get(f"{path}?node=1&sort=rows_out_per_s")["items"]
    rates = [g["rows_out_per_s"] for g in of_node]
    assert rates == sorted(rates, reverse=True)
    assert {g["node"] for g in of_node} == {1}
    up = running.get(f"{path}?sort=rows_out_per_s&ascending=true")["items"]
    assert up[0]["rows_out_per_s"] == 1.0
    seen, cursor = [], ""
    while True:
        page = running.get(f"{path}?limit=7&sort=memory_bytes{cursor}")
        seen += [g["group"] for g in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert sorted(seen) == list(range(24))
    refused(running.call("GET", f"/api/v1{path}?operator=none"), 404, "missing")
    refused(running.call("GET", f"/api/v1{path}?sort=color"), 422, "invalid")
    refused(running.call("GET", f"/api/v1{path}?cursor=x"), 422, "invalid")


def test_series_of_query_and_nodes(running: Console) -> None:
    for _ in range(5):
        running.clock.pause(10)
        heard(running)
    since_s = running.clock() - 50
    found = running.get(f"/queries/{QUERY}/series?figures=tick_s,lag_s&since_s={since_s}")
    assert set(found["values"]) == {"tick_s", "lag_s"}
    assert len(found["time_s"]) == len(found["values"]["tick_s"]) == 6
    nodes = running.get(f"/queries/{QUERY}/series/nodes?figures=memory_bytes&since_s={since_s}")
    assert len(nodes["values"]["memory_bytes"][0]) == 3
    assert nodes["values"]["memory_bytes"][-1][0] == 42 * MB
    none = running.get(f"/queries/{QUERY}/series?until_s={since_s - 1_000}")
    assert none["time_s"] == []
    refused(
        running.call("GET", f"/api/v1/queries/{QUERY}/series?since_s=5&until_s=4"), 422, "invalid"
    )


def test_a_groups_history_and_the_changes(running: Console) -> None:
    found = running.get(f"/queries/{QUERY}/operators/join/groups/3/series")
    assert set(found) == {"step_s", "time_s", "values"}
    changes = running.get(f"/queries/{QUERY}/changes")["items"]
    assert [(c["operator"], c["group"], c["tier"]) for c in changes] == [("join", 0, "memory")]


def test_nothing_recorded_yet_is_said(console: Console) -> None:
    from control.ledger import QueryRow

    console.store.queries.add(QueryRow("new", "", "", None, Wanted.STOPPED, False, 0.0))
    for part in ("nodes", "groups", "now", "menu", "forecast", "operators"):
        body = refused(console.call("GET", f"/api/v1/queries/new/{part}"), 404, "missing")
        assert "recorded" in body["detail"]


def test_the_menu_ranks_and_has_nothing_in_it(running: Console) -> None:
    found = running.get(f"/queries/{QUERY}/menu")
    gains = [entry["gain_row_s"] for entry in found["items"]]
    assert gains == sorted(gains, reverse=True)
    assert "nothing" in {entry["do"] for entry in found["items"]}
    assert [entry["rank"] for entry in found["items"]] == list(range(1, len(gains) + 1))
    forecast = running.get(f"/queries/{QUERY}/forecast")
    assert len(forecast["full_in_s"]) == 3


# -- propose, preview, apply -------------------------------------------------------------------------


def propose(console: Console, **body: Any) -> Any:
    return console.post(f"/queries/{QUERY}/proposals", {"do": "spill", "node": 0, **body})


def test_propose_read_apply_and_wait(running: Console) -> None:
    made = propose(running, percent=30).get_json()
    assert made["result"]["preview"]["steps"]
    shown = running.get(f"/proposals/{made['id']}")
    assert shown["state"] == "open"
    assert shown["preview"] == made["result"]["preview"]
    done = running.post(f"/proposals/{made['id']}/apply")
    assert done.status_code == 202
    command = done.get_json()["id"]
    told = running.get(f"/commands/{command}?wait=0")
    assert (told["state"], told["over"]) == ("queued", False)
    before = running.clock()
    assert running.get(f"/commands/{command}?wait=20")["state"] == "queued"
    assert 19.5 <= running.clock() - before <= 20.5  # a long poll, by the fake clock
    taken = running.store.commands.take(running.clock())
    assert taken[0].body["plan"] == shown["plan"]  # what is applied is what was previewed
    running.store.commands.end(
        command, "done", {"text": "done", "actions": ["a1"]}, running.clock()
    )
    before = running.clock()
    assert running.get(f"/commands/{command}?wait=20")["outcome"]["actions"] == ["a1"]
    assert running.clock() == before
    refused(running.post(f"/proposals/{made['id']}/apply"), 409, "conflict")


def test_too_many_long_polls_are_answered_at_once(running: Console) -> None:
    from app.parts import parts_of

    made = propose(running, percent=30).get_json()
    command = running.post(f"/proposals/{made['id']}/apply").get_json()["id"]
    waits = parts_of(running.app).waits
    for _ in range(running.settings.waits_max):
        waits.acquire()
    before = running.clock()
    assert running.get(f"/commands/{command}?wait=20")["state"] == "queued"
    assert running.clock() == before


def test_a_stale_proposal_is_refused_with_the_drift(running: Console) -> None:
    made = propose(running, groups=[0, 3]).get_json()
    running.clock.pause(1)
    heard(running, nodes=2)
    body = refused(running.post(f"/proposals/{made['id']}/apply"), 409, "refused")
    assert body["refusals"]
    assert running.get(f"/proposals/{made['id']}")["state"] == "stale"


def test_refusals_come_with_their_numbers(running: Console) -> None:
    body = refused(propose(running, percent=0.0), 409, "refused")
    assert body["refusals"][0] == {
        "why": "percent_out_of_range",
        "text": "percent must be over 0 and at most 100",
        "found": 0.0,
        "limit": 100,
    }
    body = refused(propose(running, node=9), 409, "refused")
    assert body["refusals"][0]["why"] == "unknown_node"


def test_steps_drain_and_dismiss(running: Console) -> None:
    entries = running.get(f"/queries/{QUERY}/menu")["items"]
    step = next(entry["step"] for entry in entries if entry["step"])
    made = running.post(f"/queries/{QUERY}/proposals/steps", {"steps": [step]})
    assert made.status_code == 200, made.text
    assert running.get(f"/proposals/{made.get_json()['id']}")["plan"]["steps"][0] == step
    drained = running.post(f"/queries/{QUERY}/drain", {"node": 2})
    assert drained.status_code == 200, drained.text
    id = drained.get_json()["id"]
    assert running.post(f"/proposals/{id}/dismiss").status_code == 200
    assert running.get(f"/proposals/{id}")["state"] == ProposalState.DISMISSED
    refused(running.post(f"/proposals/{id}/dismiss"), 409, "conflict")
    refused(running.post("/proposals/none/dismiss"), 404, "missing")


@pytest.mark.parametrize(
    "steps",
    [
        [{"do": "spill"}],
        [{"do": "spill", "node": 0, "bytes": 1, "parts": [["join"]]}],
        [{"do": "spill", "node": 0, "bytes": 1, "parts": [[["join"], [0]]]}],
        [{"do": "spill", "node": 0, "bytes": 1, "parts": [["join", ["x"]]]}],
        [{"do": "move", "source": 0, "target": 0, "bytes": 1, "parts": [["join", [0]]]}],
        [{"do": "spill", "node": 0, "bytes": 1, "parts": [["none", [10**15]]]}],
    ],
)
def test_steps_that_are_none_are_refused(running: Console, steps: Any) -> None:
    answer = running.post(f"/queries/{QUERY}/proposals/steps", {"steps": steps})
    assert answer.status_code in (409, 422), answer.text


def test_proposals_are_paged_newest_first(running: Console) -> None:
    for _ in range(5):
        running.clock.pause(1)
        heard(running)
        assert propose(running, percent=10).status_code == 200
    first = running.get("/proposals?limit=3")
    rest = running.get(f"/proposals?limit=3&cursor={first['next']}")
    times = [p["created_s"] for p in first["items"] + rest["items"]]
    assert len(times) == 5
    assert times == sorted(times, reverse=True)
    assert rest["next"] is None
    assert running.get("/proposals?state=applied")["items"] == []


# -- actions -----------------------------------------------------------------------------------------


def test_actions_with_steps(running: Console) -> None:
    now_s = running.clock()
    rows = [action_row("a1", now_s), action_row("a2", now_s + 5, over=False)]
    running.store.actions.keep(rows)
    listed = running.get("/actions")["items"]
    assert [(a["id"], a["do"], a["nodes"], a["state"]) for a in listed] == [
        ("a2", "spill", [1], "running"),
        ("a1", "spill", [1], "done"),
    ]
    one = running.get("/actions/a2")
    assert [(s["name"], s["state"]) for s in one["steps"]] == [
        ("ChooseGroups", "done"), ("WriteDisk", "running"), ("Commit", "to come"),
        ("DropMemory", "to come"),
    ]  # fmt: skip
    assert one["cancellable"]
    assert one["groups"] == 2
    assert running.get("/actions?state=done")["items"][0]["id"] == "a1"
    assert running.post("/actions/a2/cancel").status_code == 202
    refused(running.post("/actions/a1/cancel"), 409, "refused")
    refused(running.post("/actions/none/undo"), 404, "missing")
    assert [h["event"] for h in one["history"]][:2] == ["accept", "begin"]


# -- rules, hold, budget -----------------------------------------------------------------------------


def test_rules(running: Console) -> None:
    assert running.post("/rules", {"text": RULE}).status_code == 200
    one = running.get("/rules/balance")
    assert one["mode"] == "propose"
    assert one["error"] == ""
    assert one["rule"]["every_s"] == 15
    assert one["editor"] == "ada"
    body = refused(
        running.post("/rules", {"text": RULE.replace("relocate", "relocat")}), 422, "invalid"
    )
    assert "relocate" in body["detail"]  # did you mean
    refused(running.post("/rules", {"text": "name = "}), 422, "invalid")
    refused(running.post("/rules/balance/mode", {"mode": "auto"}, Role.OPERATOR), 403, "role")
    assert running.post("/rules/balance/mode", {"mode": "auto"}).status_code == 200
    assert running.post("/rules/balance/mode", {"mode": "sometimes"}).status_code == 422
    found = running.get(f"/rules/balance/interlock?query={QUERY}")["items"]
    assert found[0]["query"] == QUERY
    assert all({"why", "text", "until_s"} <= set(blocker) for blocker in found[0]["blockers"])
    running.store.rules.evaluated(
        Evaluation("balance", QUERY, 1.0, 1.0, 1, "nothing", {"text": "balanced"})
    )
    log = running.get("/rules/balance/evaluations")["items"]
    assert [(e["outcome"], e["times"]) for e in log] == [("nothing", 1)]
    assert running.get("/evaluations")["items"] == log
    assert running.call("DELETE", "/api/v1/rules/balance").status_code == 200
    refused(running.call("GET", "/api/v1/rules/balance"), 404, "missing")


def test_a_rule_on_hold_says_so(running: Console) -> None:
    running.post("/rules", {"text": RULE})
    running.post("/hold", {"seconds": 600}, Role.OPERATOR)
    held = running.get("/hold")
    assert held["held"]
    assert held["until_s"] == running.clock() + 600
    assert held["by"] == "olga"
    blockers = running.get("/rules/balance/interlock")["items"][0]["blockers"]
    assert "hold" in {blocker["why"] for blocker in blockers}
    assert running.call("DELETE", "/api/v1/hold").status_code == 200
    assert not running.get("/hold")["held"]
    running.post("/hold", {"seconds": 60})
    running.clock.pause(61)
    assert not running.get("/hold")["held"]  # it ends by itself


def test_a_rule_that_cannot_be_read_any_more_is_shown_with_why(console: Console) -> None:
    console.store.rules.keep(RuleRow("old", "name = 'old'\nfrobnicate = 1", "off", "ada", 0.0))
    one = console.get("/rules")["items"][0]
    assert one["rule"] == {}
    assert "frobnicate" in one["error"]


def test_policies_have_their_parameters(console: Console) -> None:
    found = {p["policy"]: p for p in console.get("/policies")["items"]}
    assert "lazy_disk" in found
    names = {p["name"] for p in found["relocate"]["parameters"]}
    assert names


def test_a_budget_that_nobody_set_is_the_one_that_is_enforced(running: Console) -> None:
    found = running.get("/budget")
    assert (found["bytes"], found["pause_s"]) == (DAILY_BYTES, DAILY_PAUSE_S)
    assert running.post("/budget", {"pause_s": 30}).status_code == 200
    found = running.get("/budget")
    assert (found["bytes"], found["pause_s"]) == (DAILY_BYTES, 30)


def test_the_days_budget(running: Console) -> None:
    assert running.post("/budget", {"bytes": 5, "pause_s": 1.5}).status_code == 200
    found = running.get("/budget")
    assert (found["bytes"], found["pause_s"]) == (5, 1.5)
    assert found["used"]["bytes"] == 0
    body = refused(propose(running, percent=30), 409, "refused")
    assert "daily_bytes" in {refusal["why"] for refusal in body["refusals"]}


# -- queries -----------------------------------------------------------------------------------------


def test_lifecycle_of_a_query_becomes_commands(running: Console) -> None:
    for verb, wanted in (
        ("pause", "paused"),
        ("resume", "running"),
        ("stop", "stopped"),
        ("start", "running"),
    ):
        running.clock.pause(1)
        answer = running.post(f"/queries/{QUERY}/{verb}", role=Role.OPERATOR)
        assert answer.status_code == 202
        assert running.get(f"/queries/{QUERY}")["wanted"] == wanted
        command = running.get(f"/commands/{answer.get_json()['id']}")
        assert command["kind"] == f"query.{verb}"
        assert command["user"] == "olga"
    refused(running.post(f"/queries/{QUERY}/start", {"x": 1}), 422, "invalid")
    refused(running.post("/queries/none/start"), 404, "missing")
    kinds = [c["kind"] for c in running.get(f"/commands?query={QUERY}")["items"]]
    assert kinds == ["query.start", "query.stop", "query.resume", "query.pause"]


def test_workload_and_nodes(running: Console) -> None:
    body = {"stream": "trades", "options": {"rate": 5_000, "skew": [1, 2]}}
    assert running.post(f"/queries/{QUERY}/workload", body).status_code == 202
    assert running.post(f"/queries/{QUERY}/workload", {"slow": {"1": 0.001}}).status_code == 202
    refused(running.post(f"/queries/{QUERY}/workload", {}), 422, "invalid")
    assert running.post(f"/queries/{QUERY}/nodes", {"nodes": 4}).status_code == 202
    refused(running.post(f"/queries/{QUERY}/nodes", {"nodes": 0}), 422, "invalid")
    refused(running.call("DELETE", f"/api/v1/queries/{QUERY}"), 409, "refused")  # it runs


# -- alerts, audit, users, tokens, webhooks, learning ------------------------------------------------


def test_alerts(running: Console) -> None:
    store, now_s = running.store, running.clock()
    store.alerts.raised("full", "market/0", "full in 5 min", now_s)
    store.alerts.raised("lag", "market", "behind", now_s)
    store.alerts.ended("lag", "market", now_s + 1)
    opened = running.get("/alerts?open=true")["items"]
    assert [(a["kind"], a["subject"]) for a in opened] == [("full", "market/0")]
    assert len(running.get("/alerts")["items"]) == 2
    id = opened[0]["id"]
    assert running.post(f"/alerts/{id}/acknowledge", role=Role.OPERATOR).status_code == 200
    assert running.post(f"/alerts/{id}/silence", {"seconds": 60}).status_code == 200
    found = running.get("/alerts?open=true")["items"][0]
    assert found["acknowledged_by"] == "olga"
    assert found["silenced_until_s"] == running.clock() + 60
    refused(running.post("/alerts/9999/acknowledge"), 404, "missing")


def test_an_open_alert_says_how_things_stand_now(running: Console) -> None:
    """Raised once, its text follows the situation by API and page; the end tells webhooks what it was and what is."""
    store, watch = running.store, Watch(running.store)
    events = ("alert.raised", "alert.ended")
    store.webhooks.add(Webhook("h", "https://x.test/", "s", events, "ada", 0))

    def grow(bytes_per_s: float, seconds: float) -> tuple[str, list[float | None]]:
        running.clock.pause(seconds)
        now_s = running.clock()
        bare = picture(QUERY, now_s, 3, 24)
        rates = np.full(24, bytes_per_s)
        snapshot = replace(bare, groups=replace(bare.groups, bytes_per_s=rates))
        store.metrics.write([sample_of(snapshot, now_s)])
        for process in ("engine", "control"):
            store.metrics.beat(Heartbeat(process, 1, now_s, now_s, "running"))
        watch.run_once(now_s)
        items = running.get("/alerts?open=true")["items"]
        nodes = running.get(f"/queries/{QUERY}/nodes")["items"]
        text = next((a["text"] for a in items if a["kind"] == "full_soon"), "")
        return text, [node["full_in_s"] for node in nodes]

    def told() -> list[tuple[str, Any]]:
        due = [delivery for _, delivery in store.webhooks.due(running.clock())]
        return [(d.event, d.body) for d in due if d.body["kind"] == "full_soon"]

    assert grow(40_000, 5)[0] == ""  # it has to last
    text, _ = grow(40_000, 10)
    assert text.startswith("node 0 in 2 min")
    text, full_s = grow(0, 5)
    assert full_s == [None, None, None]
    assert text.startswith("no node fills within a day")
    text, full_s = grow(15_000, 5)
    assert full_s[0] is not None and full_s[0] < 600
    assert text.startswith("node 0 in 6 min")
    assert [event for event, _ in told()] == ["alert.raised"]
    grow(0, 30)
    assert grow(0, 60)[0] == ""
    raised, ended = (body for _, body in told())
    assert raised["text"].startswith("node 0 in 2 min")
    assert ended["text"].startswith("node 0 in 6 min")
    assert ended["now"] == "no node fills within a day"
    (past,) = (a for a in running.get("/alerts")["items"] if a["kind"] == "full_soon")
    assert past["text"] == ended["text"]  # what it was about, not that it is over


def test_everything_that_changes_is_in_the_audit(running: Console) -> None:
    running.post("/hold", {"seconds": 60}, Role.OPERATOR)
    running.post("/rules/none/mode", {"mode": "auto"}, Role.OPERATOR)
    answer = running.call(
        "POST", "/api/v1/hold", Role.OPERATOR, json={}, headers={"X-Spillway-Client": "ctl"}
    )
    assert answer.status_code == 200
    lines = running.get("/audit?user=olga")["items"]
    assert [(a["what"], a["outcome"], a["source"]) for a in lines] == [
        ("hold", "accepted", "cli"),
        ("rule.mode", "refused", "api"),
        ("hold", "accepted", "api"),
    ]
    assert lines[0]["address"] == "127.0.0.1"
    page = running.get("/audit?limit=1")
    assert len(page["items"]) == 1
    assert page["next"]


def test_users(console: Console) -> None:
    body = {"name": "eve", "role": "viewer", "password": "long enough 1"}
    ada = console.signed_in("ada")
    assert ada.send("POST", "/users", body).status_code == 200
    refused(ada.send("POST", "/users", body), 409, "conflict")
    assert console.post("/users/eve/role", {"role": "operator"}).status_code == 200
    users = {user["name"]: user for user in console.get("/users")["items"]}
    assert users["eve"]["role"] == "operator"
    assert "password_hash" not in users["eve"]
    refused(console.post("/users/ada/disable"), 409, "refused")  # the last admin
    refused(console.post("/users/none/enable"), 404, "missing")
    for line in console.get("/audit?what=user.add")["items"]:
        assert "long enough" not in json.dumps(line)
        assert "argon2" not in json.dumps(line)


def test_tokens_are_shown_once(console: Console) -> None:
    sent = {"name": "laptop", "scope": "viewer"}
    made = console.signed_in("ada").send("POST", "/tokens", sent).get_json()
    listed = console.get("/tokens")["items"]
    mine = next(token for token in listed if token["id"] == made["id"])
    assert "sha256" not in mine
    assert made["token"] not in json.dumps(listed)
    assert [token["mine_now"] for token in listed].count(True) == 1
    assert made["token"].encode() not in (console.folder / "ledger.db").read_bytes()


def test_webhooks(console: Console) -> None:
    body = {"url": "https://hook.example/x", "events": ["alert.raised"]}
    made = console.post("/webhooks", body).get_json()
    assert len(made["result"]["secret"]) >= 32
    listed = console.get("/webhooks")["items"]
    assert listed[0]["url"] == body["url"]
    assert made["result"]["secret"] not in json.dumps(listed)
    for url in (
        "http://hook.example/",
        "ftp://x/",
        "https://u:p@x/",
        "https://[::1",
        "x",
        "https://a b/",
    ):
        refused(console.post("/webhooks", {**body, "url": url}), 422, "invalid")
    refused(console.post("/webhooks", {**body, "events": ["nothing"]}), 422, "invalid")
    assert console.call("DELETE", f"/api/v1/webhooks/{made['id']}").status_code == 200


def test_learning(console: Console) -> None:
    line = Learned(1.0, "a1", "spill_cpu_s", 2.0, 3.0, "write_s_per_byte", 1.0, 1.2)
    console.store.learning.learn([line], {})
    found = console.get("/learning")["items"]
    assert [(item["figure"], item["predicted"], item["actual"]) for item in found] == [
        ("spill_cpu_s", 2.0, 3.0)
    ]
    assert "estimates" in console.get("/coefficients")


# -- about -------------------------------------------------------------------------------------------


def test_session_says_who_asks(console: Console) -> None:
    assert console.get("/session", Role.VIEWER) == {
        "user": "vic", "role": "viewer", "by": "token", "ends_s": None, "confirmed": False,
        "must_change": False,
    }  # fmt: skip
    found = console.signed_in("olga").client.get("/api/v1/session").get_json()
    assert (found["user"], found["by"], found["confirmed"]) == ("olga", "session", True)
    assert found["ends_s"] == console.clock() + console.settings.idle_s


def test_processes_and_health(console: Console) -> None:
    answer = console.call("GET", "/health", None)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    with_query(console)
    assert console.call("GET", "/health", None).get_json()["status"] == "ok"
    told = console.get("/processes")["items"]
    assert {p["process"] for p in told} == {"engine", "control", "console"}
    assert told[0]["about"]
    console.clock.pause(console.settings.stale_s + 1)
    answer = console.call("GET", "/health", None)
    assert answer.status_code == 503
    assert "about" not in answer.text
    assert all(process["stale"] for process in answer.get_json()["processes"])


def test_page_of_routes(console: Console) -> None:
    page = console.signed_in("vic").client.get("/api").text
    for route in ROUTES:
        assert f"{route.method} {PREFIX}{route.path}".replace("&", "&amp;") in page
    assert 'id="refused"' in page


# -- the table itself --------------------------------------------------------------------------------


def test_openapi_has_every_route(console: Console) -> None:
    found = console.get("/openapi.json")
    assert found == json.loads(json.dumps(document(ROUTES)))
    assert found["openapi"].startswith("3.1")
    operations = [op for path in found["paths"].values() for op in path.values()]
    assert len(operations) == len(ROUTES)
    names = [op["operationId"] for op in operations]
    assert len(set(names)) == len(names)


def test_answers_are_as_their_schemas_say(running: Console) -> None:
    """Every route that reads, with something in every noun."""
    store, now_s = running.store, running.clock()
    made = propose(running, percent=30).get_json()
    command = running.post(f"/proposals/{made['id']}/apply").get_json()["id"]
    store.actions.keep([action_row("a1", now_s)])
    store.alerts.raised("lag", "market", "behind", now_s)
    running.post("/rules", {"text": RULE})
    store.rules.evaluated(Evaluation("balance", QUERY, 1.0, 1.0, 1, "nothing", {}))
    store.learning.learn([Learned(1.0, "a", "f", 2.0, 3.0, "c", 1.0, 1.2)], {})
    running.post("/webhooks", {"url": "https://hook.example/", "events": ["alert.raised"]})
    ids = {"/proposals/{id}": made["id"], "/commands/{id}": command, "/actions/{id}": "a1"}
    places = {"query": QUERY, "rule": "balance", "operator": "join", "node": "1", "group": "1"}
    for route in ROUTES:
        if route.changes or route.produces.startswith("text/csv"):
            continue
        path = route.path.format(**{**places, "id": ids.get(route.path, "")})
        body = running.get(path)
        _, faults = checked(body, route.answer, route.name)
        assert not faults, faults
    assert Delivery  # the outbox of webhooks is not an answer of the API


# -- bodies and parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [b"{", b"[1,", b'{"seconds": NaN}', b'{"seconds": 1e999', b"\xff\xfe", b'"\\ud800"', b"[" * 100_000,
     b'{"text": "\\udfff"}', b'{"a": ' + b"9" * 5_000 + b"}"],
)  # fmt: skip
def test_malformed_bodies(console: Console, raw: bytes) -> None:
    answer = console.call("POST", "/api/v1/rules", data=raw, content_type="application/json")
    assert answer.status_code in (400, 422), answer.text
    assert answer.mimetype == "application/problem+json"


@pytest.mark.parametrize("body", [[], "x", 3, None, True])
def test_bodies_that_are_no_object(console: Console, body: Any) -> None:
    raw = json.dumps(body)
    answer = console.call("POST", "/api/v1/rules", data=raw, content_type="application/json")
    refused(answer, 422, "invalid")


def test_bodies_of_another_type_or_size(console: Console) -> None:
    answer = console.call("POST", "/api/v1/hold", data="seconds=60")
    refused(answer, 415, "media-type")
    big = json.dumps({"text": "x" * (1 << 20)})
    answer = console.call("POST", "/api/v1/rules", data=big, content_type="application/json")
    refused(answer, 413, "too-large")
    long = json.dumps({"text": "x" * 300_000})
    answer = console.call("POST", "/api/v1/rules", data=long, content_type="application/json")
    refused(answer, 422, "invalid")


def test_faults_are_all_named(console: Console) -> None:
    body = refused(console.post("/users", {"role": "king", "more": 1}), 422, "invalid")
    assert {fault["where"] for fault in body["faults"]} == {
        "body.name", "body.password", "body.role", "body.more",
    }  # fmt: skip


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "colour=1", "limit=1&limit=2"]
)
def test_parameters_are_checked(console: Console, query: str) -> None:
    answer = console.call("GET", f"/api/v1/commands?{query}")
    refused(answer, 422, "invalid")


def test_other_methods_and_addresses(console: Console) -> None:
    body = refused(console.call("PUT", "/api/v1/hold"), 405, "method")
    assert set(body["allowed"]) == {"GET", "POST", "DELETE"}
    refused(console.call("GET", "/api/v1/nothing"), 404, "missing")
    assert console.call("OPTIONS", "/api/v1/hold").status_code == 405
    assert console.call("HEAD", "/api/v1/hold").status_code == 200


INJECTIONS = [
    "'; DROP TABLE users; --",
    '" OR ""="',
    "1' UNION SELECT password_hash FROM users --",
    "%",
    "_",
    "\\",
    "a\x00b",
    "<img src=x onerror=alert(1)>",
    "../../etc/passwd",
    "{{7*7}}",
    "${7*7}",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_sql_and_script_strings_are_only_text(running: Console, text: str) -> None:
    from urllib.parse import quote

    path = quote(text, safe="")
    for address in (f"/queries/{path}", f"/proposals/{path}", f"/rules/{path}", f"/actions/{path}"):
        assert running.call("GET", f"/api/v1{address}").status_code == 404
    for address in (
        "audit?user=",
        "audit?subject=",
        "commands?query=",
        "proposals?query=",
        "actions?query=",
    ):
        found = running.call("GET", f"/api/v1/{address}{path}")
        assert found.status_code in (200, 422)
        if found.status_code == 200:
            assert found.get_json()["items"] == []
    body = {"name": text, "role": "viewer", "password": "long enough 1"}
    ada = running.signed_in("ada")
    assert ada.send("POST", "/users", body).status_code == 422
    named = ada.send("POST", "/tokens", {"name": text, "scope": "viewer"})
    assert named.status_code in (200, 422)
    assert {user["name"] for user in running.get("/users")["items"]} == {"ada", "olga", "vic"}
    running.store.alerts.raised(text, text, text, running.clock())
    page = running.signed_in().client.get("/status").text
    assert "<img src=x" not in page
    assert running.get("/alerts?open=true")["items"][0]["text"] == text


# -- CSV ---------------------------------------------------------------------------------------------


def lines_of(console: Console, path: str) -> list[dict[str, str]]:
    answer = console.call("GET", f"/api/v1{path}")
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/csv")
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_statistics_as_csv(running: Console) -> None:
    running.store.actions.keep(
        [action_row("=1+1", running.clock()), action_row("a2", running.clock())]
    )
    base = f"/queries/{QUERY}/export"
    nodes = lines_of(running, f"{base}/nodes.csv")
    assert [(line["node"], float(line["memory_bytes"])) for line in nodes[:2]] == [
        ("0", 42.0 * MB),
        ("1", 16.0 * MB),
    ]
    assert float(lines_of(running, f"{base}/query.csv")[0]["tick_s"]) == 2.0
    operators = lines_of(running, f"{base}/operators.csv")
    assert [line["node"] for line in operators] == ["0", "1", "2"]
    ids = {line["id"] for line in lines_of(running, "/export/actions.csv")}
    assert ids == {"'=1+1", "a2"}


def test_ones_own_password_needs_the_one_until_now(console: Console) -> None:
    browser = console.signed_in("vic")
    path, sent = "/api/v1/session/password", {"current": "wrong one 1", "password": "long enough 1"}
    answer = browser.client.post(path, json=sent, headers=browser.csrf)
    assert (answer.status_code, answer.get_json()["type"]) == (401, "/api#wrong-password")
    sent |= {"current": PASSWORD}
    short = browser.client.post(path, json={**sent, "password": "short"}, headers=browser.csrf)
    assert short.status_code == 422
    assert browser.client.post(path, json=sent, headers=browser.csrf).status_code == 200
    assert browser.client.get("/api/v1/session").status_code == 401, "all sessions end"
    assert (
        console.signed_in("vic", "long enough 1").client.get("/api/v1/session").status_code == 200
    )
    told = [(line.what, line.outcome) for line in console.store.audit.page() if line.user == "vic"]
    assert told[1:4] == [
        ("password", "accepted"),
        ("password", "accepted"),
        ("password", "refused"),
    ], "changed, given rightly, given wrongly"


def test_looking_writes_to_the_ledger_once_a_minute_at_most(running: Console) -> None:
    """Each write is an fsync: fifty watchers would keep the disk busy."""
    token = {"Authorization": f"Bearer {running.token()}"}
    browser, ledger = running.signed_in(), running.store.ledger_file.path
    for client, path, headers in (
        (running.browser(), "/api/v1/queries", token),
        (browser.client, "/status", {}),
    ):
        client.get(path, headers=headers)
        with sqlite3.connect(ledger) as watching:
            before = watching.execute("PRAGMA data_version").fetchone()
            for _ in range(20):
                running.clock.pause(2.5)
                assert client.get(path, headers=headers).status_code == 200
            assert watching.execute("PRAGMA data_version").fetchone() == before
            running.clock.pause(60.0)
            assert client.get(path, headers=headers).status_code == 200
            assert watching.execute("PRAGMA data_version").fetchone() != before


def test_odd_values_are_the_callers_fault(running: Console) -> None:
    """What cannot be kept is not the store's fault: 4xx, and the store stays well."""
    odd = "odd \ud800 text"
    for method, path, body in (
        ("GET", "/api/v1/audit?before=9999999999999999999999", None),
        ("POST", "/api/v1/rules", {"text": odd}),
        ("POST", "/api/v1/tokens", {"name": odd, "scope": "viewer"}),
        ("POST", "/api/v1/users", {"name": odd, "role": "viewer", "password": "long enough 1"}),
    ):
        answer = running.call(method, path, **({"json": body} if body else {}))
        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert answer.content_type == "application/problem+json"
    with pytest.raises(
        StoreInvalid
    ) as caught:  # what gets past the schemas: the store says it itself
        running.store.users.seen("ada", 10**400)
    assert (of_store(caught.value).status, of_store(caught.value).kind) == (400, "odd")
    assert of_store(StoreError("the file is damaged", again=False)).status == 503
    assert running.get("/queries")["items"]


# -- join orders -------------------------------------------------------------------------------------


def test_join_orders_are_listed_priced_and_proposed(running: Console) -> None:
    path = f"/queries/{QUERY}/orders"
    early = running.get(path)
    assert (early["items"], early["running"]) == ([], None) and "not known yet" in early["text"]
    refused(running.call("GET", f"/api/v1{path}?order=(a%20b)"), 422, "invalid")
    joined(running, OLD)
    found = running.get(path)
    assert found["running"] == "(((a b) c) d)" and found["text"] == ""
    gains = [one["gain_row_s"] for one in found["items"] if "gain_row_s" in one]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0
    best = found["items"][0]
    again = running.get(f"{path}?order={quote(best['join_order'])}")["items"]
    assert again == [best]
    named = running.get(f"{path}?order={quote(best['join_order'])}&strategy=moving")["items"][0]
    assert named["strategy"] == "moving" and named["recommended"] == best["strategy"]
    refused(running.call("GET", f"/api/v1{path}?order=((a%20c)%20b)"), 422, "invalid")
    refused(running.call("GET", f"/api/v1{path}?order=(a%20b)&strategy=magic"), 422, "invalid")
    made = running.post(f"/queries/{QUERY}/proposals", {"do": "migrate"}).get_json()
    (step,) = running.get(f"/proposals/{made['id']}")["plan"]["steps"]
    assert (step["order"], step["strategy"]) == (best["join_order"], best["strategy"])
    joined(running, NEW)
    there = running.get(path)
    assert there["text"] and all(one.get("gain_row_s", 0) <= 0 for one in there["items"])
    answer = refused(running.post(f"/queries/{QUERY}/proposals", {"do": "migrate"}), 409, "refused")
    assert [one["why"] for one in answer["refusals"]] == ["no_better_order"]
