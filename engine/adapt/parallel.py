"""Another join order for a running query: Zhu et al.'s parallel track. No state is computed anew, nothing pauses.

From one commit on both plans run in every tick (tracks.py): the old one makes what has an old part, the new one the
rest. Once windows say that no row to come can be in a result with an old row, one commit more leaves the new plan
alone. Until then one commit leaves the old one alone, which has had every row. What runs is in the manifest, so that
a restart goes on with both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from control.arbiter import Refusal, Why
from control.plans import Migrate
from control.snapshot import NO_LIMIT
from engine import lasting, tracks, watermarks
from engine.adapt.making import way_to
from engine.adapt.progress import LATER, Course, Log
from engine.adapt.quiet import Quiet
from engine.adapt.running import Cancelled, GivenUp
from engine.errors import StateError
from engine.hashing import FULL_MASK
from engine.plan import matching
from engine.plan.matching import Transition
from engine.state.files import in_order
from engine.state.model import Place, Runs
from engine.state.replan import Named, Replan, Track

if TYPE_CHECKING:
    from engine.adapt.desk import Desk
    from engine.flow import Op
    from engine.tick import Ticker


def track_of(desk: Desk) -> Track | None:
    """The second plan, while two run."""
    plan = desk.ticker.manifest.plan
    return plan.track if plan is not None else None


def doing(ticker: Ticker) -> str:
    """The action that two plans are running for."""
    plan = ticker.manifest.plan
    return plan.track.action if plan is not None and plan.track is not None else ""


def go_on(desk: Desk) -> None:
    """Where an earlier life has left two plans behind, they are somebody's to end."""
    if track := track_of(desk):
        action, step = desk.records.actions.get(track.action), _step(desk, track)
        if action is None or action.over:
            desk.start(step, by="restart")
            return
        log = Log(desk, action)
        desk.accounts.begin(log)
        desk.go_on(log, step)


def _step(desk: Desk, track: Track) -> Migrate:
    """What is going on, as a step."""
    manifest, query = desk.ticker.manifest, desk.ticker.setup.query
    size = sum(manifest.memory_bytes(node) for node in range(desk.nodes))
    return Migrate(matching.shown(replace(query, order=track.plan.tree)), "parallel", size)


def against(desk: Desk, way: Transition) -> Iterator[Refusal]:
    """What speaks against two plans at once."""
    if pair := tracks.endless(desk.ticker.setup.query):
        one, other = pair
        text = f"no window bounds how long rows of {one} wait for rows of {other}"
        yield Refusal(Why.ENDLESS, f"both plans would have to run for ever: {text}")
    need, room = _need(desk, way), sum(max(0, desk.room(n)) for n in range(desk.nodes))
    if any(n in desk.budgets for n in range(desk.nodes)) and need > room:
        text = "the nodes have no room for the states of both plans, in bytes"
        yield Refusal(Why.NO_ROOM_FOR_PLAN, text, need, room)


def _need(desk: Desk, way: Transition) -> int:
    """Bytes that the new plan's states will come to, as far as the old plan has states of the same rows by now."""
    have: dict[frozenset[str], int] = {}
    for op in _joins(desk):
        for at, side in enumerate(op.sides):
            size = sum(run.bytes for runs in _runs(desk, op, at) for run in runs)
            have[frozenset(side.aliases)] = size
    joins = [op for op in way.flow.ops if op.grouping is None]
    return sum(have.get(frozenset(side.aliases), 0) for op in joins for side in op.sides)


def _joins(desk: Desk) -> list[Op]:
    return [op for op in desk.flow.ops if op.grouping is None]


def _runs(desk: Desk, op: Op, place: int) -> Iterator[Runs]:
    """What an operator keeps at a place of its, node by node."""
    for node in range(desk.nodes):
        yield desk.ticker.manifest.runs.get(Place(op.id, node, place), ())


def run_beside(desk: Desk, log: Log, step: Migrate) -> Course:
    """All steps; from the second plan's beginning on also those of an earlier life."""
    one = _Beside(desk, log)
    try:
        if track_of(desk) is None:
            with log.step("CleanAccumulated"):
                log.kept = "what was owed is out, the plan is as it was"
                yield from one.quiet.clean()
            with log.step("Start"):
                one.start(step)
        else:
            one.quiet.keep()
        log.kept = "both plans run on"
        log.reach("BothPlans")
        with log.step("BothPlans"):
            yield from one.both()
            log.note(one.new_bytes())
        with log.step("End"):
            one.end()
    except GivenUp:
        raise  # a restart goes on with both
    except (Cancelled, StateError):
        if track_of(desk) is not None:
            one.back()
            log.kept = "the old plan goes on alone"
        raise
    finally:
        one.quiet.over()


