"""The rules' loop, one round at a time: which rule is due, what stands in its way, what it wants, what comes of it.

A round reads one picture per query, decides, and hands what is wanted to the dispatcher, as a person would.
A rule's error is its own: it is noted, and the others go on. What cannot be stored ends the round; the next
one begins where this one was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from control import proposals, schedule
from control.arbiter import Running
from control.charge import Conducting
from control.cost.coefficients import Coefficients
from control.dispatch import Dispatcher
from control.errors import ControlError, StoreError
from control.evaluate import Found, Outcome, blocked, evaluate, signature
from control.handling.base import Ports, running
from control.handling.plans import limits_for
from control.interlock import (
    Facts,
    Interlock,
    decided_on,
    facts,
    interlock,
    interlock_to_json,
    waits,
)
from control.kinds import Asked
from control.learn import BASE, numbers
from control.ledger import Evaluation, ProposalState, RuleRow, Wanted
from control.limits import Limits
from control.people import Actor, Role, Source
from control.policies.flux import by_rounds
from control.ports import Store
from control.rules import Mode, Rule, rule_from
from control.samples import Sample


@dataclass
class Round:
    """What a round came to, for the heartbeat and for tests."""

    evaluated: list[tuple[str, str, Found]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        return sum(found.outcome is outcome for _, _, found in self.evaluated)


class Loop:
    """Made once. Between rounds it remembers parsed rules, and what each last came to; nothing else."""

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        clock: Callable[[], float],
        *,
        base: Coefficients = BASE,
    ) -> None:
        self.store, self.dispatcher, self.clock, self.base = store, dispatcher, clock, base
        self.conducting = Conducting(store, dispatcher.new_id)
        self._parsed: dict[str, tuple[str, Rule]] = {}
        self._said: dict[tuple[str, str], tuple[Any, Mapping[str, Any]]] = {}

    def run_once(self, now_s: float | None = None) -> Round:
        """Every rule that is due, for every query that it covers."""
        now = self.clock() if now_s is None else now_s
        done = Round()
        self.store.proposals.expire(now)
        self._outdated()
        self.conducting.run_once(now)
        for row in self.store.rules.all():
            try:
                self._rule(row, now, done)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - a rule's own: it must not stop the others
                self._failed(row, error, now, done)
        return done

    def _outdated(self) -> None:
        """A rule's own proposal that has become stale must not keep it from making another."""
        for made in self.store.proposals.page(state=ProposalState.OPEN):
            sample = self.store.metrics.newest(made.query) if made.rule else None
            if sample is None:
                continue
            changed = proposals.drift(proposals.from_json(made.fingerprint), sample.snapshot)
            if changed:
                text = proposals.told(changed)
                self.store.proposals.settle(made.id, ProposalState.STALE, note=text)

    def _rule(self, row: RuleRow, now_s: float, done: Round) -> None:
        if row.mode == Mode.OFF:
            return
        rule = self._of(row)
        rounds = by_rounds(rule.policy) and rule.schedule.cron is None
        turn = turn_of(rule, row, now_s)
        if not turn.due and not rounds:
            if turn.mark_s is not None:
                self.store.rules.fired(row.name, turn.mark_s, None)
            return
        locks = {query: self._lock(rule, row, query, now_s) for query in self._queries(rule)}
        if rounds:  # each query has its own
            locks = {query: found for query, found in locks.items() if found[0].turn.due}
            if not locks:
                return
        if not waits(turn, [lock for lock, _ in locks.values()], now_s):
            self.store.rules.fired(row.name, now_s, None)
        for query, (lock, known) in locks.items():
            found = self._one(rule, row, query, lock, known, now_s)
            if found.outcome in (Outcome.ACTED, Outcome.PROPOSED):
                self.store.rules.fired(row.name, now_s, now_s)
            self._note(row, query, found, now_s, done)

    def _of(self, row: RuleRow) -> Rule:
        """Parsed once for each text."""
        kept = self._parsed.get(row.name)
        if kept is None or kept[0] != row.text:
            kept = self._parsed[row.name] = (row.text, rule_from(row.text))
        return kept[1]

    def _queries(self, rule: Rule) -> list[str]:
        rows = self.store.queries.all()
        return [r.name for r in rows if rule.covers(r.name) and r.wanted is Wanted.RUNNING]

    def _lock(self, rule: Rule, row: RuleRow, query: str, now_s: float) -> tuple[Interlock, Facts]:
        known = facts(self.store, row, query, now_s)
        return interlock(rule, known), known

    def _one(
        self, rule: Rule, row: RuleRow, query: str, lock: Interlock, known: Facts, now_s: float
    ) -> Found:
        sample = self.store.metrics.newest(query)
        if not lock.free or sample is None:
            return blocked(lock)
        actor = actor_of(row, known, lock)
        found = wanted(self.store, rule, lock, sample, actor, now_s, self.base)
        if by_rounds(rule.policy):
            decided_on(self.store, row.name, sample)
        if found.plan is None:
            return found
        done = self._act(found, lock, actor, query)
        if done.outcome in (Outcome.ACTED, Outcome.PROPOSED):
            with suppress(StoreError):  # a backtest is to decide on the same, but can do without
                self.store.metrics.keep(sample)
        return done

    def _act(self, found: Found, lock: Interlock, actor: Actor, query: str) -> Found:
        """Propose; in mode auto apply at once what was proposed."""
        assert found.plan is not None
        made = self.dispatcher.propose(found.plan, actor, query, note=found.why)
        said = {**found.said, "mode": lock.mode.value, "fallback": lock.fallback}
        if not made.accepted:
            said["refusals"] = [dict(one) for one in made.refusals] or [made.text]
            return Found(Outcome.NOTHING, f"refused: {made.text}", None, {}, said)
        said["proposal"] = made.id
        if lock.mode is not Mode.AUTO:
            event = {"proposal": made.id, "query": query, "rule": actor.rule, "why": found.why}
            self.store.webhooks.post("proposal.made", event, self.clock())
            return Found(Outcome.PROPOSED, found.why, found.plan, found.preview, said)
        answer = self.dispatcher.dispatch("apply", {"proposal": made.id}, actor, query)
        if not answer.accepted:
            why = f"proposed, and refused when applied: {answer.text}"
            return Found(Outcome.PROPOSED, why, found.plan, found.preview, said)
        said["command"] = answer.id
        return Found(Outcome.ACTED, found.why, found.plan, found.preview, said)

    def _note(self, row: RuleRow, query: str, found: Found, now_s: float, done: Round) -> None:
        """Kept as the same when its words are, though figures differ: then the first figures stand."""
        done.evaluated.append((row.name, query, found))
        key, sign = (row.name, query), signature(found)
        said: Mapping[str, Any] = {"why": found.why, **found.said}
        before = self._said.get(key)
        if before is not None and before[0] == sign and "proposal" not in said:
            said = before[1]
        self._said[key] = (sign, said)
        self.store.rules.evaluated(
            Evaluation(row.name, query, now_s, now_s, 1, found.outcome.value, said)
        )

    def _failed(self, row: RuleRow, error: Exception, now_s: float, done: Round) -> None:
        """Noted, and its turn is over: it is tried again when it is due again, or was changed."""
        text = str(error) if isinstance(error, ControlError) else f"{type(error).__name__}: {error}"
        done.errors.append(f"rule {row.name}: {text}")
        self.store.rules.fired(row.name, now_s, None)
        self._note(row, "", Found(Outcome.ERROR, text), now_s, done)


