"""What real ticks tell of a query's joins: known rates and selectivities come back, whatever adaptation does meanwhile.

Without Spark. Keys are drawn evenly from a domain, so two rows of a class agree with one chance in its size; times are
even within a tick, which takes a second of the clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import pytest
from hypothesis import given

from control.actions import Action, State
from control.arbiter import Refusal, Why
from control.limits import Limits
from control.migration.joins import Joins
from control.migration.model import TreeLoad, load_of
from control.migration.statistics import OperatorTold, Statistics, TickTold
from control.migration.strategies import ESTIMATES
from control.migration.trees import mask_of
from control.orders import better_orders, priced_order
from control.plans import AUTO, Migrate, Plan, Reason, Topic
from control.policies.better_order import BetterOrder
from control.requests import Request
from control.snapshot import ClusterSnapshot
from engine.adapt.counts import Counts
from engine.admission import Admission
from engine.outcome import Outcome
from engine.state.commits import Commit
from engine.state.model import Place
from tests import examples
from tests.engine.adapt.feeds import (
    CHAIN,
    DOMAINS,
    NEW,
    OLD,
    RATES,
    WINDOW_S,
    Feed,
    desk_of,
    fed,
)
from tests.engine.adapt.migrations import Migrating, migrating
from tests.engine.checked import accepted, scratch
from tests.engine.local import Local, LocalSide
from tests.engine.made import Life, Query, live, lives, queries

PAIRS = {"x": "ab", "y": "bc", "z": "cd"}


def rates_are(joins: Joins, within: float = 0.05, share: float = 1.0) -> None:
    wanted = [rate * share for rate in RATES.values()]
    assert joins.model.rates == pytest.approx(wanted, rel=within)


def selectivities_are(joins: Joins, sets: Sequence[str], within: float = 0.2) -> None:
    """Of sets of streams that the running tree joins."""
    names = joins.shape.names
    for some in sets:
        known = joins.model.selectivity(mask_of([names.index(name) for name in some]))
        true = -sum(log(DOMAINS[key]) for key, pair in PAIRS.items() if set(pair) <= set(some))
        assert known.log_value == pytest.approx(true, abs=within), some


def test_known_rates_and_selectivities_come_back() -> None:
    with fed() as feed:
        feed.ticks(60)
        joins = feed.joins
        assert joins.known and joins.order == OLD and joins.since_s is None
        assert joins.delay_s == 1.0
        rates_are(joins)
        selectivities_are(joins, ["ab", "abc", "abcd"])
        assert joins.model.span_s == pytest.approx(WINDOW_S, rel=0.05)


def test_what_a_row_costs_adds_up_to_what_ticks_took() -> None:
    """Joined, kept, and what each operator's tasks take besides."""
    with fed() as feed:
        feed.ticks(60)
        prices, kept, joined, cpu_s, times = feed.joins.statistics.prices, 0, 0, 0.0, 0
        for report in feed.local.reports[-30:]:
            for one in report.operators:
                kept, joined = kept + one.rows_in, joined + one.rows_in + one.rows_out
                cpu_s += one.cpu_s
            times += len({one.operator for one in report.operators})
        told = prices.join_s * joined + prices.insert_s * kept + prices._solved()[2] * times
        assert prices.join_s >= 0 and prices.insert_s >= 0
        assert told == pytest.approx(cpu_s, rel=0.3)


