"""Another join order for a running query: Zhu et al.'s parallel track. No state is computed anew, nothing pauses.

From one commit on both plans run in every tick (tracks.py): the old one makes what has an old part, the new one the
rest. Once windows say that no row to come can be in a result with an old row, one commit more leaves the new plan
alone. Until then one commit leaves the old one alone, which has had every row. What runs is in the manifest, so that
a restart goes on with both.

In the paper's order the new plan's results stay hidden until the old one has ended, or has the query to itself again:
either commit lets them out. They are files by then, so it is not memory that bounds them but a window's results on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from control.arbiter import Refusal, Why
from control.plans import Migrate
from control.snapshot import NO_LIMIT
from engine import lasting, tracks, watermarks
from engine.adapt.making import way_to
from engine.adapt.progress import LATER, Course, Log, resume
from engine.adapt.quiet import Quiet
from engine.adapt.running import Cancelled, GivenUp
from engine.errors import StateError
from engine.hashing import FULL_MASK
from engine.plan import matching
from engine.plan.matching import Transition
from engine.state.files import in_order
from engine.state.model import Place, Run, Runs
from engine.state.replan import Named, Replan, Track

if TYPE_CHECKING:
    from engine.adapt.desk import Desk
    from engine.flow import Op
    from engine.reports import Doubles
    from engine.tick import Ticker

FILES_MAX = 20_000  # hidden ones, whose names are in the manifest: one a node and tick


def track_of(desk: Desk) -> Track | None:
    """The second plan, while two run."""
    plan = desk.ticker.manifest.plan
    return plan.track if plan is not None else None


def doing(ticker: Ticker) -> str:
    """The action that two plans are running for."""
    plan = ticker.manifest.plan
    return plan.track.action if plan is not None and plan.track is not None else ""


def go_on(desk: Desk) -> None:
    """Two plans that nobody is about to end, as an earlier life or a commit that failed has left them, are somebody's."""
    track = track_of(desk)
    if track is None or any(isinstance(run.action.step, Migrate) for run in desk.running):
        return
    resume(desk, _step(desk, track), track.action)


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
        rows = sum(run.rows for op, at in _sides(desk, one) for run in _all(desk, op, at))
        yield Refusal(Why.ENDLESS, f"both plans would have to run for ever: {text}", rows, 0)
    need = _need(desk, way)
    for node in sorted(desk.budgets):
        room = max(0, desk.room(node))
        if node < desk.nodes and need[node] > room:
            text = f"node {node} has no room for the states of both plans, in bytes"
            yield Refusal(Why.NO_ROOM_FOR_PLAN, text, int(need[node]), room)


def _need(desk: Desk, way: Transition) -> Doubles:
    """Bytes on each node that the new plan's states will come to, as far as the old plan has states of the same rows
    by now, and that spilled ones take when they come back."""
    have: dict[frozenset[str], int] = {}
    for op in _joins(desk):
        for at, side in enumerate(op.sides):
            spilled = sum(int(run.bytes_of(op.groups).sum()) for run in _spilled(desk, op, at))
            memory = sum(run.bytes for run in _all(desk, op, at))
            have[frozenset(side.aliases)] = memory + spilled
    manifest = desk.ticker.manifest
    need = np.array([float(manifest.disk_bytes(node)) for node in range(desk.nodes)])
    owners = {one.id: one.placement for one in way.replan.operators}
    for op in way.flow.ops:
        if op.grouping is None:
            size = sum(have.get(frozenset(side.aliases), 0) for side in op.sides)
            need += np.bincount(owners[op.id], minlength=desk.nodes) / op.groups * size
    return need


def _joins(desk: Desk) -> list[Op]:
    return [op for op in desk.flow.ops if op.grouping is None]


def _sides(desk: Desk, alias: str) -> Iterator[tuple[Op, int]]:
    """Where an input's rows are kept alone."""
    for op in _joins(desk):
        for at, side in enumerate(op.sides):
            if side.aliases == (alias,):
                yield op, at


def _all(desk: Desk, op: Op, place: int) -> Iterator[Run]:
    """What an operator keeps in memory at a place of its, on all nodes."""
    for node in range(desk.nodes):
        yield from desk.ticker.manifest.runs.get(Place(op.id, node, place), ())


def _spilled(desk: Desk, op: Op, place: int) -> Iterator[Run]:
    for node in range(desk.nodes):
        yield from desk.ticker.manifest.disk.get(Place(op.id, node, place), ())


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
            log.reach("BothPlans")
        log.lasting = True
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
        action = self.log.action
        hidden = action.course.endswith("_hold")
        track = Track(way.replan, self._until(), action.id, hidden)
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
        self.log.about |= {
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
        if (track := track_of(self.desk)) is not None and track.withholds:
            self.log.about["rows_withheld"] = sum(one.rows for one in track.withheld)
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
        query = self.desk.ticker.setup.query
        while self._old_rows():
            other, left = tracks.ahead(query, track.until, self._base())
            if not other:
                break
            self._check_room()
            self._check_files()
            if self.desk.ending:
                text = f"the input has ended before rows of {other} were too new for old rows"
                raise self.quiet.error(text, "Give it more input, or a shorter window.")
            self.desk.progress(self.log.action, 1.0 - left)
            yield LATER

    def _base(self) -> lasting.Bases:
        """How old rows to come may be."""
        ticker, plan = self.desk.ticker, self.desk.ticker.manifest
        marks = watermarks.watermarks(plan.seen, ticker.setup.delays_us())
        return lasting.bases(ticker.setup.flow, marks, plan)

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
                    rows += sum(run.rows for run in _all(self.desk, op, at))
        return rows

    def new_bytes(self) -> int:
        """Of the new plan's state."""
        new = [op for op in _joins(self.desk) if not op.parted]
        places = [(op, at) for op in new for at in range(op.places)]
        return sum(run.bytes for op, at in places for run in _all(self.desk, op, at))

    def _check_files(self) -> None:
        """What is hidden is named in the manifest, which is not to grow for ever."""
        track = track_of(self.desk)
        files = len(track.withheld) if track is not None else 0
        if files > FILES_MAX:
            raise self.quiet.error(
                f"{files:,} files of results wait for the old plan's end, {FILES_MAX:,} are the most",
                "Let ticks take longer (trigger_seconds), or results come at once (hold = false).",
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
