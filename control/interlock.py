"""What keeps a rule from acting on a query: every blocker now, as data, and when it may next.

`interlock` is pure: it judges facts that `facts` reads. The loop asks it before each evaluation, the console
and the API to say why a rule does not fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from control.actions import State
from control.conduct import conduct_of, told_conduct
from control.handling.base import FRESH_S, Ports
from control.handling.plans import left_of_day, on_hold
from control.kinds import Asked
from control.ledger import ActionRow, CommandState, ProposalState, RuleRow
from control.people import Actor, Role, Source
from control.policies.flux import by_rounds
from control.ports import Store
from control.rules import Mode, Rule, rule_from
from control.samples import Sample
from control.schedule import Turn, quiet_until, turn
from control.units import said

STOPPED_S = 600.0  # a person stopped it: it leaves the query alone for as long
WAIT_MAX_S = 600.0  # so long a due schedule waits for what is over soon
WAITS_FROM_S = 60.0  # schedules that come more often do not wait: they come again
LOOKS_MAX = 64  # spans of quiet that are gone through to find when it may next
RoundId = tuple[int, float]  # number and beginning: a restart of the engine counts from 1 again
ENGINE = "engine"
LIVE = "running"


class Block(StrEnum):
    """Why a rule does not act."""

    OFF = "off"
    HOLD = "hold"
    NOT_DUE = "not_due"
    QUIET = "quiet"
    COOL_DOWN = "cool_down"
    STOPPED = "stopped"  # a person dismissed or cancelled what it wanted
    QUERY = "query"  # it does not run
    ENGINE_STALE = "engine_stale"
    NO_SNAPSHOT = "no_snapshot"
    RUNNING = "running"  # an action is on its way
    OPEN_PROPOSAL = "open_proposal"
    BUDGET = "budget"


# Over soon: a schedule that meets one of these waits for it instead of missing its turn.
PASSING = frozenset(
    {Block.COOL_DOWN, Block.ENGINE_STALE, Block.NO_SNAPSHOT, Block.RUNNING, Block.OPEN_PROPOSAL}
)


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason, and until when; None: nobody knows."""

    why: Block
    text: str
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a rule's turn depends on besides the rule itself."""

    now_s: float
    mode: Mode
    changed_s: float
    anchor_s: float
    last_fired_s: float | None = None
    last_acted_s: float | None = None  # on this query
    stopped_s: float | None = None
    hold_until_s: float | None = None
    hold_by: str = ""
    query_state: str = LIVE
    engine_s: float | None = None  # its last heartbeat
    snapshot_s: float | None = None
    ended_s: float | None = None  # when the query's last action did
    running: tuple[str, ...] = ()
    open_proposal: str = ""
    open_until_s: float | None = None
    editor: str = ""
    editor_role: Role | None = None  # None: there is no such user, or not any more
    editor_disabled: bool = False
    bytes_left: float = float("inf")
    pause_left_s: float = float("inf")
    round: RoundId | None = None  # that the newest figures are of; None: none has ended
    decided_round: RoundId | None = None  # that the rule last decided on
    rule: str = ""
    conducts: bool = False  # does the rule say how nodes spill, or how long rounds are?
    conduct_by: str = ""  # the rule that the query's nodes go by


@dataclass(frozen=True, slots=True)
class Interlock:
    """`mode`: what it would do; `fallback` says why what it does is less than it is set to."""

    blockers: tuple[Blocker, ...]
    mode: Mode
    turn: Turn
    next_s: float | None  # when it may act again, as far as can be known; None: nobody knows
    fallback: str = ""

    @property
    def free(self) -> bool:
        return not self.blockers

    @property
    def passing(self) -> bool:
        """Nothing but what is over soon stands in its way."""
        return all(blocker.why in PASSING for blocker in self.blockers)


def interlock(rule: Rule, facts: Facts) -> Interlock:
    """Everything that stands in a rule's way now."""
    now = turn_of(rule, facts)
    found = [*_set(rule, facts, now), *_engine(facts), *_others(facts)]
    mode, fallback = _mode(facts)
    return Interlock(tuple(found), mode, now, _next(rule, facts, now, found), fallback)


def turn_of(rule: Rule, facts: Facts) -> Turn:
    """By its schedule. A policy that goes by rounds is due when one has ended, and decides once on each: `every` says no
    more then, `cron` still does."""
    now = turn(
        rule.schedule,
        facts.now_s,
        last_fired_s=facts.last_fired_s,
        changed_s=facts.changed_s,
        anchor_s=facts.anchor_s,
    )
    if not by_rounds(rule.policy):
        return now
    fresh = facts.round is not None and facts.round != facts.decided_round
    if rule.schedule.cron is not None:
        return replace(now, due=now.due and fresh)
    return Turn(fresh, None, facts.now_s if fresh else None)


