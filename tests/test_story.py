"""The whole story over the real processes, by `run.py ctl`: see, propose, preview, apply, undo, rules, drain, queries.

One `run.py up` for all of it, as its parts build on each other: the one that the live tests of the browser have used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.files_query import QUERY, feed, results, wanted
from tests.up import ROOT, Up, until

pytestmark = pytest.mark.timeout(900)

RULE = """
name = "even"
mode = "propose"
query = "demo"
every = "2s"
cooldown = "5s"
needs_gain = false

[policy]
name = "relocate"
ratio = 0.9
span_s = 1
"""


@pytest.fixture(scope="module")
def up(demo: Up) -> Iterator[Up]:
    demo.running()
    demo.ctl("release", check=False)  # the hold that a test of the browser may have left
    yield demo
    demo.stop()  # nobody needs it any longer


def groups(up: Up, query: str = "demo") -> list[dict[str, Any]]:
    return list(up.json("groups", "--query", query, "--most", "1000")["items"])


def on(up: Up, node: int) -> list[dict[str, Any]]:
    return [g for g in groups(up) if g["node"] == node]


def applied(up: Up, proposal: str) -> list[dict[str, Any]]:
    """Apply it, and follow it to its end; its actions."""
    command = up.json("apply", proposal)["id"]
    ended = until(
        lambda: (c := up.json("commands", command))["state"] not in ("queued", "taken") and c, 60
    )
    assert ended["state"] == "done", f"{ended['state']}: {ended['outcome']}"
    return [up.json("action", name) for name in ended["outcome"]["actions"]]


def test_see(up: Up) -> None:
    assert up.password not in up.said and up.said.count("first-password") == 1
    assert "demo" in up.shell("status").stdout
    nodes = until(
        lambda: (
            (items := up.json("nodes")["items"])
            and all(n["memory_bytes"] > 0 and n["rows_out_per_s"] > 0 for n in items)
            and items
        ),
        30,
        "rows on every node",
    )
    assert [n["node"] for n in nodes] == [0, 1, 2, 3]
    assert {n["budget_bytes"] for n in nodes} == {6_000_000}
    assert len(groups(up)) == 256
    until(lambda: rows_out(up) > 0, 30, "rows in the series")
    assert up.json("menu")["items"]


def test_nobody_else_can_look_into_the_data_folder(up: Up) -> None:
    """Also not at the rows that Spark shuffles, which lie in folders that it makes by itself."""
    until(lambda: rows_out(up) > 0, 30, "rows that went through Spark")
    open_to_others = [p for p in (up.data, *up.data.rglob("*")) if mode_of(p) & 0o077]
    assert open_to_others == []
    assert list((up.data / "spark").glob("blockmgr-*"))


def mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0  # state and results come and go


def rows_out(up: Up) -> float:
    """The most rows a second of the last minute."""
    series = up.json("series", "--last", "1m")
    return max((v for v in series["values"]["rows_out_per_s"] if v is not None), default=0.0)


def test_budgets_are_changed_while_it_runs(up: Up) -> None:
    up.ctl("rule", "mode", "demo_even", "off")  # else it acts between what is done here
    for node in range(4):
        made = up.json("propose", "budget", "--node", str(node), "--bytes", "40MB")
        applied(up, made["id"])
        # The next proposal is made on the sample that has this one: on an older one it would be stale.
        until(lambda n=node: budgets(up)[n] == 40_000_000, 10, "a budget")
    assert budgets(up) == [40_000_000] * 4


def budgets(up: Up) -> list[int]:
    """Of each node."""
    return [node["budget_bytes"] for node in up.json("nodes")["items"]]


def test_move_preview_apply_undo(up: Up) -> None:
    before = {g["group"] for g in on(up, 0)}
    made = up.json("propose", "move", "--node", "0", "--to", "1", "--percent", "20")
    shown = up.json("show", made["id"])
    (step,) = shown["plan"]["steps"]
    moved = {g for _, some in step["parts"] for g in some}
    assert moved <= before
    (action,) = applied(up, made["id"])
    assert action["state"] == "done" and action["receipt"]["ok"] is True
    steps = [record["name"] for record in action["steps"]]
    assert len(steps) == 8 and steps[0] == "ComputePartitionsToMove"
    until(lambda: moved <= {g["group"] for g in on(up, 1)}, 10, "the groups on node 1")
    back = json.loads(up.shell("undo", action["id"], "--json").stdout)
    applied(up, back["id"])
    until(lambda: moved <= {g["group"] for g in on(up, 0)}, 10, "the groups on node 0 again")


def test_a_stale_proposal_is_refused_with_the_drift(up: Up) -> None:
    first = up.json("propose", "move", "--node", "0", "--to", "1", "--groups", _some(up, 0, 3))
    second = up.json("propose", "move", "--node", "0", "--to", "2", "--groups", _some(up, 0, 3))
    applied(up, first["id"])
    until(lambda: up.ctl("apply", second["id"], check=False).returncode == 1, 10, "a refusal")
    shown = up.json("show", second["id"])
    assert shown["state"] == "stale" and "was 0, is 1" in shown["note"]


def _some(up: Up, node: int, count: int) -> str:
    able = [g for g in on(up, node) if g["tier"] == "memory"]
    return ",".join(str(g["group"]) for g in able[:count])


def test_spill_and_clean_up(up: Up) -> None:
    made = up.json("propose", "spill", "--node", "2", "--percent", "50")
    (action,) = applied(up, made["id"])
    assert action["receipt"]["ok"] is True
    until(lambda: [g for g in on(up, 2) if g["disk_bytes"] > 0], 10, "groups on disk")
    back = up.json("undo", action["id"])
    (cleanup,) = applied(up, back["id"])
    assert cleanup["state"] == "done" and cleanup["receipt"]["ok"] is True
    on_disk = [p for p in cleanup["receipt"]["places"] if p["tier"] == "disk"]
    assert on_disk and all(p["rows_before"] > 0 and p["rows_after"] == 0 for p in on_disk)


def test_an_action_is_cancelled(up: Up) -> None:
    """Before its commit; its node is made slow, so that there is time for that."""
    up.ctl("workload", "set", "--slow", "0=3")
    made = up.json("propose", "move", "--node", "0", "--to", "3", "--groups", _some(up, 0, 5))
    command = up.api("POST", f"/proposals/{made['id']}/apply", {})["id"]

    action = until(lambda: of_command(up, command), 30, "the action")
    up.api("POST", f"/actions/{action}/cancel", {})
    ended = until(lambda: (a := up.json("action", action))["state"] != "running" and a, 60)
    up.ctl("workload", "set", "--slow", "0=0")
    assert ended["state"] == "cancelled", ended["body"]["history"]
    assert up.json("commands", command)["state"] == "failed"


def test_rules_propose_then_act_and_are_held(up: Up, tmp_path: Path) -> None:
    path = tmp_path / "rule.toml"
    path.write_text(RULE)
    up.ctl("rule", "save", str(path))
    made = until(lambda: [p for p in up.json("proposals")["items"] if p["rule"] == "even"], 30)
    assert made[0]["state"] == "open"
    assert blockers(up), "it waits for its own proposal"
    up.ctl("dismiss", made[0]["id"])
    up.ctl("rule", "drop", "even")
    up.ctl("hold")
    path.write_text(RULE.replace("propose", "auto"))
    up.ctl("rule", "save", str(path))
    assert until(lambda: "hold" in blockers(up), 20)
    up.ctl("release")
    try:
        done = until(lambda: acted(up), 60, "an action of the rule")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{up.ctl('rule', 'log', 'even').stdout}") from None
    assert done[0]["by"] == "rule even (admin)"
    assert up.json("rule", "log", "even")["items"]
    found = up.json("backtest", "even", "--last", "10m")
    assert found["snapshots"] >= 1
    up.ctl("rule", "mode", "even", "off")


def acted(up: Up) -> list[dict[str, Any]]:
    """What the rule has done."""
    found = up.json("actions")["items"]
    return [a for a in found if a["rule"] == "even" and a["state"] == "done"]


def blockers(up: Up) -> set[str]:
    """What keeps the rule from acting now."""
    (found,) = up.json("rule", "why", "even")["items"]
    return {blocker["why"] for blocker in found["blockers"]}


def test_drain_and_add_a_node(up: Up) -> None:
    made = until(lambda: drained(up, 3), 90, "a drain that nothing speaks against")
    applied(up, made["id"])
    until(lambda: not on(up, 3), 10, "node 3 without groups")
    up.ctl("node", "add")
    until(lambda: len(up.json("nodes")["items"]) == 5, 60, "five nodes")
    up.running()


def drained(up: Up, node: int) -> Any:
    """The proposal, once no other action runs and nothing of the node is on disk; which is seen to."""
    done = up.ctl("drain", str(node), "--json", check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if "clean them up first" in done.stderr:
        back = up.ctl("propose", "cleanup", "--node", str(node), "--json", check=False)
        if back.returncode == 0:
            applied(up, json.loads(back.stdout)["id"])
    return None


def test_workload(up: Up) -> None:
    up.ctl("workload", "set", "--stream", "prices", "rate=6400")

    def faster() -> bool:
        series = up.json("series", "--last", "6s", "--points", "3")
        rates = [v for v in series["values"]["rows_in_per_s"] if v is not None]
        return bool(rates) and max(rates) > 6_000

    until(faster, 30, "more than 6 000 rows a second")
    refused = up.ctl("workload", "set", "--stream", "prices", "preset=plain", check=False)
    assert refused.returncode == 0
    last = until(lambda: (c := up.json("commands")["items"][0])["state"] == "refused" and c, 10)
    assert "preset" in last["outcome"]["text"]
    up.ctl("workload", "set", "--stream", "prices", "rate=1600")


def test_a_query_is_registered_and_exact_whatever_happens(up: Up, tmp_path: Path) -> None:
    inputs = up.data / "inputs"
    feed(inputs, 0)
    path = tmp_path / "query.toml"
    path.write_text(QUERY.replace("a.va", "a.missing").format(inputs=inputs))
    wrong = up.shell("query", "register", str(path), check=False)
    assert (
        wrong.returncode in (1, 2) and "missing" in wrong.stderr and "Traceback" not in wrong.stderr
    )
    path.write_text(QUERY.format(inputs="/etc"))
    assert (
        "outside the allowed folders" in up.ctl("query", "register", str(path), check=False).stderr
    )
    path.write_text(QUERY.format(inputs=inputs))
    up.ctl("query", "register", str(path))
    up.running("files")
    rows = (0, 0)
    for round_, process in enumerate(("control", "engine", "console"), 1):
        feed(inputs, round_)
        rows = until(lambda: results(up) == wanted(inputs) and results(up), 60, "exact results")
        until(lambda n=round_: shifted(up, n % 2), 60, "a move that nothing speaks against")
        up.kill(process)
        until(lambda: up.state("files") == "running", 120, "the query, and said so")
    assert rows > (1_000, 0)
    feed(inputs, 9)
    until(lambda: results(up) == wanted(inputs), 90, "exact results after a kill")
    until(lambda: all_over(up, "files"), 60, "every command is over")
    done_once(up, "files")
    for verb, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        up.ctl("query", verb, "files")
        until(lambda s=state: up.state("files") == s, 60, state)
    up.ctl("query", "unregister", "files")
    assert up.state("files") == ""


def all_over(up: Up, query: str) -> bool:
    """Nothing that was asked of the query is still on its way."""
    states = {c["state"] for c in up.json("commands")["items"] if c["query"] == query}
    return states <= {"done", "refused", "failed"}


def done_once(up: Up, query: str) -> None:
    """Each command has at most one action, which is over and says how; one that was done has one that was done."""
    actions = [a for a in up.json("actions", "--most", "500")["items"] if a["query"] == query]
    assert all(a["state"] in ("done", "failed", "cancelled") for a in actions), actions
    for command in up.json("commands", "--most", "500")["items"]:
        if command["query"] == query and command["kind"] == "apply":
            mine = [a["state"] for a in actions if a["command"] == command["id"]]
            assert len(mine) <= 1, "a proposal of one step is one action"
            assert command["state"] != "done" or mine == ["done"], command


def test_another_join_order_while_it_runs(up: Up) -> None:
    """Previewed, applied, told, taken back; wrong ones are refused with the reason."""
    wrong = up.ctl(
        "propose", "migrate", "--query", "demo", "--order", "((p v) nothing)", check=False
    )
    assert wrong.returncode and "column 8: there is no stream" in wrong.stderr
    up.ctl("rule", "mode", "demo_even", "off")
    before = operators(up)
    made = until(
        lambda: proposed(up, "migrate", "--query", "demo", "--order", "((p v) r)"),
        60,
        "no other action",
    )
    (action,) = applied(up, made["id"])
    assert action["state"] == "done", action
    steps = [record["name"] for record in action["steps"]]
    assert steps[0] == "CleanAccumulated" and "Swap" in steps
    until(lambda: operators(up) != before, 20, "another plan told")
    assert len(operators(up)) == 2
    until(lambda: up.json("nodes")["items"], 20, "nodes")
    back = up.json("undo", action["id"])
    (step,) = up.json("show", back["id"])["plan"]["steps"]
    assert step["order"] == "(p v r)"
    # Windows: rows that the tree has let go of, one join of all might need; it waits until they are over.
    command = up.api("POST", f"/proposals/{back['id']}/apply", {})["id"]
    begun = until(lambda: of_command(up, command), 30, "the action")
    up.api("POST", f"/actions/{begun}/cancel", {})
    ended = until(lambda: (a := up.json("action", begun))["state"] != "running" and a, 60)
    assert ended["state"] == "cancelled", ended
    assert len(operators(up)) == 2


def proposed(up: Up, *arguments: str) -> Any:
    """The proposal, once nothing speaks against it."""
    made = up.ctl("propose", *arguments, "--json", check=False)
    return json.loads(made.stdout) if made.returncode == 0 else None


def of_command(up: Up, command: str) -> str:
    """The action that it has begun."""
    found = up.api("GET", "/actions?limit=20")["items"]
    return next((a["id"] for a in found if a["command"] == command), "")


def operators(up: Up) -> list[str]:
    """Those of the demo's plan, as the store was told."""
    return list(up.api("GET", "/queries/demo")["about"]["operators"])


