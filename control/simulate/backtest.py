"""What a rule would have done: recorded snapshots replayed through the same policy, interlock and arbiter.

As if the rule had been in mode auto, its editor an admin, and nobody else had acted. Beside it runs the same
recording with nothing but the nodes' own spills: what the rule gains is the difference, by the model.

With `Setting.really` the world goes as it went: every recorded snapshot is taken as it was, and between them
what was really done is done again, whoever did it. Only the rule's decisions are made anew, and what they want
is noted instead of done. agree.py compares that with what the rule really did.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from control.actions import State
from control.arbiter import Running
from control.conduct import conduct_of
from control.cost.coefficients import Coefficients
from control.cost.options import move_seconds
from control.evaluate import evaluate
from control.handling.plans import DAILY_BYTES, DAILY_PAUSE_S, DAY_S
from control.interlock import Facts, Interlock, RoundId, interlock, waits
from control.ledger import ActionRow
from control.limits import ON_REQUEST, Limits
from control.people import Role
from control.plans import (
    Cleanup,
    Migrate,
    Move,
    Plan,
    Spill,
    Step,
    name_of,
    nodes_of,
    pairs_of,
    step_from_json,
)
from control.policies.flux import by_rounds, next_round_s
from control.policies.local_spill import LocalSpill
from control.ports import Store
from control.rules import Mode, Rule
from control.simulate.course import Course
from control.simulate.replay import Replay, alike
from control.snapshot import ClusterSnapshot

STEP_S = 15.0  # how finely time goes; rules that come more often are asked this often
GAP_MAX_S = 1800.0  # recordings further apart are not one run
CHUNK_S = 3600.0
FIRINGS_MAX = 500


@dataclass(frozen=True, slots=True)
class Setting:
    """What a backtest is made with. `daily`: bytes and seconds of pause, of which rules have half."""

    numbers: Coefficients = field(default_factory=Coefficients)
    local: LocalSpill | None = field(default_factory=LocalSpill)
    daily_bytes: int = DAILY_BYTES
    daily_pause_s: float = DAILY_PAUSE_S
    really: Sequence[ActionRow] | None = None  # what was done, if the world is to go as it went
    anchor_s: float | None = None  # where the rule's interval counts from; None: the first snapshot


@dataclass(frozen=True, slots=True)
class Fired:
    """One step that would have been done."""

    time_s: float
    do: str
    nodes: tuple[int, ...]
    bytes: int
    groups: int
    pause_s: float
    seconds: float
    gain_row_s: float
    order: str = ""  # that was changed to


@dataclass
class Tally:
    """What adds up over a backtest."""

    snapshots: int = 0
    from_s: float = 0.0
    until_s: float = 0.0
    evaluated: Counter[str] = field(default_factory=Counter)
    blocked: Counter[str] = field(default_factory=Counter)
    nothing: Counter[str] = field(default_factory=Counter)
    fired: list[Fired] = field(default_factory=list)
    touched: Counter[tuple[str, int]] = field(default_factory=Counter)
    daily_bytes_max: int = 0
    daily_pause_s_max: float = 0.0
    waits_row_s: float = 0.0  # of results whose groups were on their way
    course: Course = field(default_factory=Course)


class _Run:
    """One stretch of a recording without a break, with the rule and without it."""

    def __init__(self, rule: Rule, first: ClusterSnapshot, setting: Setting, tally: Tally) -> None:
        self.rule, self.setting, self.tally = rule, setting, tally
        follows = setting.really is not None
        conduct = conduct_of(rule.policy)  # the rule brings its own to the nodes
        local = setting.local if conduct is None else conduct.local
        self.real = Replay(first, None if follows else local)
        self.idle = Replay(first, setting.local)
        self.script = _script(setting.really or (), first.time_s)
        self.anchor_s = first.time_s if setting.anchor_s is None else setting.anchor_s
        self.start_s = first.time_s
        self.fired_s: float | None = None
        self.acted_s: float | None = None
        self.jobs: list[tuple[float, Step]] = []  # end, step: one after the other
        self.ahead: deque[Step] = deque()
        self.delta_s = getattr(rule.policy, "delta_min_s", 0.0)
        self.round: RoundId = (0, first.time_s)  # the last that has ended
        self.decided: RoundId = self.round
        self.round_began_s = first.time_s

    def on_to(self, after: ClusterSnapshot) -> None:
        self.real.enter(after)
        self.idle.enter(after)
        while self.real.now_s < after.time_s:
            until = min(self._next(self.real.now_s), after.time_s)
            self.real.advance(until)
            self.idle.advance(until)
            self.tally.course.note(self.real, self.idle)
            if self.setting.really is not None and until == after.time_s:
                self.real.follow(after)  # what the rule saw then
            self._decide()
            self._happen()
            self._finish()

    def _next(self, now_s: float) -> float:
        """The next moment that counts: of the grid, of the schedule, of what really happened."""
        grid = (now_s // STEP_S + 1) * STEP_S
        due = self.rule.schedule.next_after(now_s, self.anchor_s) or grid
        if by_rounds(self.rule.policy) and self.rule.schedule.cron is None:
            over = self.round_began_s + self.delta_s
            due = over if over > now_s else grid
        if due < grid and (self.rule.schedule.every_s or STEP_S) < STEP_S:
            due = grid
        return min(grid, due, self.script[0][0] if self.script else grid)

    def _happen(self) -> None:
        """What really began or ended until now."""
        while self.script and self.script[0][0] <= self.real.now_s:
            _, ends, row = self.script.popleft()
            step = step_from_json(row.body["step"])
            rows = self.real.rows_of(step)
            self.real.in_flight[rows] = not ends
            if not ends:
                if row.rule == self.rule.name:  # decided when it was last due, begun a little later
                    self.acted_s = self.fired_s or self.real.now_s
            elif row.state == State.DONE:
                self.real.carry_out(step)
                if not row.id.startswith("local-"):
                    self.real.adapted(step.bytes if isinstance(step, Spill) else 0)

    def _finish(self) -> None:
        """What has come to its end is done; a plan's next step begins."""
        world = self.real
        for end, step in [job for job in self.jobs if job[0] <= world.now_s]:
            self.jobs.remove((end, step))
            world.in_flight[world.rows_of(step)] = False
            world.carry_out(step)
            world.adapted(step.bytes if isinstance(step, Spill) else 0)
        if not self.jobs and self.ahead:
            self._begin(self.ahead.popleft(), 0.0)

    def _decide(self) -> None:
        now_s = self.real.now_s
        if self.round == self.decided and now_s - self.round_began_s >= self.delta_s:
            self.round = (self.round[0] + 1, self.round_began_s)
        lock = self._lock(now_s)
        if not lock.turn.due:
            return
        if not waits(lock.turn, [lock], now_s):
            self.fired_s = now_s
        if not lock.free:
            self.tally.evaluated["blocked"] += 1
            self.tally.blocked.update(blocker.why.value for blocker in lock.blockers)
            self.tally.course.was_held(now_s, max(STEP_S, self.rule.schedule.every_s or 0.0))
            return
        limits = Limits(
            receiver_fill_max=ON_REQUEST.receiver_fill_max,
            daily_bytes_left=int(self._left(now_s)[0]),
        )
        running = [Running("job", self.real.before.query, step) for _, step in self.jobs]
        found = evaluate(
            self.rule, lock, self.real.snapshot(), running, self.setting.numbers, limits
        )
        self.real.new_round()
        self._next_round(found.preview if found.plan is not None else {}, now_s)
        if found.plan is None:
            self.tally.evaluated["nothing"] += 1
            self.tally.nothing[found.why.split(":")[0]] += 1
            return
        self.tally.evaluated["acted"] += 1
        self.acted_s = now_s
        self._carry_out(found.plan, found.preview)

    def _next_round(self, preview: Mapping[str, Any], now_s: float) -> None:
        """The round that was decided on is over: the next begins when its moves are."""
        self.decided = self.round
        moved_s = sum(step["duration_s"] for step in preview.get("steps", ()))
        self.round_began_s = now_s + moved_s
        shortest_s = getattr(self.rule.policy, "delta_min_s", 0.0)
        self.delta_s = next_round_s(self.delta_s, moved_s, shortest_s)

    def _lock(self, now_s: float) -> Interlock:
        left = self._left(now_s)
        on_its_way = bool(self.jobs or self.ahead or self.real.in_flight.any())
        busy = ("job",) if on_its_way else ()
        return interlock(
            self.rule,
            Facts(
                now_s,
                Mode.AUTO,
                self.start_s,
                self.anchor_s,
                self.fired_s,
                self.acted_s,
                engine_s=now_s,
                snapshot_s=now_s,
                running=busy,
                editor="backtest",
                editor_role=Role.ADMIN,
                bytes_left=left[0],
                pause_left_s=left[1],
                round=self.round if self.round[0] else None,
                decided_round=self.decided,
            ),
        )

    def _left(self, now_s: float) -> tuple[float, float]:
        """Of the rules' half of the last 24 hours."""
        recent = [f for f in self.tally.fired if f.time_s > now_s - DAY_S]
        size, pause_s = sum(f.bytes for f in recent), sum(f.pause_s for f in recent)
        self.tally.daily_bytes_max = max(self.tally.daily_bytes_max, size)
        self.tally.daily_pause_s_max = max(self.tally.daily_pause_s_max, pause_s)
        return self.setting.daily_bytes // 2 - size, self.setting.daily_pause_s / 2 - pause_s

    def _carry_out(self, plan: Plan, preview: Mapping[str, Any]) -> None:
        for step, told in zip(plan.steps, preview["steps"], strict=True):
            seconds, pause_s = told["duration_s"], told["pause_s"]
            groups = pairs_of(step)
            self.tally.touched.update(groups)
            self.tally.waits_row_s += told["owed_row_s"] if isinstance(step, Move) else 0.0
            fired = Fired(
                self.real.now_s,
                name_of(step),
                nodes_of(step),
                told["bytes"],
                len(groups),
                pause_s,
                seconds,
                told["gain_row_s"],
                step.order if isinstance(step, Migrate) else "",
            )
            self.tally.fired.append(fired)
        if self.setting.really is not None:
            return
        self.ahead.extend(plan.steps)
        self._begin(self.ahead.popleft(), preview["steps"][0]["duration_s"])

    def _begin(self, step: Step, seconds: float) -> None:
        """A spill and a budget count at once; a move, a cleanup and another join order when they are through."""
        if isinstance(step, Move | Cleanup | Migrate):
            seconds = seconds or self._seconds(step)
            self.real.in_flight[self.real.rows_of(step)] = True
            self.jobs.append((self.real.now_s + seconds, step))
            return
        self.real.carry_out(step)
        if isinstance(step, Spill):
            self.real.adapted(step.bytes)

    def _seconds(self, step: Step) -> float:
        numbers = self.setting.numbers
        if isinstance(step, Move):
            return sum(move_seconds(step.bytes, 0.0, numbers, False))
        return numbers.tick_s + step.bytes * numbers.read_s_per_byte / numbers.side_slice