def _set(rule: Rule, facts: Facts, now: Turn) -> list[Blocker]:
    """What people have set: mode, hold, schedule, quiet hours, cool-down."""
    found, at = [], facts.now_s
    if facts.mode is Mode.OFF:
        found.append(Blocker(Block.OFF, "the rule is off"))
    if facts.hold_until_s is not None and facts.hold_until_s > at:
        text = f"automation is held by {facts.hold_by or 'somebody'}"
        found.append(Blocker(Block.HOLD, text, facts.hold_until_s))
    if not now.due:
        text = f"its schedule: {rule.schedule}"
        if by_rounds(rule.policy):
            text = "it decides once on each round, when it has ended" + _decided(facts)
        found.append(Blocker(Block.NOT_DUE, text, now.next_s))
    quiet = quiet_until(rule.quiet, at, rule.zone)
    if quiet is not None:
        spans = ", ".join(map(str, rule.quiet))
        found.append(Blocker(Block.QUIET, f"quiet hours ({spans} {rule.zone})", quiet))
    for why, since, wait, text in (
        (Block.COOL_DOWN, facts.last_acted_s, rule.cooldown_s, "since it last did something"),
        (
            Block.STOPPED,
            facts.stopped_s,
            max(STOPPED_S, rule.cooldown_s),
            "since a person stopped it",
        ),
    ):
        if since is not None and since <= at < since + wait:
            found.append(Blocker(why, f"{said(wait)} must pass {text}", since + wait))
    return found


def _decided(facts: Facts) -> str:
    if facts.round is None:
        return "; none has ended yet"
    return f"; it has decided on round {facts.round[0]}"


def _engine(facts: Facts) -> list[Blocker]:
    """What must be there to decide from."""
    found, at = [], facts.now_s
    if facts.query_state != LIVE:
        found.append(Blocker(Block.QUERY, f"the query is {facts.query_state or 'not known'}"))
    if facts.engine_s is None:
        found.append(Blocker(Block.ENGINE_STALE, "the engine has not been heard of"))
    elif at - facts.engine_s > FRESH_S:
        text = f"the engine was last heard of {said(at - facts.engine_s)} ago"
        found.append(Blocker(Block.ENGINE_STALE, text))
    if facts.snapshot_s is None:
        found.append(Blocker(Block.NO_SNAPSHOT, "nothing is known of the query's state yet"))
    elif at - facts.snapshot_s > FRESH_S:
        text = f"what is known of the query is {said(at - facts.snapshot_s)} old"
        found.append(Blocker(Block.NO_SNAPSHOT, text))
    elif facts.ended_s is not None and facts.ended_s > facts.snapshot_s:
        text = "what is known of the query is from before its last action ended"
        found.append(Blocker(Block.NO_SNAPSHOT, text))
    return found


def _others(facts: Facts) -> list[Blocker]:
    """What else is on its way, and what the day has left."""
    found = []
    if facts.running:
        text = f"on its way: {', '.join(facts.running[:4])}"
        found.append(Blocker(Block.RUNNING, text))
    if facts.open_proposal:
        text = f"its proposal {facts.open_proposal} is open"
        found.append(Blocker(Block.OPEN_PROPOSAL, text, facts.open_until_s))
    if facts.bytes_left <= 0:
        found.append(Blocker(Block.BUDGET, "rules have used up their half of the day's bytes"))
    if facts.pause_left_s <= 0:
        text = "rules have used up their half of the day's seconds of pause"
        found.append(Blocker(Block.BUDGET, text))
    return found


def _mode(facts: Facts) -> tuple[Mode, str]:
    """Auto needs an editor who may still ask for it; without one it only proposes. Of two rules that are in auto from
    before, nodes go by one."""
    if facts.mode is not Mode.AUTO:
        return facts.mode, ""
    editor = facts.editor or "nobody"
    if facts.editor_role is None:
        return Mode.PROPOSE, f"only proposes: its editor, {editor}, is no user any more"
    if facts.editor_disabled:
        return Mode.PROPOSE, f"only proposes: its editor, {editor}, is disabled"
    if not facts.editor_role.covers(Role.ADMIN):
        text = f"only proposes: its editor, {editor}, is {facts.editor_role}; auto needs an admin"
        return Mode.PROPOSE, text
    if facts.conduct_by and facts.conduct_by != facts.rule and facts.conducts:
        text = f"its nodes' own spills and rounds go by rule {facts.conduct_by}, not by this one"
        return Mode.AUTO, text
    return Mode.AUTO, ""


def _next(rule: Rule, facts: Facts, now: Turn, blockers: Sequence[Blocker]) -> float | None:
    """The first time of its schedule at which no blocker known to end still stands. A turn that is due and
    meets only what is over soon waits for it."""
    others = [b for b in blockers if b.why is not Block.NOT_DUE]
    if any(b.until_s is None for b in others):
        return None
    at = max([facts.now_s, *(b.until_s for b in others if b.until_s is not None)])
    if by_rounds(rule.policy) and rule.schedule.cron is None:
        return at if now.due else None
    if now.due and (not others or (_seldom(now) and all(b.why in PASSING for b in others))):
        return at
    for _ in range(LOOKS_MAX):
        found = rule.schedule.next_after(at - 0.002, facts.anchor_s)
        if found is None:
            return None
        quiet = quiet_until(rule.quiet, found, rule.zone)
        if quiet is None:
            return found
        at = quiet
    return None


