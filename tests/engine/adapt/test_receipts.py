"""Receipts and figures of actions: every action that ends has them, they add up, and they find what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from control.actions import State
from control.arbiter import Refusal
from control.cost.recalibrate import CORRECTS
from control.policies.none import Nothing
from control.requests import Request
from engine.adapt import courses, records
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy
from engine.adapt.receipts import GROUPS_MAX, Part, Switch, receipt
from engine.adapt.records import Records
from engine.errors import StateError
from engine.state.model import Manifest, Place, Run
from tests import examples
from tests.engine.adapt.costs import JOBS, SORTS
from tests.engine.adapt.dice import Dice
from tests.engine.checked import accepted, check, scratch
from tests.engine.local import Local, LocalSide, stream
from tests.engine.made import Life, Query, live, lives, queries

SQL = "SELECT a.v AS va, b.v AS vb FROM a JOIN b ON a.k = b.k"
STREAMS = [stream("a", "k bigint, v bigint"), stream("b", "k bigint, v bigint")]


def sound(body: dict[str, Any]) -> None:
    """A receipt adds up, in every group and in sum, by itself."""
    assert body["ok"], body["problems"]
    json.dumps(body)
    if "streams" not in body:
        return
    for line in body["streams"]:
        left = line["rows_before"] + line["rows_in"] - line["rows_expired"]
        assert left == line["rows_after"]
    for _, _, rows in body["groups"]:
        for before, came, gone, after in rows:
            assert before + came - gone == after and min(before, came, gone, after) >= 0
    if body["groups_total"] <= GROUPS_MAX:
        for at, when in ((0, "before"), (3, "after")):
            listed = sum(four[at] for _, _, rows in body["groups"] for four in rows)
            assert listed == sum(line[f"rows_{when}"] for line in body["streams"])
    for when in ("before", "after"):
        rows = sum(line[f"rows_{when}"] for line in body["streams"])
        assert rows == sum(place[f"rows_{when}"] for place in body["places"])


class Audited(Dice):
    """Looks at the receipts of what the dice did. Of actions that an earlier life left over nothing was counted."""

    audited = expired = came = 0

    def _desk_of(self, local: Local) -> Desk:
        before, desk = self.desk, super()._desk_of(local)
        if desk is not before:
            self.left = set(desk.records.actions)
        return desk

    def _count(self) -> None:
        super()._count()
        if self.desk is None:
            return
        kept = self.desk.records
        for action in kept.actions.values():
            if action.over and action.id not in self.left:
                sound(kept.receipts[action.id])
                assert kept.actuals[action.id]["pause_s"] >= 0
                self.audited += 1
                for line in kept.receipts[action.id].get("streams", ()):
                    self.expired += line["rows_expired"]
                    self.came += line["rows_in"]


AUDITED = st.builds(
    Audited,
    seed=st.integers(0, 2**32),
    budget=st.sampled_from([0, 0, 4_000, 12_000]),
    hold=st.booleans(),
    crashes=st.sampled_from([0.0, 0.15]),
)


@examples.lives()
@given(queries(most=4), lives, AUDITED)
def test_every_action_that_ends_has_a_receipt_that_adds_up(
    query: Query, life: Life, thrower: Audited
) -> None:
    """Random schedules of actions, overflows, cancellations and expiry, as in test_schedules."""
    accepted(query)
    order = query.random_order(np.random.default_rng(life.seed))
    with scratch() as root:
        local, told = live(root, query, replace(life, ticks=life.ticks + 2), order, meddler=thrower)
        check(local, told, query)
    for what in ("audited", "came", "expired"):
        event(f"{what}: {getattr(thrower, what) > 0}")


# -- one action each ------------------------------------------------------------------------------------


def feed(local: Local, seed: int = 1, rows: int = 80) -> None:
    rng = np.random.default_rng(seed)
    made = {
        n: pa.table({"k": rng.integers(0, 50, rows), "v": rng.integers(0, 9, rows)}) for n in "ab"
    }
    local.tick(made)


@pytest.fixture
def local() -> Iterator[Local]:
    with scratch() as root:
        made = Local(root, SQL, STREAMS)
        for seed in range(3):
            feed(made, seed)
        yield made


@pytest.fixture
def desk(local: Local) -> Desk:
    policy = Policy(Nothing(), interval_s=1e9)
    made = Desk(local.ticker, policy, {}, Records(local.root / "a"), local.clock, LocalSide)
    made.wall_s = local.clock
    return made


def act(desk: Desk, do: str, *, feeding: Callable[[], None] | None = None, **about: Any) -> str:
    """Ask, and take it to its end; the action's name."""
    found = desk.ask(Request(do, **{"node": 0, **about}), "test")
    assert not isinstance(found, Refusal), found
    for _ in range(20):
        if desk.records.actions[found.id].over:
            return found.id
        if feeding is not None:
            feeding()
        side(desk).work()
        desk.between(idle=True)
    raise AssertionError("it does not end")


