"""What is kept for how long; ending tidy anywhere and calling it again changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sqlalchemy import func, select

from control.ledger import CommandState, Evaluation, ProposalState, Webhook
from control.samples import GroupChange
from db.metrics_schema import GROUP_TILES, PICTURES, TICKS, TILES
from db.open import Store
from db.retention import DAY_S, Retention, Tidied, tidy
from db.tiles import MINUTE_S, QUARTER_S, RAW
from tests.db.made import START_S, command, proposal, sample

S = START_S
SHORT = Retention(
    raw_s=3600, minutes_s=6 * 3600, quarters_s=12 * 3600, pictures_minutely_s=3600, pictures_s=7200
)


def tidied(store: Store, now_s: float, keep: Retention = SHORT, most: int = 24) -> list[Tidied]:
    done = [tidy(store, now_s, keep, most)]
    while done[-1].left:
        done.append(tidy(store, now_s, keep, most))
    return done


def tiles(store: Store, tier: int) -> list[int]:
    with store.metrics_file.read() as db:
        wanted = select(TILES.c.start_s).where(TILES.c.step_s == tier).order_by(TILES.c.start_s)
        return [start_s - int(S) for start_s in db.execute(wanted).scalars()]


def fill(store: Store, hours: int, step_s: int = 60) -> None:
    for hour in range(hours):
        times = range(3600 * hour, 3600 * (hour + 1), step_s)
        store.metrics.write([sample(S + at, value=at) for at in times])


def test_each_tier_is_kept_for_its_time(store: Store) -> None:
    fill(store, 3)
    now_s = S + 3 * 3600 + 10
    tidied(store, now_s)
    assert tiles(store, RAW) == list(range(3600 * 2 - 300 + 300, 3600 * 3, 300))
    assert tiles(store, MINUTE_S) == [0, 3600, 7200]
    assert len(tiles(store, QUARTER_S)) >= 1
    with store.metrics_file.read() as db:
        assert db.execute(select(func.count()).select_from(TICKS)).scalar() == 0
    early = store.metrics.query_series("q", S, S + 1800, 1000)
    assert early.step_s == 60, "raw ticks have gone, minutes answer"
    np.testing.assert_array_equal(
        early.values["lag_s"], np.arange(0, 1801, 60)[: len(early.time_s)]
    )
    tidied(store, S + 20 * 3600)
    assert tiles(store, RAW) == tiles(store, MINUTE_S) == []
    assert store.metrics.query_series("q", S, S + 1800, 1000).step_s == 900
    tidied(store, S + 60 * 3600)
    assert tiles(store, QUARTER_S) == []
    assert len(store.metrics.query_series("q", S, S + 3 * 3600).time_s) == 0


def test_pictures_are_thinned_and_their_hours_laid_out_again(store: Store) -> None:
    fill(store, 2)
    tidied(store, S + 2 * 3600 + 10)
    kept = [one.time_s - S for one in store.metrics.snapshots("q", 0, 1e12)]
    assert kept == [0, 900, 1800, 2700, *range(3600, 7200, 60)]
    found = store.metrics.group_history("q", "join", 1, S, S + 7200)
    assert (found.time_s - S).tolist() == kept
    tidied(store, S + 3 * 3600 + 10)
    with store.metrics_file.read() as db:
        for table, rows in ((PICTURES, 4), (GROUP_TILES, 1)):
            assert db.execute(select(func.count()).select_from(table)).scalar() == rows
    tidied(store, S + 9 * 3600)
    assert store.metrics.snapshots("q", 0, 1e12) == []
    assert len(store.metrics.group_history("q", "join", 1, S, S + 7200).time_s) == 0


def test_tidy_does_a_bounded_amount_at_once_and_then_nothing(store: Store) -> None:
    fill(store, 2)
    now_s = S + 2 * 3600 + 10
    done = tidied(store, now_s, most=3)
    assert len(done) >= 8, "24 spans, three at a time"
    assert max(one.packed for one in done) == 3
    assert sum(one.packed for one in done) == 24
    assert tidy(store, now_s, SHORT, 3) == Tidied()


def test_default_retention_is_what_the_design_says() -> None:
    kept = Retention()
    assert (kept.raw_s, kept.minutes_s, kept.quarters_s) == (DAY_S, 14 * DAY_S, 90 * DAY_S)
    assert (kept.pictures_minutely_s, kept.pictures_s) == (DAY_S, 14 * DAY_S)


def test_old_lines_go_and_the_rest_stays(store: Store) -> None:
    old, new = S, S + 400 * DAY_S
    for number, at in enumerate((old, new)):
        id = f"c{number}"
        store.commands.add(command(id, at))
        store.commands.end(id, CommandState.DONE, {}, at)
        store.proposals.add(proposal(f"p{number}", at))
        store.proposals.settle(f"p{number}", ProposalState.DISMISSED)
        store.rules.evaluated(Evaluation("r", "q", at, at, 1, f"{number}", {}))
        store.metrics.write([sample(at, changes=(GroupChange("join", number, 0, "disk"),))])
        store.alerts.raised("lag", f"{number}", "", at)
        store.alerts.ended("lag", f"{number}", at)
    store.commands.add(command("waits", old))
    store.proposals.add(proposal("open", old))
    store.alerts.raised("open", "q", "", old)
    store.webhooks.add(Webhook("w", "https://x", "", ("*",), "ann", old))
    store.webhooks.post("e", {}, old)
    store.webhooks.post("e", {}, old)
    store.webhooks.tried(1, state="delivered", next_s=old, note="")
    tidied(store, new + 1, replace(Retention(), quarters_s=1e9))
    assert [one.id for one in store.commands.page()] == ["waits", "c1"]
    assert [one.id for one in store.proposals.page()] == ["open", "p1"]
    assert [one.outcome for one in store.rules.evaluations()] == ["1"]
    assert [one.group for _, one in store.metrics.changes("q")] == [1]
    assert [one.subject for one in store.alerts.page()] == ["q", "1"]
    assert [one.id for _, one in store.webhooks.due(new)] == [2]


def test_many_rows_go_in_several_calls(store: Store) -> None:
    changes = tuple(GroupChange("join", n, 0, "disk") for n in range(5000))
    store.metrics.write([sample(S, changes=changes)])
    done = tidied(store, S + 15 * DAY_S, Retention())
    assert len(done) == 3
    assert store.metrics.changes("q") == []