def test_rows_in_between_and_state_are_as_the_model_says() -> None:
    """Of the tree that runs, and, foretold, of the one that it is changed to."""
    with fed() as feed:
        feed.ticks(50)
        before = load_of(feed.joins.model, (((0, 1), 2), 3))
        foretold = load_of(feed.joins.model, (0, (1, (2, 3))))
        kept_as(feed, before, within=0.2)
        at = feed.tick
        feed.desk.ask(Request("migrate", 0, order=NEW), "test")
        feed.ticks(50)
        assert feed.joins.order == NEW and feed.joins.since_s == pytest.approx(1000 + at + 3, abs=3)
        after = load_of(feed.joins.model, (0, (1, (2, 3))))
        selectivities_are(feed.joins, ["cd", "bcd", "abcd"])
        kept_as(feed, after, within=0.2)
        kept_as(feed, foretold, within=0.35)
        assert after.between_per_s == pytest.approx(foretold.between_per_s, rel=0.35)
        assert before.between_per_s > 3 * after.between_per_s
        selectivities_are(feed.joins, ["ab", "abc"], within=0.3)  # remembered


def kept_as(feed: Feed, load: TreeLoad, within: float) -> None:
    """State on the nodes, rows and bytes."""
    runs = [run for some in feed.local.ticker.manifest.runs.values() for run in some]
    assert load.state_rows == pytest.approx(sum(run.rows for run in runs), rel=within)
    assert load.state_bytes == pytest.approx(sum(run.bytes for run in runs), rel=within)


@pytest.mark.parametrize("speed", [0.25, 1.0, 20.0])
def test_event_time_may_go_at_another_pace_than_the_clock(speed: float) -> None:
    """Input that is caught up on: windows are then over sooner."""
    with fed(speed=speed, window_s=WINDOW_S * speed) as feed:
        feed.ticks(60)
        joins = feed.joins
        rates_are(joins)
        selectivities_are(joins, ["ab", "abc", "abcd"], within=0.25)
        assert joins.model.span_s == pytest.approx(WINDOW_S, rel=0.1)


def test_without_windows_too() -> None:
    with fed(window_s=None) as feed:
        feed.ticks(20)
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["ab", "abc"], within=0.3)


def test_a_window_that_ends_state_early_says_nothing_of_other_pairs() -> None:
    """a and b within 2 s, b and c within 6 s: rows of a are kept for 2 s, and may be 8 s older than one of c."""
    sql = (
        "SELECT a.id AS i0, b.id AS i1, c.id AS i2 FROM a "
        "JOIN b ON a.x = b.x AND a.ts BETWEEN b.ts - INTERVAL 2 SECONDS AND b.ts + INTERVAL 2 SECONDS "
        "JOIN c ON b.y = c.y AND c.ts BETWEEN b.ts - INTERVAL 6 SECONDS AND b.ts + INTERVAL 6 SECONDS"
    )
    with fed("((a b) c)", sql=sql, window_s=None) as feed:
        feed.ticks(60)
        reach = feed.joins.model.reach
        assert reach[0, 1] == pytest.approx(2.0, rel=0.1)
        assert reach[0, 2] == pytest.approx(8.0, rel=0.1)
        assert feed.joins.model.span_s == pytest.approx(8.0, rel=0.1)


def test_late_rows_are_nobodys() -> None:
    with fed(late=0.3) as feed:
        feed.ticks(60)
        rates_are(feed.joins, within=0.1, share=0.7)
        selectivities_are(feed.joins, ["ab", "abc"])


def test_what_is_spilled_is_not_taken_for_a_poor_match() -> None:
    """Half of the state is on disk most of the time: results are fewer, selectivities are not."""
    with fed(window_s=None, budget=60_000) as feed:
        feed.ticks(50)
        assert sum(feed.local.ticker.manifest.disk_bytes(n) for n in range(2)) > 50_000
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["ab", "abc"], within=0.4)