def _script(really: Sequence[ActionRow], since_s: float) -> deque[tuple[float, bool, ActionRow]]:
    """When each action began and ended, in order."""
    lines = [(row.started_s, False, row) for row in really]
    lines += [(row.ended_s, True, row) for row in really if row.ended_s is not None]
    return deque(sorted((x for x in lines if x[0] > since_s), key=lambda x: (x[0], x[1])))


def backtest(
    rule: Rule, recorded: Iterable[ClusterSnapshot], setting: Setting | None = None
) -> dict[str, Any]:
    """Snapshots of one query, oldest first; they are read once, two are held at a time."""
    return told(rule, *through(rule, recorded, setting or Setting()))


def through(
    rule: Rule, recorded: Iterable[ClusterSnapshot], setting: Setting
) -> tuple[Tally, list[tuple[Replay, Replay]]]:
    tally, worlds = Tally(), []
    run: _Run | None = None
    for snapshot in recorded:
        last = run.real.after if run else None
        broken = last is None or not alike(last, snapshot)
        if last is not None and snapshot.time_s <= last.time_s:
            continue  # a clock that was set back
        if broken or (last and snapshot.time_s - last.time_s > GAP_MAX_S):
            run = _Run(rule, snapshot, setting, tally)
            tally.course.broken()
            worlds.append((run.real, run.idle))
        elif run is not None:
            run.on_to(snapshot)
        tally.from_s = tally.from_s or snapshot.time_s
        tally.until_s = snapshot.time_s
        tally.snapshots += 1
    return tally, worlds