def waits(now: Turn, locks: Sequence[Interlock], now_s: float) -> bool:
    """A schedule that comes seldom, and meets only what is over soon, stays due for a while."""
    if not locks or now.since_s is None or now_s - now.since_s >= WAIT_MAX_S:
        return False
    return _seldom(now) and all(not lock.free and lock.passing for lock in locks)


def _seldom(now: Turn) -> bool:
    if now.since_s is None or now.next_s is None:
        return False
    return now.next_s - now.since_s > WAITS_FROM_S


def facts(store: Store, row: RuleRow, query: str, now_s: float) -> Facts:
    """Read for one rule and one query."""
    held = on_hold(Ports(store, lambda: ""), now_s)
    editor = store.users.find(row.editor)
    role = editor.role if editor else None
    asked = Asked(
        "propose", {}, Actor(row.editor, Role.OPERATOR, Source.RULE, row.name), query, now_s
    )
    size, pause_s = left_of_day(Ports(store, lambda: ""), asked)
    beats = {beat.process: beat.beat_s for beat in store.metrics.heartbeats()}
    sample, known = store.metrics.newest(query), store.queries.find(query)
    recent = store.actions.page(query=query, most=20)
    proposals = [p for p in store.proposals.page(query=query, most=50) if p.rule == row.name]
    waiting = [p for p in proposals if p.state is ProposalState.OPEN and p.expires_s > now_s]
    far = [
        a for a in recent if not a.id.startswith("local-")
    ]  # a node's own spills are in its tick
    ended = [a.ended_s for a in far if a.ended_s is not None]
    return Facts(
        now_s,
        Mode(row.mode),
        row.changed_s,
        row.anchor_s,
        row.last_fired_s,
        max((p.created_s for p in proposals), default=None),
        _stopped(row, recent, proposals),
        held["until_s"] if held else None,
        str(held["by"]) if held else "",
        known.state if known else "not registered",
        beats.get(ENGINE),
        sample.snapshot.time_s if sample else None,
        max(ended, default=None),
        _on_its_way(store, query),
        waiting[0].id if waiting else "",
        waiting[0].expires_s if waiting else None,
        row.editor,
        role,
        bool(editor and editor.disabled),
        size,
        pause_s,
        round=_round(sample),
        decided_round=_round_id(store.kept.get(decided_name(row.name, query))),
        rule=row.name,
        conducts=conduct_of(rule_from(row.text).policy) is not None,
        conduct_by=told_conduct(known).rule if known else "",
    )


def _round(sample: Sample | None) -> RoundId | None:
    """The last round that has ended, as the newest sample has it."""
    history = sample.snapshot.history if sample else None
    if history is None or not history.round_number:
        return None
    return (history.round_number, history.round_start_s)


def _round_id(kept: Any) -> RoundId | None:
    return (int(kept[0]), float(kept[1])) if kept else None


def decided_name(rule: str, query: str) -> str:
    """The name under which is kept on which round of a query a rule last decided."""
    return f"round:{rule}:{query}"


def decided_on(store: Store, rule: str, sample: Sample) -> None:
    """A rule has decided on the round that a sample is of."""
    if (found := _round(sample)) is not None:
        store.kept.put(decided_name(rule, sample.query), list(found))


def _stopped(row: RuleRow, recent: Sequence[ActionRow], proposals: Sequence[Any]) -> float | None:
    """When a person last dismissed what this rule proposed, or cancelled what it did. Whoever saves or switches
    the rule after that wants it to go on."""
    times = [p.created_s for p in proposals if p.state is ProposalState.DISMISSED]
    times += [
        a.ended_s
        for a in recent
        if a.rule == row.name and a.state == State.CANCELLED and a.ended_s is not None
    ]
    return max((time_s for time_s in times if time_s > row.changed_s), default=None)


def _on_its_way(store: Store, query: str) -> tuple[str, ...]:
    """Actions of the query that run, and commands for it that the engine has not ended yet."""
    running = [row.id for row in store.actions.running() if row.query == query]
    waiting = [
        command.id
        for command in store.commands.page(query=query, most=20)
        if command.kind == "apply" and command.state in (CommandState.QUEUED, CommandState.TAKEN)
    ]
    return (*running, *waiting)


def interlock_to_json(found: Interlock) -> dict[str, Any]:
    return {
        "blockers": [{**asdict(b), "why": b.why.value} for b in found.blockers],
        "mode": found.mode.value,
        "fallback": found.fallback,
        "due": found.turn.due,
        "next_due_s": found.turn.next_s,
        "next_eligible_s": found.next_s,
    }