def test_where_nothing_is_spilled_rows_met_all_that_there_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where that was nothing: windows are so short beside a tick that hardly any rows join."""
    told: list[OperatorTold] = []
    add = Statistics.add

    def listening(statistics: Statistics, tick: TickTold) -> None:
        told.extend(tick.operators)
        add(statistics, tick)

    monkeypatch.setattr(Statistics, "add", listening)
    with fed(speed=200.0) as feed:
        feed.ticks(10)
    sides = [side for operator in told for side in operator.sides]
    assert any(not side.state_rows and not side.rows_in for side in sides), "one has none"
    assert {side.met for side in sides} == {1.0}


def test_a_clean_up_teaches_nothing_about_keys() -> None:
    """Results that were owed come out all at once, at a join, and at those above it, held there or not."""
    with fed(window_s=None) as feed:
        feed.ticks(10)
        names = [op.id for op in feed.local.ticker.setup.flow.ops]
        for turn in range(6):
            for node in range(2):
                do = "spill" if turn % 2 == 0 else "cleanup"
                feed.desk.ask(Request(do, node, operator=names[0], percent=100.0), "test")
                feed.ticks(4)
        done = [a.step for a in feed.desk.records.actions.values() if a.state == "done"]
        assert len(done) == 12
        selectivities_are(feed.joins, ["ab", "abc"], within=0.4)


def test_rows_that_wait_count_when_they_are_let_in() -> None:
    """A slow node: half of the groups of every operator wait every other tick."""
    with fed() as feed:

        def admit(tick: int) -> dict[str, Admission]:
            return {
                op.id: Admission(some, ()) if tick % 2 else Admission((), some)
                for op in feed.local.ticker.setup.flow.ops
                if (some := tuple(range(0, op.groups, 2)))
            }

        feed.ticks(60, admit)
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["ab", "abc"], within=0.25)


def test_window_functions_are_above_all_joins() -> None:
    sql = CHAIN.replace(
        " FROM", ", sum(b.id) OVER (PARTITION BY a.x ORDER BY a.ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s FROM"
    )  # fmt: skip
    with fed(sql=sql) as feed:
        feed.ticks(40)
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["ab", "abc", "abcd"])


def test_where_says_nothing_of_keys() -> None:
    with fed(sql=f"{CHAIN} WHERE a.id % 7 < d.id % 5") as feed:
        feed.ticks(40)
        selectivities_are(feed.joins, ["ab", "abc"])
        seen = feed.joins.statistics.evidence
        assert set(seen) == {0b11, 0b111}, "what it lets through is not evidence"


def test_while_two_plans_run_the_old_one_tells() -> None:
    """Every row goes to both, and counts once; once it is over, the new one tells."""
    with fed() as feed:
        feed.ticks(40)
        begun = feed.tick
        feed.desk.ask(Request("migrate", 0, order=NEW, strategy="parallel"), "test")
        feed.ticks(6)
        assert len(feed.local.ticker.setup.flow.roots) == 2
        assert feed.joins.order == OLD and feed.joins.since_s is None
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["ab", "abc", "abcd"])
        feed.ticks(40)
        assert len(feed.local.ticker.setup.flow.roots) == 1
        assert feed.joins.order == NEW
        since_s = feed.joins.since_s
        assert since_s is not None and WINDOW_S <= since_s - 1000 - begun <= WINDOW_S + 5
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["cd", "bcd", "abcd"])


def test_without_intermediate_state_only_what_comes_is_told() -> None:
    """Each input's rows are kept under several keys, and count once; what was known of keys stays."""
    with fed() as feed:
        feed.ticks(40)
        side = feed.desk._runs.side
        assert isinstance(side, LocalSide)
        feed.desk.jobs_apart = True
        feed.desk.ask(Request("migrate", 0, order=NEW, strategy="delta"), "test")
        seen = 0
        for _ in range(20):
            side.eager = seen == 0 or seen > 6  # the new tree's states take their time
            if side.eager:
                side.work()
            feed.ticks(1)
            plan = feed.local.ticker.manifest.plan
            if plan is not None and plan.delta is not None:
                seen += 1
                assert feed.joins.order == OLD
                rates_are(feed.joins)
                selectivities_are(feed.joins, ["ab", "abc", "abcd"])
        assert seen > 6 and feed.joins.order == NEW
        feed.ticks(30)
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["cd", "bcd", "abcd"])