def told(rule: Rule, tally: Tally, worlds: Sequence[tuple[Replay, Replay]]) -> dict[str, Any]:
    """For people and the API."""
    bytes_by = Counter[str]()
    for fired in tally.fired:
        bytes_by[fired.do] += fired.bytes
    return {
        "rule": rule.name,
        "from_s": tally.from_s,
        "until_s": tally.until_s,
        "snapshots": tally.snapshots,
        "stretches": len(worlds),
        "evaluations": dict(tally.evaluated),
        "blocked": dict(tally.blocked),
        "nothing": dict(tally.nothing.most_common(10)),
        "firings": len(tally.fired),
        "by_kind": dict(Counter(fired.do for fired in tally.fired)),
        "fired": [_fired_to_json(fired) for fired in tally.fired[:FIRINGS_MAX]],
        "churn": {
            "bytes": sum(bytes_by.values()),
            "bytes_by_kind": dict(bytes_by),
            "groups": len(tally.touched),
            "groups_twice": sum(times > 1 for times in tally.touched.values()),
            "pause_s": sum(fired.pause_s for fired in tally.fired),
        },
        "budget": {
            "daily_bytes_max": tally.daily_bytes_max,
            "daily_pause_s_max": tally.daily_pause_s_max,
        },
        "benefit": _benefit(tally, worlds),
        "orders": _orders(tally),
        "course": tally.course.told(),
    }