def side(desk: Desk) -> LocalSide:
    assert isinstance(desk._runs.side, LocalSide)
    return desk._runs.side


def told(desk: Desk, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    body, figures = desk.records.receipts[name], desk.records.actuals[name]
    sound(body)
    return body, figures


def test_a_spill(desk: Desk) -> None:
    memory = desk.snapshot().groups.memory_bytes.sum()
    body, figures = told(desk, act(desk, "spill", percent=50.0))
    assert body["checksums"]["kind"] == "shared segments" and body["checksums"]["segments"] > 0
    gone, came = body["places"]
    assert (gone["tier"], came["tier"]) == ("memory", "disk")
    assert (
        gone["rows_before"] == came["rows_after"] > 0 == gone["rows_after"] == came["rows_before"]
    )
    assert 0 < figures["bytes"] < memory and figures["spill_cpu_s"] > 0
    assert body["owed"]["groups_before"] == 0 and body["owed"]["rows_came_out"] == 0


def test_a_move_while_rows_come(desk: Desk, local: Local) -> None:
    seeds = iter(range(100, 200))
    tick = lambda: (feed(local, next(seeds), 20), setattr(local.clock, "now", local.clock.now + 1))  # noqa: E731
    body, figures = told(
        desk, act(desk, "move", to=1, percent=60.0, feeding=lambda: tick() and None)
    )
    assert sum(line["rows_in"] for line in body["streams"]) > 0
    assert body["checksums"] == {**body["checksums"], "kind": "shared segments", "agree": True}
    assert [p["node"] for p in body["places"] if p["rows_after"]] == [1]
    assert figures["move_cpu_s"] > 0 and figures["move_bandwidth"] > 0
    assert 0 <= figures["pause_s"] <= figures["seconds"]
    assert figures["tick_s"] > 0


@pytest.mark.parametrize("hold", [False, True])
def test_the_pause_is_as_long_as_input_waited(desk: Desk, local: Local, hold: bool) -> None:
    """By a clock that goes on by a second for each tick; with `hold` input waits from the start."""
    desk.policy.hold = hold
    waited: list[float] = []

    def tick() -> None:
        local.clock.now += 1.0
        if desk.hold:
            waited.append(local.clock.now)
        feed(local, int(local.clock.now), 20)

    found = desk.ask(Request("move", 0, 1, percent=60.0), "test")
    assert not isinstance(found, Refusal)
    for _ in range(9):
        held = bool(desk.hold)
        tick()
        side(desk).work()
        desk.between(idle=False)
        if held and not desk.hold:
            break
    desk.finish_some(cleanup=False) if desk.running else None
    side(desk).eager = True
    desk.finish_some(cleanup=False)
    _, figures = told(desk, found.id)
    assert figures["pause_s"] == pytest.approx(len(waited), abs=1.0)
    assert waited or figures["pause_s"] == 0.0


def test_a_cleanup_says_what_came_out(desk: Desk, local: Local) -> None:
    act(desk, "spill", percent=100.0)
    for seed in range(5, 8):
        local.clock.now += 1
        feed(local, seed)
    before = local.results().num_rows
    body, figures = told(desk, act(desk, "cleanup"))
    out = local.results().num_rows - before
    assert body["checksums"] == {"kind": "sums of key hashes", "agree": True}
    assert out == body["owed"]["rows_came_out"] == figures["cleanup_rows"] > 0
    assert body["owed"]["groups_before"] > 0 == body["owed"]["groups_after"]
    assert figures["cleanup_read_cpu_s"] > 0 and figures["cleanup_join_cpu_s"] > 0
    assert figures["cleanup_read_cpu_s"] + figures["cleanup_join_cpu_s"] == pytest.approx(
        figures["cpu_s"]
    )


def test_a_budget(desk: Desk) -> None:
    desk.budgets[0] = 10**6
    body, figures = told(desk, act(desk, "budget", bytes=10**7))
    assert body == {"ok": True, "budget_before": 10**6, "budget_after": 10**7}
    assert figures["bytes"] == 0


def test_a_nodes_own_spill(local: Local) -> None:
    """Told of with its receipt: whoever hears of the action finds it."""
    budgets = {0: local.ticker.manifest.memory_bytes(0) // 2}
    made = Desk(local.ticker, Policy(), budgets, Records(local.root / "a"), local.clock, LocalSide)
    made.records.changed()
    feed(local, 9)
    (name,) = (n for n in made.records.changed() if n.startswith("local-"))
    assert made.records.changed() == []
    body, figures = told(made, name)
    assert sum(line["rows_in"] for line in body["streams"]) > 0, "it is within a tick"
    assert figures["bytes"] == made.records.actions[name].bytes > 0
    places = {place["tier"]: place["rows_after"] for place in body["places"]}
    assert places["memory"] == 0 < places["disk"]


def test_figures_have_the_names_that_the_model_learns_from(desk: Desk, local: Local) -> None:
    found: set[str] = set()
    for do, about in (("move", {"to": 1, "percent": 30.0}), ("spill", {"percent": 90.0})):
        found |= set(told(desk, act(desk, do, feeding=lambda: feed(local, 7, 9), **about))[1])
    found |= set(told(desk, act(desk, "cleanup"))[1])
    assert set(CORRECTS) - JOBS - SORTS <= found, "test_toll.py has those of migrations"


# -- ends before the commit -------------------------------------------------------------------------------


def test_a_cancelled_move_changed_nothing(desk: Desk) -> None:
    found = desk.ask(Request("move", 0, 1, percent=50.0), "test")
    assert not isinstance(found, Refusal) and desk.cancel(found.id) == ""
    body, figures = told(desk, found.id)
    assert body["commits"] == 0
    assert all(p["rows_before"] == p["rows_after"] for p in body["places"])
    assert desk.records.actions[found.id].note == "cancelled"
    assert not set(CORRECTS) & (set(figures) - {"tick_s"}), "nothing to learn from"


@pytest.mark.parametrize("fails", [False, True])
def test_a_cleanup_that_ends_early_says_what_it_kept(
    desk: Desk, local: Local, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(courses, "JOB_BYTES", 300)
    act(desk, "spill", percent=100.0)
    for seed in range(5, 8):
        feed(local, seed)
    found = desk.ask(Request("cleanup", 0), "test")
    assert not isinstance(found, Refusal)
    while not desk.records.progress.get(found.id):
        side(desk).work()
        desk.between(idle=True)
    if fails:
        side(desk).waiting[0][1].set_exception(StateError("no space left", where="here"))
        side(desk).waiting.clear()
        desk.between(idle=False)
    else:
        assert desk.cancel(found.id) == ""
    ended = desk.records.actions[found.id]
    assert ended.state is (State.FAILED if fails else State.CANCELLED)
    assert "portions are merged, their results are out" in ended.note
    assert "unchanged" not in ended.note
    body, _ = told(desk, found.id)
    assert body["commits"] > 1 and body["owed"]["rows_came_out"] > 0


def test_a_cleanup_that_only_sealed_says_so(desk: Desk, local: Local) -> None:
    act(desk, "spill", percent=50.0)
    feed(local, 5)
    found = desk.ask(Request("cleanup", 0), "test")
    assert not isinstance(found, Refusal) and desk.cancel(found.id) == ""
    assert desk.records.actions[found.id].note.endswith("is on disk too; nothing was merged")
    told(desk, found.id)


# -- what a receipt finds -----------------------------------------------------------------------------------


def spilled(desk: Desk) -> tuple[Part, Switch]:
    """A spill as its receipt sees it."""
    op, before = desk.flow.ops[0], desk.ticker.manifest
    part = Part.of(before, op, range(op.groups), (0,))
    act(desk, "spill", percent=100.0)
    after = next(m for m in [desk.ticker.manifest])
    return part, part.at(before, after)


def without_a_run(after: Manifest) -> Manifest:
    place = next(p for p, runs in after.disk.items() if len(runs) > 1)
    return replace(after, disk={**after.disk, place: after.disk[place][1:]})


def twice(after: Manifest) -> Manifest:
    place = next(iter(after.disk))
    return replace(after, disk={**after.disk, place: after.disk[place] * 2})


def swapped(after: Manifest) -> Manifest:
    """As many rows, of other streams."""
    one, two = (Place("join-1", 0, side) for side in (0, 1))
    return replace(after, disk={one: after.disk[two], two: after.disk[one]})


def other_file(after: Manifest) -> Manifest:
    def changed(run: Run) -> Run:
        return replace(run, durable=tuple(replace(s, checksum="0" * 16) for s in run.durable))

    return replace(after, disk={p: tuple(map(changed, runs)) for p, runs in after.disk.items()})


def still_there(after: Manifest) -> Manifest:
    place = next(iter(after.disk))
    left = {**after.disk, place: ()}
    return replace(after, disk=left, runs={**after.runs, place: after.disk[place]})


@pytest.mark.parametrize("spoil", [without_a_run, twice, swapped, other_file, still_there])
def test_what_is_wrong_is_found(desk: Desk, spoil: Callable[[Manifest], Manifest]) -> None:
    part, switch = spilled(desk)
    assert receipt("spill", [part], [switch])["ok"]
    body = receipt("spill", [part], [replace(switch, after=spoil(switch.after))])
    assert not body["ok"] and 1 <= len(body["problems"]) <= 10, body


def test_rows_that_nobody_brought_are_found(desk: Desk) -> None:
    part, switch = spilled(desk)
    more = switch.came.copy()
    more[3] += 1
    body = receipt("spill", [part], [replace(switch, came=more)])
    assert body["problems"] == ["join-1, group 3: -1 rows against what came"]


def test_a_merge_that_wrote_other_rows_is_found(desk: Desk) -> None:
    part, switch = spilled(desk)
    body = receipt("cleanup", [part], [switch], merged=False)
    assert not body["ok"] and "sums of key hashes" in body["problems"][0]


# -- bounds -------------------------------------------------------------------------------------------------


def test_records_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DECISIONS_MAX", "RECEIPTS_MAX", "ACTIONS_MAX"):
        monkeypatch.setattr(records, name, 5)
    kept = Records(tmp_path)
    for n in range(20):
        kept.note("test", str(n), 0.0)
        kept.settle(f"local-{n}-0", {"ok": True}, {"bytes": n})
        kept.progress[f"local-{n}-0"] = 1.0
        kept.local(n, 0, {"join-1": np.ones(3, np.int64)}, 0.0)
    assert [d["note"] for d in kept.decisions] == ["15", "16", "17", "18", "19"]
    names = [f"local-{n}-0" for n in range(15, 20)]
    for some in (kept.actions, kept.by, kept.receipts, kept.actuals, kept.progress):
        assert list(some) == names
    told = kept.as_json()["actions"]
    assert [a["actual"]["bytes"] for a in told] == [15, 16, 17, 18, 19]
    assert all(a["receipt"] == {"ok": True} for a in told)
    assert len(kept.changed()) <= 20 and kept.changed() == []
