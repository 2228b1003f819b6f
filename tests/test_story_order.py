"""A bad join order over the real processes: what ticks tell, the better order, proposed, applied, compared, taken back.

The query is the README's: two of its streams are fast and meet on few keys, and its file joins these two first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.up import ROOT, Up, until

pytestmark = pytest.mark.timeout(600)

FILE = ROOT / "docs" / "examples" / "orders.toml"
OLD = "(((q t) n) f)"
RULE = """
name = "order"
mode = "auto"
query = "orders"
every = "2s"
cooldown = "2s"
needs_gain = false

[policy]
name = "better_order"
settle_s = 5
span_s = 1
chance = 0.5
times = 1
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    made = Up(
        tmp_path_factory.mktemp("order") / "data", "--no-demo", settings=("trigger_seconds=0.2",)
    ).start()
    try:
        made.ctl("query", "register", str(FILE))
        made.running("orders", 120)
        yield made
    finally:
        made.stop()


def orders(up: Up) -> Any:
    return up.json("orders", "--query", "orders")


def better(up: Up) -> Any:
    """Once enough is known, the best order; both fast streams first makes far more rows in between."""

    def found() -> Any:
        told = orders(up)
        able = [one for one in told["items"] if one.get("gain_row_s", 0) > 0]
        return able[0] if able and told["text"] == "" else None

    return until(found, 90, "a better order")


def test_1_ticks_tell_which_order_is_better(up: Up) -> None:
    best = better(up)
    assert orders(up)["running"] == OLD
    assert best["before"]["between_per_s"] > 5 * best["after"]["between_per_s"]
    said = up.ctl("orders", "--query", "orders").stdout
    assert f"{OLD} (runs)" in said and best["join_order"] in said


def test_2_a_rule_changes_it_by_itself(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "order.toml"
    file.write_text(RULE)
    up.ctl("rule", "save", str(file))
    until(lambda: orders(up)["running"] != OLD, 120, "an order by rule")
    up.ctl("rule", "drop", "order")
    (action,) = actions(up)
    assert (action["rule"], action["do"]) == ("order", "migrate")


def test_3_it_is_taken_back(up: Up) -> None:
    taken_back(up, OLD)


def test_4_it_is_proposed_applied_and_compared(up: Up) -> None:
    made = up.json("propose", "migrate", "--query", "orders", "--order", "(((n f) t) q)")
    (step,) = up.json("show", made["id"])["plan"]["steps"]
    up.ctl("apply", made["id"], "--wait", "--timeout", "120")
    action = up.json("action", actions(up)[0]["id"])
    assert (action["state"], action["order"]) == ("done", step["order"])
    assert action["strategy"] == step["strategy"] != "auto"
    assert {"seconds", "pause_s", "bytes"} <= {*action["predicted"]["figures"]} & {
        *action["actual"]
    }
    assert action["receipt"]["order_before"] == OLD
    taken_back(up, OLD)


def actions(up: Up) -> Any:
    """Those that were asked for, the newest first."""
    found = up.json("actions", "--query", "orders")["items"]
    return [one for one in found if not one["id"].startswith("local-")]


def taken_back(up: Up, order: str) -> None:
    back = up.json("undo", actions(up)[0]["id"])
    up.ctl("apply", back["id"], "--wait", "--timeout", "120")
    until(lambda: orders(up)["running"] == order, 30, "the order from before")