def _benefit(tally: Tally, worlds: Sequence[tuple[Replay, Replay]]) -> dict[str, Any]:
    """With the rule and without it. Row·s are the model's; nobody can measure what did not happen."""
    with_, without = (
        {
            "delay_row_s": sum(pair[n].delay_row_s for pair in worlds),
            "peak_memory_share": max((pair[n].share_max for pair in worlds), default=0.0),
            "overflows": sum(pair[n].overflows for pair in worlds),
            "overflow_bytes": int(sum(pair[n].spilled_bytes for pair in worlds)),
            "owed_rows": sum(float(pair[n].owed.sum()) for pair in worlds),
        }
        for n in (0, 1)
    )
    with_["delay_row_s"] += tally.waits_row_s
    return {
        "gain": "model",
        "gain_row_s": without["delay_row_s"] - with_["delay_row_s"],
        "overflows_avoided": without["overflows"] - with_["overflows"],
        "with": with_,
        "without": without,
    }


ORDERS = (
    "Changes of the join order: state, spills and delays go on as they were recorded, under the order that ran, and are "
    "not in the benefit; what each change would have gained is the model's word."
)


def _orders(tally: Tally) -> dict[str, Any]:
    """Of changes of the join order."""
    changes = [fired for fired in tally.fired if fired.do == "migrate"]
    return {
        "changes": len(changes),
        "gain": "model",
        "gain_row_s": sum(fired.gain_row_s for fired in changes),
        "text": ORDERS if changes else "",
    }


def _fired_to_json(fired: Fired) -> dict[str, Any]:
    return {
        "time_s": fired.time_s,
        "do": fired.do,
        "nodes": list(fired.nodes),
        "bytes": fired.bytes,
        "groups": fired.groups,
        "pause_s": fired.pause_s,
        "gain_row_s": fired.gain_row_s,
        "order": fired.order,
    }


def recorded(store: Store, query: str, since_s: float, until_s: float) -> Iterator[ClusterSnapshot]:
    """An hour at a time: a day of ten thousand groups is not held at once."""
    at = since_s
    while at < until_s:
        end = min(at + CHUNK_S, until_s)
        yield from store.metrics.snapshots(query, at, end)
        at = end