def test_a_parallel_track_that_is_given_up_changes_nothing() -> None:
    with fed() as feed:
        feed.ticks(40)
        feed.desk.ask(Request("migrate", 0, order=NEW, strategy="parallel"), "test")
        feed.ticks(3)
        assert feed.desk.cancel("last") == ""
        feed.ticks(20)
        assert feed.joins.order == OLD and feed.joins.since_s is None
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["ab", "abc", "abcd"])


def test_a_restart_goes_on_with_what_was_known() -> None:
    with fed() as feed:
        feed.ticks(40)
        feed.desk.ask(Request("migrate", 0, order=NEW), "test")
        feed.ticks(10)
        before = feed.joins
        feed.desk.close()
        feed.local.clock.now += 3600.0
        feed.local.start(3)
        feed.desk = desk_of(feed.local)
        assert feed.joins.order == NEW and feed.joins.since_s == before.since_s
        assert feed.joins.model.rates == before.model.rates, "the hour in between is nobody's"
        feed.ticks(5)
        rates_are(feed.joins)
        selectivities_are(feed.joins, ["cd", "bcd", "abc"], within=0.3)


def test_a_restart_goes_on_with_what_was_known_of_two_streams() -> None:
    with fed(None, sql="SELECT a.id AS i0, b.id AS i1 FROM a JOIN b ON a.x = b.x") as feed:
        feed.ticks(10)
        before = feed.joins
        assert before.known
        feed.desk.close()
        feed.local.start(3)
        feed.desk = desk_of(feed.local)
        assert feed.joins.known and feed.joins.model.rates == before.model.rates


def test_what_a_crash_leaves_behind() -> None:
    """Half a file, or another plan than the one that the checkpoint has by now."""
    with fed() as feed:
        feed.ticks(40)
        kept = feed.local.root / "cp" / "joins.json"
        assert kept.stat().st_size < 4_000
        body = json.loads(kept.read_text())
        kept.write_text(json.dumps({**body, "order": NEW}))
        again = desk_of(feed.local).snapshot().joins
        assert again is not None and again.order == OLD and again.since_s == body["told"]["time_s"]
        for text in (kept.read_text()[:100], "[]", json.dumps({**body, "format": 0}), ""):
            kept.write_text(text)
            anew = desk_of(feed.local).snapshot().joins
            assert anew is not None and not anew.known
        kept.unlink()
        kept.mkdir()  # it cannot be written: ticks go on
        feed.ticks(40)
        rates_are(feed.joins)
        feed.desk.close()


@examples.lives()
@given(queries(most=4), lives, migrating)
def test_runs_are_counted_whatever_becomes_of_them(
    query: Query, life: Life, thrower: Migrating
) -> None:
    """Followed from commit to commit, with crashes, moves, spills, migrations: as counted all over again."""
    accepted(query)
    thrower.query = query
    with scratch() as root:
        live(root, query, replace(life, ticks=life.ticks + 3), None, meddler=Counting(thrower))


@examples.lives()
@given(queries(most=4), lives, migrating)
def test_whatever_ticks_tell_orders_can_be_priced(
    query: Query, life: Life, thrower: Migrating
) -> None:
    """Of any query in any state: figures that are numbers, by every strategy."""
    accepted(query)
    thrower.query = query
    thrower.strategies = tuple(ESTIMATES)
    with scratch() as root:
        live(root, query, replace(life, ticks=life.ticks + 3), None, meddler=Pricing(thrower))


@dataclass
class Pricing:
    """Asks for orders between any two ticks."""

    other: Migrating

    def boundary(self, local: Local) -> None:
        self.other.boundary(local)
        assert self.other.desk is not None and self.other.query is not None
        now = self.other.desk.snapshot()
        numbers = self.other.desk.accounts.numbers
        found = better_orders(now, numbers)
        if now.joins is not None and now.joins.known:
            order = self.other.query.random_order(self.other.rng)
            found = [*found, priced_order(now, numbers, order)]
        json.dumps(found, allow_nan=False)
        for one in found:
            assert one["before"]["between_per_s"] >= 0 and one["after"]["state_rows"] >= 0

    def finish(self, local: Local) -> None:
        self.other.finish(local)


