"""All adaptations of one query, between its ticks: what is asked for, what is decided, what runs, how far it is.

The desk is called at every boundary between two ticks, by the thread that ticks; nothing it does there takes
long. Side jobs run in a thread of their own and a pool of their own. What ticks have to respect meanwhile it
says in `orders`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from control import arbiter
from control.actions import Action
from control.arbiter import Refusal
from control.conduct import Conduct
from control.cost.coefficients import Coefficients
from control.limits import Limits
from control.owing import Owing, follow, with_owed
from control.plans import Migrate, Move, Plan, SetBudget, Step
from control.policies.flux import by_rounds
from control.policies.local_spill import LocalSpill
from control.requests import Request, plan_for
from control.snapshot import NEVER_S, NO_LIMIT, ClusterSnapshot, History
from engine import replanning
from engine.adapt import courses, kinds, migrating, parallel, room
from engine.adapt.accounts import Accounts
from engine.adapt.edits import Edit, amended
from engine.adapt.errands import Errands
from engine.adapt.foretell import foretold
from engine.adapt.joins import JoinStatistics, kept_in
from engine.adapt.orders import Orders, with_suspended
from engine.adapt.picture import snapshot, whole
from engine.adapt.policy import Policy
from engine.adapt.progress import Log
from engine.adapt.records import Records
from engine.adapt.rounds import Rounds
from engine.adapt.running import Running, Runs
from engine.adapt.side import SideJobs
from engine.adapt.tasks import Merged
from engine.brief import Settle
from engine.flow import Flow
from engine.outcome import Outcome
from engine.plan.matching import Transition
from engine.pulse import Prober, Pulse
from engine.state import model as state
from engine.state.commits import Commit
from engine.state.model import Place

if TYPE_CHECKING:
    from engine.tick import Ticker


REFUSED_S = 60.0


class Desk:
    """Made once for a run of a query. `between` is to be called at every boundary between ticks."""

    def __init__(
        self,
        ticker: Ticker,
        policy: Policy,
        budgets: Mapping[int, int],
        records: Records,
        clock: Callable[[], float] = time.time,
        side: Callable[[Ticker], SideJobs] = SideJobs,
    ) -> None:
        self.ticker, self.policy, self.records, self.now_s = ticker, policy, records, clock
        self._conduct: Conduct | None = None  # that a rule asks for
        self.wall_s = time.time  # of actions' steps, whatever the clock of decisions says
        self.budgets = dict(budgets)
        self.hold: dict[str, frozenset[int]] = {}
        self.let_in: dict[str, frozenset[int]] = {}
        self.frozen: dict[Place, frozenset[str]] = {}
        self.settle: dict[tuple[str, int], Settle] = {}
        self.open: frozenset[str] = frozenset()  # operators at which nothing is to wait
        self.lasting: frozenset[str] = frozenset()  # whose state is to last for another plan
        self.copied_bytes: dict[int, int] = {}  # by node: copies that do not count there yet
        self.ending = False
        self.errands = Errands()
        self.watch: Callable[[Desk], None] = _unwatched
        self._flying: set[tuple[str, int]] = set()
        self._decided_s = self._last_s = 0.0
        self._decided_round = 0
        self._came = np.zeros(self.nodes, dtype=np.int64)  # bytes by node, with the last tick
        self._version_s = 1.0
        self._owing: Owing | None = None
        self._seen: ClusterSnapshot | None = None  # that `_owing` was made for
        self._rounds = Rounds(ticker.stats, clock(), self.conduct.delta_min_s)
        self._runs = Runs(side(ticker), lambda: self.wall_s(), self._over)
        self.joins = JoinStatistics(ticker.setup, kept_in(ticker.setup))
        self.jobs_apart = policy.patient
        ticker.orders, ticker.noticed = self.orders, self._noticed
        self._probe = Prober(ticker.homes)
        self.pulse = Pulse(self.nodes, ticker.executors_up, self._probe)
        self.accounts = Accounts(self.flow, records, ticker.manifest, self.snapshot)
        ticker.ports = (*ticker.ports, self.accounts, self.pulse)
        self.again_s = -1e18  # until then nobody goes on with what an action has left behind
        kinds.go_on(self)

    @property
    def running(self) -> list[Running]:
        """The actions on their way."""
        return self._runs.now

    @property
    def gave_way(self) -> int:
        """How many actions have given way to nodes that were over their budgets."""
        return self._runs.gave_way

    @property
    def _moves(self) -> list[str]:
        """The moves among them."""
        return [r.action.id for r in self.running if isinstance(r.action.step, Move)]

    @property
    def jobs_apart(self) -> bool:
        """Whether even small jobs are jobs of their own, not done along with ticks."""
        return self._runs.apart

    @jobs_apart.setter
    def jobs_apart(self, apart: bool) -> None:
        self._runs.apart = apart

    @property
    def flow(self) -> Flow:
        return self.ticker.setup.flow

    @property
    def nodes(self) -> int:
        return self.ticker.setup.plan.nodes

    @property
    def conduct(self) -> Conduct:
        """What nodes do by themselves, and how rounds go."""
        return self._conduct or self.policy.conduct

    @property
    def led(self) -> Conduct | None:
        """What a rule asks for; None where none does."""
        return self._conduct

    def conduct_by(self, conduct: Conduct | None) -> None:
        """From any thread: what a rule asks for; None: what this run was begun with."""
        self._conduct = conduct

    # -- what ticks respect ---------------------------------------------------------------------------

    def orders(self) -> Orders:
        """For a tick: also when nodes spill by themselves, and what."""
        local = self.conduct.local
        limits = room.limits_of(local, self.budgets, moving=bool(self._moves))
        close = room.listed(limits, self.ticker.manifest)
        order = room.victims_of(local, self.snapshot(), close) if close else {}
        return replace(self._asked(), limits=limits, victims=order, work=self._runs.along)

    def _asked(self) -> Orders:
        """What running actions ask for."""
        hold, let_in = with_suspended(
            self.flow, self.ticker.manifest, self.hold, self.let_in, self.settle
        )
        return Orders(
            hold,
            let_in,
            dict(self.frozen),
            settle=dict(self.settle),
            pins=self._runs.files,
            since=self._runs.since,
            open=self.open,
            lasting=self.lasting,
        )

    # -- the boundary ---------------------------------------------------------------------------------

    def between(self, *, idle: bool) -> None:
        """Take every action as far as it goes, then decide what is next. `idle`: no tick is about to begin."""
        now = self.now_s()
        self.pulse.look()
        self._mind_budgets()
        if not self.ending:
            self.errands.take_up(self)
        self._runs.advance()
        if idle and self._runs.waits_for_tick(ending=self.ending):
            self.ticker.tick(None, None, {})
            self._runs.advance()
        if not self.ending:
            kinds.go_on(self)
            self.errands.advance(self)
            self._further(now)
            self._decide(now)
        while self.policy.patient and self._runs.waits_for_job:
            self._runs.wait()
            self._runs.advance()
        self.watch(self)

    def _mind_budgets(self) -> None:
        """Where a node is over its budget and cannot spill, because spilling is off, or while a plan is changed."""
        off = not self.conduct.local.spill_percent
        copied = room.NOTHING if off else self.copied_bytes
        hint = room.SPILLING_OFF if off else room.QUIET
        full = room.over_budget(self.ticker, self.budgets, hint, copied)
        if full and off and parallel.track_of(self) is None:  # which gives way by itself
            raise full
        if full and self.open:
            self._runs.pressed(full)
        if self._moves and not off:
            full = room.pressing(self.ticker, self.budgets, self.copied_bytes, self._came)
            if full:
                self._runs.pressed(full)

    def finish_some(self, *, cleanup: bool) -> bool:
        """At the end of the input: let what runs come to its end, then, if asked, some of what is owed come
        out; whether anything was done. Results of lower operators wait to be let in by the caller."""
        self.ending = True
        if self.running:
            self._through()
            return True
        steps = courses.all_owed(self.flow, self.ticker.manifest, self.nodes) if cleanup else []
        for step in steps:
            self.start(step, by="end of input")
        self._through()
        return bool(steps)

    def _through(self) -> None:
        while self.running:
            self._runs.wait()
            self.between(idle=True)

    def close(self) -> None:
        """Give up what runs; nothing is half done, as nothing counts before its commit."""
        self._runs.give_up("the query stops")
        self.errands.give_up("the query stops")
        self._probe.close()
        self.joins.keep()
        self.watch(self)
        self.records.write()

    # -- actions --------------------------------------------------------------------------------------

    def ask(
        self, request: Request, by: str, numbers: Coefficients | None = None
    ) -> Action | Refusal:
        """What a person or a script asks for, carried out or refused with the reason. `numbers`: where somebody knows
        more of the cost model's than what is measured here."""
        now, local, rule = self.snapshot(), self.conduct.local, self.conduct.priced
        numbers = self.accounts.measured(numbers or Coefficients())
        plan = plan_for(request, now, local.victim, local.seed, numbers=numbers, rule=rule)
        if isinstance(plan, Refusal):
            self.records.refused(by, request, [plan], self.now_s())
            return plan
        found = self.submit(plan, by, now)
        return found[0] if found else self.records.last_refusals[0]

    def submit(
        self,
        plan: Plan,
        by: str,
        now: ClusterSnapshot,
        *,
        limits: Limits | None = None,
        name: str = "",
    ) -> list[Action]:
        """Judge a plan and begin it; `name` is its action's, where somebody outside waits for that."""
        plan = replace(plan, steps=tuple(whole(self.flow, step, now) for step in plan.steps))
        held = [arbiter.Running(r.action.id, now.query, r.action.step) for r in self.running]
        verdict = arbiter.judge(plan, now, held, limits or self.policy.limits)
        refusals = list(verdict.refusals)
        for step in plan.steps:
            refusals += migrating.against(self, step) if isinstance(step, Migrate) else ()
        if refusals:
            self.records.refused(by, plan, refusals, self.now_s())
            return []
        self.records.decided(by, plan, self.now_s())
        told = self._foretold(plan, now) if self.records.report is not None else []
        made = [self.start(step, by, name) for step in plan.steps]
        self.records.predicted |= {a.id: one for a, one in zip(made, told, strict=False)}
        return made

    def _foretold(self, plan: Plan, now: ClusterSnapshot) -> list[dict[str, Any]]:
        return foretold(plan, now, self.accounts.numbers, self.conduct.priced)

    def start(self, step: Step, by: str, name: str = "") -> Action:
        name = name or f"{self.records.count + 1:04d}-{uuid.uuid4().hex[:6]}"
        action = Action.propose(name, self.ticker.setup.plan.name, step, hold=self.policy.hold)
        action = action.accept(self.wall_s())
        self.keep(action, by)
        log = Log(self, action)
        self.accounts.begin(
            log, self.budgets.get(step.node) if isinstance(step, SetBudget) else None
        )
        if isinstance(step, SetBudget):
            with log.step("Commit"):
                self.budgets[step.node] = step.bytes
            log.action = log.action.finish(self.wall_s())
            self.accounts.close(log)
            self.keep(log.action)
            return log.action
        return self.go_on(log, step)

    def go_on(self, log: Log, step: kinds.Long) -> Action:
        """Begin with an action's course, or go on with one of an earlier life."""
        if isinstance(step, Move):
            self._rounds.moves()
        made = kinds.course(self, log, step)
        return self._runs.begin(log, made, self.ticker.manifest.version + 1)

    def cancel(self, name: str) -> str:
        """End an action before its commit; why not, if it cannot be."""
        return self._runs.cancel(name)

    def _over(self, run: Running) -> None:
        self.accounts.close(run.log)
        self.keep(run.action)

    # -- what courses use -----------------------------------------------------------------------------

    def keep(self, action: Action, by: str = "") -> None:
        self.records.keep(action, by, self.now_s())

    def progress(self, action: Action, share: float) -> None:
        self.records.progress[action.id] = share

    def generation(self, node: int) -> str:
        return f"{self.ticker.manifest.version + 1:010d}-{node:04d}-{uuid.uuid4().hex[:8]}"

    def room(self, node: int) -> int:
        """Bytes that a node may still take before it would spill."""
        most = self.budgets.get(node, NO_LIMIT)
        return int(self.conduct.local.threshold * most) - self.ticker.manifest.memory_bytes(node)

    @contextmanager
    def flying(self, pairs: Sequence[tuple[str, int]]) -> Iterator[None]:
        """Groups that nobody else may touch meanwhile."""
        self.fly(pairs)
        try:
            yield
        finally:
            self.land(pairs)

    def fly(self, pairs: Sequence[tuple[str, int]]) -> None:
        self._flying.update(pairs)

    def land(self, pairs: Sequence[tuple[str, int]]) -> None:
        self._flying.difference_update(pairs)

    def swap(
        self,
        way: Transition,
        runs: Mapping[Place, state.Runs],
        disk: Mapping[Place, state.Runs],
        action: str,
    ) -> None:
        """Commit another plan with the state that it begins with; everything here is about that one from now on."""
        replanning.swap(self.ticker, way, runs, disk, action, self._asked())
        self._runs.side.replanned()
        self.joins.replanned(self.ticker.setup, self.now_s())
        self._rounds.replanned(self.ticker.stats, self.now_s())
        self._owing = self._seen = None
        self.accounts.replanned(self.flow, action, self.ticker.manifest)

    def amend(
        self, edit: Edit, *, merged: Mapping[str, Merged] | None = None, action: str = ""
    ) -> bool:
        """Commit a change without a tick; False where there is none."""
        if not (edit.changes or edit.disk or edit.placement or merged):
            return False
        made = merged or {}
        self.records.cost(action, sum(one.cpu_s for one in made.values()))
        outcome = amended(edit, made, self.ticker.manifest.version + 1, self.nodes)
        named_by = (action,) if action else ()
        self.ticker.amend(outcome, edit.placement, {**edit.disk}, named_by, self._asked())
        self.joins.came_out(outcome.holds)
        self.accounts.committed(action, self.ticker.manifest, made)
        return True

    # -- deciding -------------------------------------------------------------------------------------

    def snapshot(self) -> ClusterSnapshot:
        now, past = self.now_s(), self.records.past
        last_s = NEVER_S if past.last_adaptation_s is None else min(past.last_adaptation_s, now)
        history = History(last_adaptation_s=last_s, forced_spill_bytes=past.forced_spill_bytes)
        bare = snapshot(
            self.ticker,
            self.budgets,
            self._rounds.figures(self.ticker.stats, now),
            self._rounds.history(history),
            self._flying,
            now,
            self._version_s,
            self.joins.joins,
            self.pulse.alive,
            self.conduct.priced,
        )
        self._owing = follow(self._owing or Owing.nothing(bare), self._seen or bare, bare)
        self._seen = bare
        return with_owed(bare, self._owing)

    def _decide(self, now: float) -> None:
        for request in self.policy.due(self.ticker.manifest.tick + 1):
            if request.do == "cancel":
                self.records.note("script", self.cancel("last") or "cancelled", now)
            else:
                self.ask(request, "script")
        if self.running or not self._is_due(now):
            return
        self._decided_s, self._decided_round = now, self._rounds.number
        seen = self.snapshot()
        kind = self.policy.kind
        if isinstance(kind, LocalSpill):
            kind = self.conduct.local
        if not self.policy.minute_s:  # by a clock of its own, ticks' real length says nothing
            kind = self.accounts.informed(kind)
        plan = kind.decide(seen, self.policy.limits)
        if plan.steps and not plan.local:
            made = self.submit(plan, self.policy.kind.name, seen)
            if not made and any(isinstance(step, Migrate) for step in plan.steps):
                self._decided_s += REFUSED_S  # what speaks against an order is not over soon
        else:
            self.records.decided(self.policy.kind.name, plan, now)
        if self.policy.decides and not self.running:  # nobody else will
            self._rounds.rest(self.ticker.stats, now, self.conduct.delta_min_s)

    def _is_due(self, now: float) -> bool:
        """A policy that goes by rounds decides once for each that has ended; others by their interval."""
        if by_rounds(self.policy.kind):
            return self._rounds.number > self._decided_round
        return now - self._decided_s >= self.policy.interval_s

    def _further(self, now: float) -> None:
        """Take the round as far as it is by now."""
        delta_min_s = self.conduct.delta_min_s
        moving = bool(self._moves)
        self._rounds.boundary(self.ticker.stats, now, delta_min_s, moving=moving)

    # -- what ticks did -------------------------------------------------------------------------------

    def _noticed(self, outcome: Outcome, commit: Commit) -> None:
        """After every tick: nodes may have spilled by themselves."""
        now, back = self.now_s(), frozenset(op for op, _ in self.settle)
        self._runs.ticked(outcome.work)
        self.joins.ticked(outcome, commit, self.ticker.manifest, back, now)
        self._rounds.ticked(outcome.worked_s())
        self.settle.clear()  # done, once: another tick may begin before the next boundary
        self.let_in = {}
        if self._last_s:
            self._version_s += 0.1 * (now - self._last_s - self._version_s)
        self._last_s = now
        moves = self._moves
        if moves:
            self._came = room.came(outcome, self.ticker.placements, self.nodes)
        self.accounts.ticked(outcome, commit, self.ticker.manifest, moves)
        self.records.spilled(outcome.disk, commit.version, self.flow, now)


def _unwatched(desk: Desk) -> None:
    """Where nobody looks on."""
