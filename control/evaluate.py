"""One rule, one query, one picture: what the policy wants, whether it may, whether it is worth it. Pure.

The loop acts on what comes out; the console shows the same for a rule that it asks about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from control import arbiter, predict
from control.arbiter import Running
from control.cost.coefficients import Coefficients
from control.interlock import Interlock, interlock_to_json
from control.limits import Limits
from control.plans import Plan, plan_to_json
from control.policies.registry import with_numbers
from control.rules import Mode, Rule, node_rule
from control.snapshot import ClusterSnapshot

REASONS_MAX = 24


class Outcome(StrEnum):
    """What an evaluation came to."""

    WANTED = "wanted"  # to be proposed, or done
    PROPOSED = "proposed"
    ACTED = "acted"
    NOTHING = "nothing"
    BLOCKED = "blocked"
    ERROR = "error"


@dataclass(frozen=True)
class Found:
    """`said` is JSON: reasons with their figures, refusals, blockers, what the gain was."""

    outcome: Outcome
    why: str
    plan: Plan | None = None
    preview: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, Any] = field(default_factory=dict)


def evaluate(
    rule: Rule,
    lock: Interlock,
    snapshot: ClusterSnapshot,
    running: Sequence[Running],
    numbers: Coefficients,
    limits: Limits,
) -> Found:
    """What the rule wants now. `limits`: what the day and the console allow; the rule's own are added."""
    mine = narrower(rule.limits, limits)
    plan = with_numbers(rule.policy, numbers).decide(snapshot, mine)
    said = {"reasons": plan_to_json(plan)["reasons"][:REASONS_MAX]}
    if not plan.steps:
        return Found(Outcome.NOTHING, _last(plan), None, {}, said)
    if plan.local:
        return Found(Outcome.NOTHING, "nodes that overflow spill by themselves", None, {}, said)
    refusals = judged(plan, snapshot, running, mine)
    if refusals:
        return Found(Outcome.NOTHING, refusals[0], None, {}, {**said, "refusals": refusals})
    known = snapshot.spill_rule or node_rule(rule)
    preview = predict.preview(plan, snapshot, numbers, rule=known)
    whole = preview["whole"]
    said["gain"] = {name: whole[name] for name in ("gain_row_s", "cost_row_s", "chance")}
    if lock.mode is Mode.AUTO and (doubt := doubted(rule, whole)):
        return Found(Outcome.NOTHING, doubt, None, preview, said)
    return Found(Outcome.WANTED, _last(plan), plan, preview, said)


def narrower(mine: Limits, given: Limits) -> Limits:
    """The tighter of two sets of limits in everything."""
    return Limits(
        min(mine.action_bytes_max, given.action_bytes_max),
        min(mine.daily_bytes_left, given.daily_bytes_left),
        max(mine.cooldown_s, given.cooldown_s),
        min(mine.receiver_fill_max, given.receiver_fill_max),
        min(mine.steps_max, given.steps_max),
        mine.held or given.held,
    )


def judged(
    plan: Plan, snapshot: ClusterSnapshot, running: Sequence[Running], limits: Limits
) -> list[str]:
    """The arbiter's word on each step by itself: they are carried out one after the other."""
    found: dict[str, None] = {}
    for step in plan.steps:
        verdict = arbiter.judge(replace(plan, steps=(step,)), snapshot, running, limits)
        found.update(dict.fromkeys(map(str, verdict.refusals)))
    if len(plan.steps) > limits.steps_max:
        found[f"the plan has {len(plan.steps)} steps (limit {limits.steps_max})"] = None
    if plan.bytes > limits.daily_bytes_left:
        left = f"{plan.bytes:,}, limit {limits.daily_bytes_left:,}"
        found[f"the plan is over what is left of the day's bytes ({left})"] = None
    return list(found)


def doubted(rule: Rule, whole: Mapping[str, Any]) -> str:
    """Why a plan is not good enough to be done without a person; empty when it is."""
    if not rule.needs_gain:
        return ""
    gain, cost, chance = whole["gain_row_s"], whole["cost_row_s"], whole["chance"]
    if gain <= 0:
        return "it would lose against doing nothing"
    if gain < rule.least_gain * cost:
        return f"it would gain less than {rule.least_gain:g} times its cost"
    if chance < rule.least_confidence:
        return f"too unsure: P(gain > 0) is {chance:.2f}, needed {rule.least_confidence:g}"
    return ""


def blocked(lock: Interlock) -> Found:
    why = "; ".join(blocker.text for blocker in lock.blockers)
    return Found(Outcome.BLOCKED, why, None, {}, interlock_to_json(lock))


def signature(found: Found) -> tuple[Any, ...]:
    """What makes two evaluations the same: their words, without the figures."""
    reasons = tuple((topic, text) for topic, text, *_ in found.said.get("reasons", ()))
    blockers = tuple(one["why"] for one in found.said.get("blockers", ()))
    refused = bool(found.said.get("refusals"))
    why = "" if found.outcome is Outcome.BLOCKED or refused else found.why.split(":")[0]
    return found.outcome, why, reasons, blockers, refused


def _last(plan: Plan) -> str:
    return plan.reasons[-1].text if plan.reasons else ""
