"""Alerts: each condition comes from its cause, none flaps, and what is open is ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.alerts import (
    KINDS,
    Condition,
    Seen,
    Standing,
    View,
    conditions,
    settle,
)
from control.ledger import ActionRow, Evaluation, QueryRow, Wanted, Webhook
from control.lulls import lull
from control.samples import Heartbeat, Sample, Series
from control.watch import Watch
from tests.control.loops import calm
from tests.control.made import MB, cluster
from tests.control.stage import QUERY, Stage

NOW = 10_000.0
ROW = QueryRow("q", "", "", None, Wanted.RUNNING, False, 0.0, "running")
ENGINE = Heartbeat("engine", 1, 0.0, NOW, "running")
CALM = View(NOW, beats=(ENGINE,))


def sample(share: float = 0.5, at: float = NOW) -> Sample:
    snapshot = cluster([[int(share * 100) * MB]], budget=100 * MB, time_s=at)
    return Sample("q", at, 1, {}, {}, snapshot)


def seen(**more: Any) -> Seen:
    return replace(Seen(ROW, sample()), **more)


def series(**columns: list[float]) -> Series:
    values = {name: np.array(column) for name, column in columns.items()}
    count = len(next(iter(values.values())))
    return Series(NOW - np.arange(count)[::-1], values)


def action(id: str, state: str, ended: float, size: int = 0) -> ActionRow:
    body = {"note": "the disk is gone"}
    return ActionRow(id, "q", body, "ann", state, ended - 1, ended, size)


def evaluation(outcome: str, lasted: float, *whys: str) -> Evaluation:
    said = {"blockers": [{"why": why, "text": why} for why in whys], "why": "it broke"}
    return Evaluation("r", "q", NOW - lasted, NOW, 3, outcome, said)


# Kind → a view that has it, and one just short of it.
CAUSES: dict[str, tuple[View, View]] = {
    "full_soon": (
        replace(CALM, queries=[seen(full_s=[None, 599.0])]),
        replace(CALM, queries=[seen(full_s=[None, 601.0])]),
    ),
    "over_budget": (
        replace(CALM, queries=[seen(sample=sample(1.01))]),
        replace(CALM, queries=[seen(sample=sample(1.0))]),
    ),
    "spilling": (
        replace(CALM, actions=[action("local-1-0", "done", NOW - 59, 5)]),
        replace(CALM, actions=[action("local-1-0", "done", NOW - 61, 5)]),
    ),
    "disk_filling": (
        replace(CALM, disks={"/data": (9, 100)}),
        replace(CALM, disks={"/data": (11, 100)}),
    ),
    "lag_growing": (
        replace(CALM, queries=[seen(recent=series(lag_s=[1, 2, 9, 14]))]),
        replace(CALM, queries=[seen(recent=series(lag_s=[14, 14, 14, 14]))]),
    ),
    "process_stale": (
        replace(CALM, beats=[replace(ENGINE, beat_s=NOW - 11)]),
        replace(CALM, beats=[replace(ENGINE, beat_s=NOW - 10)]),
    ),
    "action_failed": (
        replace(CALM, actions=[action("m1", "failed", NOW - 599)]),
        replace(CALM, actions=[action("m1", "failed", NOW - 601)]),
    ),
    "rule_blocked": (
        replace(CALM, rules={"r": evaluation("blocked", 3600, "running")}),
        replace(CALM, rules={"r": evaluation("blocked", 3600, "quiet", "hold")}),
    ),
    "late_rows": (
        replace(CALM, queries=[seen(recent=series(late_rows=[0, np.nan, 3]))]),
        replace(CALM, queries=[seen(recent=series(late_rows=[0, np.nan, 0]))]),
    ),
    "query_failed": (
        replace(CALM, queries=[Seen(replace(ROW, state="failed", error="no such column"))]),
        replace(CALM, queries=[Seen(replace(ROW, state="finished"))]),
    ),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_condition_comes_from_its_cause_and_from_nothing_less(kind: str) -> None:
    with_, without = CAUSES[kind]
    (found,) = conditions(with_)
    assert found.kind == kind and found.subject and found.text
    assert conditions(without) == []


@pytest.mark.parametrize(
    ("kind", "subject", "view"),
    [
        ("full_soon", "q", replace(CALM, queries=[seen(full_s=[700.0])])),
        ("disk_filling", "/data", replace(CALM, disks={"/data": (12, 100)})),
        ("lag_growing", "q", replace(CALM, queries=[seen(recent=series(lag_s=[6, 6, 7, 7]))])),
    ],
)
def test_what_is_open_must_get_clearly_better(kind: str, subject: str, view: View) -> None:
    assert conditions(view) == []
    (found,) = conditions(view, frozenset({(kind, subject)}))
    assert found.kind == kind


def test_a_rule_that_cannot_be_read_is_an_alert_at_once() -> None:
    (found,) = conditions(replace(CALM, rules={"r": evaluation("error", 0)}))
    assert found == Condition("rule_blocked", "r", "it broke")


def test_an_engine_never_heard_of_is_stale_once_it_had_time_to_start() -> None:
    control = Heartbeat("control", 1, NOW - 31, NOW, "running", {})
    (found,) = conditions(View(NOW, beats=[control]))
    assert (found.kind, found.subject, found.text) == ("process_stale", "engine", "never heard of")
    assert not conditions(View(NOW, beats=[replace(control, started_s=NOW - 29)]))


def test_many_nodes_are_one_alert() -> None:
    (found,) = conditions(replace(CALM, queries=[seen(full_s=[float(n) for n in range(9)])]))
    assert "node 0 is full" in found.text and "and 6 more" in found.text


def test_old_pictures_say_nothing() -> None:
    view = replace(CALM, queries=[seen(sample=sample(2.0, NOW - 60))])
    assert conditions(view) == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_over_but_not_long_enough_says_how_things_stand(kind: str) -> None:
    """Never what was the case before; where a view knows nothing of the subject any more, that."""
    with_, without = CAUSES[kind]
    (found,) = conditions(with_)
    for view in (without, CALM):
        text = lull(view, kind, found.subject)
        assert text != found.text and "this alert ends once that has lasted" in text
    assert "gone" in lull(CALM, "full_soon", "q")
    stopped = replace(without, queries=[Seen(replace(ROW, wanted=Wanted.STOPPED, state="stopped"))])
    assert lull(stopped, "full_soon", "q").startswith("the query is stopped")
    old = replace(CALM, queries=[seen(sample=sample(at=NOW - 60))])
    assert lull(old, "over_budget", "q").startswith("nothing new is known for 1 min")


STEPS = st.lists(st.tuples(st.floats(0.1, 50), st.booleans()), min_size=1, max_size=60)


@given(st.sampled_from(sorted(KINDS)), STEPS)
def test_alerts_hold_and_clear_as_their_kind_says(
    kind: str, steps: list[tuple[float, bool]]
) -> None:
    """An alert opens only after its condition held on for `hold_s`, ends only after it was gone for `clear_s`."""
    standing: dict[tuple[str, str], Standing] = {}
    now, held_since, gone_since, is_open = 0.0, None, 0.0, False
    for seconds, there in steps:
        now += seconds
        found = [Condition(kind, "s", f"at {now}")] if there else []
        before = standing.get((kind, "s"))
        standing, change = settle(standing, found, now)
        held_since = (now if before is None else before.since_s) if there else None
        gone_since = gone_since if not there else now
        opened = bool(change.raised)
        if opened and not is_open:
            assert held_since is not None and now - held_since >= KINDS[kind].hold_s
        if change.ended:
            assert is_open and not there and now - gone_since >= KINDS[kind].clear_s
        if not there and is_open and not change.ended:
            assert now - gone_since < KINDS[kind].clear_s
        is_open = (is_open or opened) and not change.ended
        assert is_open == any(s.open for s in standing.values())


def test_a_clock_set_back_keeps_what_is_open() -> None:
    one = Condition("query_failed", "q", "it broke")
    standing, _ = settle({}, [one], 1000.0)
    standing, change = settle(standing, [one], 10.0)
    assert change.raised == (one,) and not change.ended
    standing, change = settle(standing, [], 15.0)
    assert not change.ended
    _, change = settle(standing, [], 21.0)
    assert change.ended == (one,)


def test_raised_told_and_ended_in_the_store(tmp_path: Path) -> None:
    owner = np.zeros(64, dtype=np.int64)
    stage = Stage(tmp_path, calm(), owner, np.array([400 * MB]))
    hook = Webhook(
        "h", "https://x.test/", "s", ("alert.raised", "alert.ended", "query.failed"), "ann", 0
    )
    stage.store.webhooks.add(hook)
    watch = Watch(stage.store, lambda: {"/data": (1, 100)})
    stage.second()
    assert [c.kind for c in watch.run_once(stage.now_s)] == ["disk_filling"]
    stage.store.queries.told(QUERY, "failed", "it broke", {}, stage.now_s)
    kinds = {c.kind for c in watch.run_once(stage.now_s)}
    assert kinds == {"disk_filling", "query_failed"}
    assert {a.kind for a in stage.store.alerts.open()} == kinds

    again = Watch(
        stage.store
    )  # as after a restart: nothing is opened twice, the rest ends in its time
    stage.store.queries.told(QUERY, "running", "", {}, stage.now_s)
    again.run_once(stage.now_s)
    assert {a.kind for a in stage.store.alerts.open()} == kinds
    for _ in range(70):
        stage.second()
        again.run_once(stage.now_s)
    assert stage.store.alerts.open() == []
    events = [delivery.event for _, delivery in stage.store.webhooks.due(stage.now_s)]
    assert sorted(events) == sorted(["alert.raised"] * 2 + ["query.failed"] + ["alert.ended"] * 2)
    stage.store.close()