def shifted(up: Up, node: int) -> bool:
    """Half of a node's groups are on their way, once the move before it is over."""
    made = up.ctl("propose", "move", "--query", "files", "--node", str(node), "--to",
                  str(1 - node), "--percent", "50", "--json", check=False)  # fmt: skip
    if made.returncode:
        assert "Traceback" not in made.stderr
        return False
    return up.ctl("apply", json.loads(made.stdout)["id"], check=False).returncode == 0


def test_one_of_each(up: Up) -> None:
    for what in ("up", "engine", "control"):
        extra = ["--port", "0"] if what == "up" else []
        done = subprocess.run(
            [sys.executable, str(ROOT / "run.py"), what, "--data", str(up.data), *extra],
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 2 and f"another {what} works on this data folder" in done.stderr
        assert "Traceback" not in done.stderr


def test_stop_and_start_again(up: Up) -> None:
    before = {a["id"]: a["state"] for a in up.json("actions")["items"]}
    file, password = up.first_password.exists(), up.password
    assert up.stop() == 0
    up.start().running()
    after = {a["id"]: a["state"] for a in up.json("actions", "--most", "500")["items"]}
    assert before.items() <= after.items()
    assert up.said.count("first-password") == 1
    assert up.first_password.exists() == file and up.password == password, "no other is made"