@dataclass
class Counting:
    """Looks over the shoulder of somebody who adapts."""

    other: Migrating

    def boundary(self, local: Local) -> None:
        self.other.boundary(local)
        counts, said = Counts(), local.ticker.noticed

        def noticed(outcome: Outcome, commit: Commit) -> None:
            after = local.ticker.manifest
            counts.follow(commit, after)
            for place, runs in after.runs.items():
                assert counts.at(place) == (sum(r.rows for r in runs), sum(r.bytes for r in runs))
            assert counts.at(Place("nobody", 0, 0)) == (0, 0)
            said(outcome, commit)

        if getattr(local.ticker, "counting", None) is None:
            local.ticker.noticed = noticed
            local.ticker.counting = self  # type: ignore[attr-defined]

    def finish(self, local: Local) -> None:
        self.other.finish(local)


def test_the_best_order_is_taken_or_it_is_said_why_none_is_better() -> None:
    with fed() as feed:
        early = feed.desk.ask(Request("migrate", 0, strategy=AUTO), "script")
        assert isinstance(early, Refusal) and early.why is Why.NO_PICTURE
        feed.ticks(40)
        best = better_orders(feed.desk.snapshot(), feed.desk.accounts.numbers)[0]
        action = feed.desk.ask(Request("migrate", 0, strategy=AUTO), "script")
        assert isinstance(action, Action) and isinstance(action.step, Migrate)
        assert action.step.order == best["join_order"] and action.step.strategy == best["strategy"]
        feed.ticks(40)
        assert [a.state for a in feed.desk.records.actions.values()] == [State.DONE]
        assert feed.joins.order == best["join_order"]
        late = feed.desk.ask(Request("migrate", 0, strategy=AUTO), "script")
        assert isinstance(late, Refusal) and late.why is Why.NO_BETTER_ORDER, late
        (said,) = feed.desk.records.refusals[-1]["refusals"]
        assert said["why"] == "no_better_order" and said["text"]


def test_a_policy_changes_the_order_once_and_then_leaves_it() -> None:
    with fed() as feed:
        feed.desk.policy.kind = BetterOrder(settle_s=20.0, span_s=0.0)
        feed.desk.policy.interval_s = 1.0
        feed.ticks(19)
        assert not feed.desk.records.actions and feed.joins.order == OLD
        early = feed.desk.records.decisions[-1]
        assert early["nothing"] == ["the order has not been seen for long enough"]
        feed.ticks(60)
        (action,) = feed.desk.records.actions.values()
        assert action.state is State.DONE and isinstance(action.step, Migrate)
        assert feed.joins.order == action.step.order != OLD
        assert feed.desk.records.by[action.id] == "better_order"
        late = feed.desk.records.decisions[-1]
        assert late["nothing"] in (["no other order gains enough"], ["no other order is better"])
        assert 0.0 < feed.desk.accounts.numbers.tick_s < 5.0


def test_what_the_engine_refuses_is_not_asked_for_every_second() -> None:
    with fed() as feed:
        feed.desk.policy.kind = Stubborn()  # type: ignore[assignment]
        feed.desk.policy.interval_s = 1.0
        feed.ticks(50)
        assert len(feed.desk.records.refusals) == 1
        feed.ticks(15)
        assert len(feed.desk.records.refusals) == 2


class Stubborn:
    """Wants an order that cannot be."""

    name = "stubborn"

    def decide(self, snapshot: ClusterSnapshot, limits: Limits) -> Plan:
        step = Migrate("((a d) (b c))", "moving", 1)
        return Plan((step,), (Reason.of(Topic.CHOSEN, "wanted"),))