def turn_of(rule: Rule, row: RuleRow, now_s: float) -> schedule.Turn:
    return schedule.turn(
        rule.schedule,
        now_s,
        last_fired_s=row.last_fired_s,
        changed_s=row.changed_s,
        anchor_s=row.anchor_s,
    )


def actor_of(row: RuleRow, known: Facts, lock: Interlock) -> Actor:
    """In its last editor's name. A rule that fell back to proposing needs no more than that."""
    role = known.editor_role if lock.mode is Mode.AUTO and known.editor_role else Role.OPERATOR
    return Actor(row.editor, role, Source.RULE, row.name)


def wanted(
    store: Store,
    rule: Rule,
    lock: Interlock,
    sample: Sample,
    actor: Actor,
    now_s: float,
    base: Coefficients = BASE,
) -> Found:
    """What a rule wants for one query now, nothing done."""
    ports = Ports(store, lambda: "")
    asked = Asked("propose", {}, actor, sample.query, now_s)
    limits: Limits = limits_for(ports, asked)
    others: list[Running] = running(ports)
    return evaluate(rule, lock, sample.snapshot, others, numbers(store, base), limits)


def explained(store: Store, name: str, query: str, now_s: float) -> dict[str, Any] | None:
    """Why a rule does or does not act on a query now, with what it would do; None: no such rule."""
    row = store.rules.find(name)
    if row is None:
        return None
    rule = rule_from(row.text)
    known = facts(store, row, query, now_s)
    lock, sample = interlock(rule, known), store.metrics.newest(query)
    out: dict[str, Any] = {"rule": name, "query": query, **interlock_to_json(lock)}
    if sample is None:
        return {**out, "evaluation": None}
    found = wanted(store, rule, lock, sample, actor_of(row, known, lock), now_s)
    about = {"outcome": found.outcome.value, "why": found.why, **found.said}
    return {**out, "evaluation": {**about, "time_s": sample.time_s, "preview": found.preview}}