@dataclass
class _Beside:
    """Two plans of a desk's query."""

    desk: Desk
    log: Log

    def __post_init__(self) -> None:
        self.quiet = Quiet(self.desk, _joins(self.desk))

    # -- one plan, two plans -------------------------------------------------------------------------

    def start(self, step: Migrate) -> None:
        """The second plan, with nothing in its state. All that there is now is old."""
        self.quiet.settled()
        way, ticker = way_to(self.desk, step), self.desk.ticker
        setup = ticker.setup
        named = tuple(Named(op.id, ticker.placements[op.id]) for op in setup.flow.ops)
        track = Track(way.replan, self._until(), self._old_rows(), self.log.action.id)
        old = way.replan
        both = Replan(setup.query.order, named, old.nodes, old.following, old.sources, track)
        self._swap(both, {}, done=False)

    def end(self) -> None:
        """The new plan alone. What only the old one had goes."""
        track = track_of(self.desk)
        assert track is not None
        self.quiet.settled()
        before, old = self._shown(), [op for op in _joins(self.desk) if op.parted]
        self._swap(track.plan, {}, done=True)
        new = [op.id for op in _joins(self.desk)]
        self.log.about = {
            "order_before": before,
            "order_after": self._shown(),
            "operators_kept": [op.id for op in self.desk.flow.ops if op.grouping is not None],
            "operators_new": new,
            "operators_dropped": [op.id for op in old],
            "runs_shared": 0,
            "rows_made": 0,
        }

    def back(self) -> None:
        """The old plan alone, with all its rows: they are of one kind again."""
        plan = self.desk.ticker.manifest.plan
        assert plan is not None
        runs: dict[Place, Runs] = {}
        for op in _joins(self.desk):
            if not op.parted:
                continue
            for node in range(self.desk.nodes):
                for at, side in enumerate(op.sides):
                    new = Place(op.id, node, op.place(at, new=True))
                    old = replace(new, input=at)
                    have = self.desk.ticker.manifest.runs
                    both = (*have.get(old, ()), *have.get(new, ()))
                    if both:
                        runs[old], runs[new] = in_order(both, side.span_us), ()
        self._swap(replace(plan, track=None), runs, done=False)

    def _swap(self, replan: Replan, runs: dict[Place, Runs], *, done: bool) -> None:
        """One commit, and the desk's promises for the operators that there are then."""
        setup = self.desk.ticker.setup
        assert setup.spec is not None
        exact = setup.hash_mask == FULL_MASK
        found = matching.current(setup.spec, setup.query, setup.plan, replan, exact=exact)
        self.quiet.over()
        way = Transition(*found, replan, {}, ())
        self.desk.swap(way, runs, {}, self.log.action.id if done else "")
        self.quiet = Quiet(self.desk, _joins(self.desk))
        self.quiet.keep()

    def _shown(self) -> str:
        return matching.shown(self.desk.ticker.setup.query)

    # -- while both run ------------------------------------------------------------------------------

    def both(self) -> Course:
        """Until no old row can be part of a result to come."""
        track = track_of(self.desk)
        assert track is not None
        while other := self._meets(track):
            self._check_room()
            if self.desk.ending:
                text = f"the input has ended before rows of {other} were too new for old rows"
                raise self.quiet.error(text, "Give it more input, or a shorter window.")
            left = self._old_rows() / max(1, track.rows)
            self.desk.progress(self.log.action, min(1.0, max(0.0, 1.0 - left)))
            yield LATER

    def _meets(self, track: Track) -> str:
        """An input whose rows to come may meet old rows."""
        ticker, plan = self.desk.ticker, self.desk.ticker.manifest
        marks = watermarks.watermarks(plan.seen, ticker.setup.delays_us())
        base = lasting.bases(ticker.setup.flow, marks, plan)
        return tracks.meets(ticker.setup.query, track.until, base)

    def _until(self) -> dict[str, int]:
        """The greatest time of each input so far."""
        seen, out = self.desk.ticker.manifest.seen, dict[str, int]()
        for source in self.desk.flow.sources:
            if source.mark in seen:
                alias = source.scan.input.alias
                out[alias] = max(seen[source.mark], out.get(alias, seen[source.mark]))
        return out

    def _old_rows(self) -> int:
        """Rows of the old plan that are old, or all of it before the second one begins."""
        rows = 0
        for op in _joins(self.desk):
            if op.parted or track_of(self.desk) is None:
                for at in range(len(op.sides)):
                    rows += sum(run.rows for runs in _runs(self.desk, op, at) for run in runs)
        return rows

    def new_bytes(self) -> int:
        """Of the new plan's state."""
        new = [op for op in _joins(self.desk) if not op.parted]
        places = [(op, at) for op in new for at in range(op.places)]
        return sum(
            run.bytes for op, at in places for runs in _runs(self.desk, op, at) for run in runs
        )

    def _check_room(self) -> None:
        """Both plans' states are the nodes' to keep, and nothing may be spilled meanwhile."""
        for node in range(self.desk.nodes):
            most = self.desk.budgets.get(node, NO_LIMIT)
            have = self.desk.ticker.manifest.memory_bytes(node)
            if self.desk.room(node) < 0:
                raise self.quiet.error(
                    f"node {node} has {have:,} bytes of memory for both plans, its budget is {most:,}",
                    "Raise memory_per_node, or let state be moved (strategy moving).",
                )
