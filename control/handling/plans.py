"""Plans: proposing them, applying exactly what was previewed, dropping, cancelling, undoing, draining; the day's budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from control import actions, arbiter, predict, proposals
from control.arbiter import Refusal, Verdict, Why
from control.companions import sharing, taken_along
from control.errors import PlanError
from control.handling.base import (
    Handler,
    Ports,
    missing,
    picture_of,
    refused,
    refused_by,
    running,
    told,
)
from control.kinds import Answer, Asked, Status
from control.learn import numbers
from control.ledger import Proposal, ProposalState
from control.limits import ON_REQUEST, Limits
from control.people import Role
from control.plans import (
    AUTO,
    Move,
    Plan,
    Reason,
    SetBudget,
    Topic,
    plan_from_json,
    plan_to_json,
    step_from_json,
)
from control.ports import Store
from control.requests import Request, plan_for
from control.settle import concrete
from control.snapshot import ClusterSnapshot

PROPOSAL_LIFE_S = 600.0
DAY_S = 86_400.0
DAILY_BYTES = 100_000_000_000
DAILY_PAUSE_S = 600.0
HOLD_S = 7_200.0
DRAINS = "drains node "  # what the note of a drain's proposal begins with
BUDGET, HOLD = "budget.daily", "hold"  # names of what is kept


@dataclass(frozen=True, slots=True)
class DayBudget:
    """What actions may take in 24 hours; what nobody has set is as it is shipped."""

    bytes: int = DAILY_BYTES
    pause_s: float = DAILY_PAUSE_S


def day_budget(store: Store) -> DayBudget:
    """The budget in force."""
    kept = store.kept.get(BUDGET) or {}
    return DayBudget(int(kept.get("bytes", DAILY_BYTES)), float(kept.get("pause_s", DAILY_PAUSE_S)))


def propose(ports: Ports, asked: Asked) -> Answer:
    """What a person asks for in words: do, node, groups or percent or bytes."""
    body = asked.body
    if body["do"] != "migrate" and body.get("node") is None:
        raise PlanError(f"a {body['do']} needs a node", where="node")
    request = Request(
        body["do"],
        body.get("node", 0),
        body.get("to"),
        body.get("operator"),
        tuple(body["groups"]) if body.get("groups") is not None else None,
        body.get("percent"),
        body.get("bytes"),
        body.get("order"),
        body.get("strategy", AUTO),
    )
    found = picture_of(ports, asked)
    if isinstance(found, Answer):
        return found
    plan = plan_for(request, found.snapshot, numbers=numbers(ports.store))
    return refused(plan) if isinstance(plan, Refusal) else proposed(ports, asked, plan)


def propose_steps(ports: Ports, asked: Asked) -> Answer:
    """Several steps, carried out one after the other."""
    try:
        steps = tuple(step_from_json(raw) for raw in asked.body["steps"])
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(f"steps are not as they should be: {error}") from None
    if not steps:
        raise PlanError("no steps are given")
    said = Reason.of(Topic.CHOSEN, f"asked for: {len(steps)} steps")
    return proposed(ports, asked, Plan(steps, (said,)))


def proposed(
    ports: Ports, asked: Asked, plan: Plan, *, undo_of: str = "", note: str = ""
) -> Answer:
    """A plan with its preview and fingerprint, if nothing speaks against it now."""
    found = picture_of(ports, asked)
    if isinstance(found, Answer):
        return found
    if any(isinstance(step, SetBudget) for step in plan.steps) and not _may_budget(ports, asked):
        return Answer(
            Status.FORBIDDEN, "budgets of nodes are for admins (on demo queries: operators)"
        )
    known = numbers(ports.store)
    made_up = concrete(plan, found.snapshot, known)
    if isinstance(made_up, Refusal):
        return refused(made_up)
    row = ports.store.queries.find(asked.query)
    plan = taken_along(made_up, found.snapshot, sharing(row.about if row else {}))
    verdict = judged(ports, asked, plan, found.snapshot)
    if not verdict.accepted:
        return refused_by(verdict)
    preview = predict.preview(plan, found.snapshot, known)
    actor, now = asked.actor, asked.now_s
    made = Proposal(
        ports.id(now),
        asked.query,
        plan_to_json(plan),
        proposals.to_json(proposals.fingerprint(found.snapshot, plan.steps)),
        preview,
        actor.user,
        actor.source,
        actor.rule,
        now,
        now + PROPOSAL_LIFE_S,
        undo_of=undo_of,
        note=note,
    )
    ports.store.proposals.add(made)
    if not actor.automatic:  # the loop tells of those that rules make
        event = {
            "proposal": made.id,
            "query": made.query,
            "by": str(actor),
            "gain": preview.get("gain"),
        }
        ports.store.webhooks.post("proposal.made", event, now)
    return Answer(Status.ACCEPTED, "proposed", made.id, {"preview": preview})


def _may_budget(ports: Ports, asked: Asked) -> bool:
    row = ports.store.queries.find(asked.query)
    return asked.actor.role is Role.ADMIN or bool(row and row.demo)


def apply(ports: Ports, asked: Asked) -> Answer:
    """Exactly what was previewed, or nothing: stale proposals are refused with the drift."""
    name = asked.body["proposal"]
    found = ports.store.proposals.find(name)
    if found is None:
        return missing("proposal", name)
    if found.state is not ProposalState.OPEN:
        text = f"proposal {name} is {found.state}" + (f": {found.note}" if found.note else "")
        return Answer(Status.CONFLICT, text)
    if found.expires_s < asked.now_s:
        ports.store.proposals.settle(name, ProposalState.EXPIRED)
        return Answer(Status.CONFLICT, f"proposal {name} has expired: propose it again")
    asked = replace(asked, query=found.query)
    picture = picture_of(ports, asked)
    if isinstance(picture, Answer):
        return picture
    changed = proposals.drift(proposals.from_json(found.fingerprint), picture.snapshot)
    if changed:
        text = proposals.told(changed)
        ports.store.proposals.settle(name, ProposalState.STALE, note=text)
        drift = tuple(
            {"why": "stale", "text": str(one), "was": one.was, "now": one.now} for one in changed
        )
        return Answer(Status.REFUSED, f"the proposal is stale: {text}", name, refusals=drift)
    return _applied(ports, asked, found, picture.snapshot)


def _applied(ports: Ports, asked: Asked, found: Proposal, snapshot: ClusterSnapshot) -> Answer:
    plan = plan_from_json(found.plan)
    override = bool(asked.body.get("override"))
    if override and asked.actor.role is not Role.ADMIN:
        return Answer(Status.FORBIDDEN, "only admins may override the day's budget")
    verdict = judged(ports, asked, plan, snapshot, override=override)
    if not verdict.accepted:
        return refused_by(verdict)
    body = {
        "plan": found.plan,
        "fingerprint": found.fingerprint,
        "predicted": found.preview,
        "undo_of": found.undo_of,
    }
    command = told(ports, asked, "apply", body, proposal=found.id)
    if not ports.store.proposals.settle(found.id, ProposalState.APPLIED, command=command):
        raise PlanError(f"proposal {found.id} was settled by somebody else meanwhile")
    if found.note.startswith(DRAINS):
        node, kept = int(found.note.removeprefix(DRAINS)), drained_nodes(ports, found.query)
        ports.store.kept.put(f"drained:{found.query}", sorted({*kept, node}))
    return Answer(Status.ACCEPTED, "on its way to the engine", command)


def drained_nodes(ports: Ports, query: str) -> list[int]:
    """Nodes that were drained on purpose: rules bring nothing back to them."""
    return list(ports.store.kept.get(f"drained:{query}") or [])


def dismiss(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["proposal"]
    if ports.store.proposals.find(name) is None:
        return missing("proposal", name)
    note = f"by {asked.actor}"
    if not ports.store.proposals.settle(name, ProposalState.DISMISSED, note=note):
        return Answer(Status.CONFLICT, f"proposal {name} is no longer open")
    return Answer(Status.ACCEPTED, "dismissed", name)


def cancel(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["action"]
    row = ports.store.actions.find(name)
    if row is None:
        return missing("action", name)
    action = actions.from_json(row.body)
    if not action.cancellable:
        why = f"it is {action.state}" if action.over else "its commit has begun"
        return refused(Refusal(Why.NOTHING_TO_UNDO, f"action {name} cannot be cancelled: {why}"))
    return Answer(
        Status.ACCEPTED,
        "on its way to the engine",
        told(ports, asked, "cancel", {"action": name}, row.query),
    )


def undo(ports: Ports, asked: Asked) -> Answer:
    """A new proposal, priced and expiring like any other."""
    name = asked.body["action"]
    row = ports.store.actions.find(name)
    if row is None:
        return missing("action", name)
    asked = replace(asked, query=row.query)
    found = picture_of(ports, asked)
    if isinstance(found, Answer):
        return found
    order = str((row.receipt or {}).get("order_before", ""))
    plan = proposals.undone(actions.from_json(row.body), found.snapshot, order)
    if isinstance(plan, Refusal):
        return refused(plan)
    return proposed(ports, asked, plan, undo_of=name)


def drain(ports: Ports, asked: Asked) -> Answer:
    """Everything off a node, to where there is most room; rules bring nothing back to it."""
    found = picture_of(ports, asked)
    if isinstance(found, Answer):
        return found
    node = asked.body["node"]
    plan = proposals.drained(found.snapshot, node, drained_nodes(ports, asked.query))
    if isinstance(plan, Refusal):
        return refused(plan)
    return proposed(ports, asked, plan, note=f"{DRAINS}{node}")


def daily(ports: Ports, asked: Asked) -> Answer:
    now = dict(ports.store.kept.get(BUDGET) or {})
    now |= {name: asked.body[name] for name in ("bytes", "pause_s") if name in asked.body}
    if any(value < 0 for value in now.values()):
        return Answer(Status.INVALID, "a budget cannot be less than nothing")
    ports.store.kept.put(BUDGET, now)
    return Answer(Status.ACCEPTED, "kept", body=asdict(day_budget(ports.store)))


# -- what speaks against a plan ------------------------------------------------------------------------


def judged(
    ports: Ports,
    asked: Asked,
    plan: Plan,
    snapshot: ClusterSnapshot,
    *,
    override: bool = False,
) -> Verdict:
    """The arbiter's word, each step by itself, as they are carried out one after the other; and the day's budget."""
    limits = limits_for(ports, asked, override=override)
    others = running(ports)
    refusals: dict[str, Refusal] = {}
    for step in plan.steps:
        one = replace(plan, steps=(step,), local=False)
        for refusal in arbiter.judge(one, snapshot, others, limits).refusals:
            refusals.setdefault(str(refusal), refusal)
    size = 0 if refusals else sum(arbiter.bytes_now(step, snapshot) for step in plan.steps)
    if size > limits.daily_bytes_left:
        text = "the plan is over what is left of the day's bytes"
        over = Refusal(Why.DAILY_BYTES, text, size, limits.daily_bytes_left)
        refusals.setdefault(str(over), over)
    for refusal in (*_pauses(ports, asked, plan, override), *_to_drained(ports, asked, plan)):
        refusals.setdefault(str(refusal), refusal)
    return Verdict(tuple(refusals.values()))


def limits_for(ports: Ports, asked: Asked, *, override: bool = False) -> Limits:
    """What is left of the day, and whether automation is held. Rules have half of the day at most."""
    automatic = asked.actor.automatic
    held = automatic and on_hold(ports, asked.now_s) is not None
    limits = replace(ON_REQUEST, held=held)
    if override:
        return limits
    return replace(limits, daily_bytes_left=int(left_of_day(ports, asked)[0]))


def left_of_day(ports: Ports, asked: Asked) -> tuple[float, float]:
    """Bytes and seconds of pause that the actor may still use."""
    most = day_budget(ports.store)
    size, pause = most.bytes, most.pause_s
    used = ports.store.actions.used(asked.now_s - DAY_S)
    left = (max(0, size - used.bytes), max(0.0, pause - used.pause_s))
    if not asked.actor.automatic:
        return left
    return (
        max(0, min(left[0], size // 2 - used.automatic_bytes)),
        max(0.0, min(left[1], pause / 2 - used.automatic_pause_s)),
    )


def _pauses(ports: Ports, asked: Asked, plan: Plan, override: bool) -> list[Refusal]:
    if override or not any(isinstance(step, Move) for step in plan.steps):
        return []
    left = left_of_day(ports, asked)[1]
    if left > 0:
        return []
    return [Refusal(Why.DAILY_PAUSE, "the day's seconds of pause are used up", 0, left)]


def _to_drained(ports: Ports, asked: Asked, plan: Plan) -> list[Refusal]:
    """A node that was drained on purpose gets nothing from rules."""
    if not asked.actor.automatic:
        return []
    drained = set(drained_nodes(ports, asked.query))
    targets = {step.target for step in plan.steps if isinstance(step, Move)}
    return [
        Refusal(Why.NODE_DRAINED, f"node {node} was drained", node)
        for node in sorted(targets & drained)
    ]


def on_hold(ports: Ports, now_s: float) -> Mapping[str, Any] | None:
    """Who holds automation, and until when; None while nobody does."""
    held: Mapping[str, Any] | None = ports.store.kept.get(HOLD)
    return held if held and held["until_s"] > now_s else None


def hold(ports: Ports, asked: Asked) -> Answer:
    """No new automatic actions; what runs goes on. It ends by itself unless renewed."""
    seconds = float(asked.body.get("seconds", HOLD_S))
    if not 0 < seconds <= HOLD_S:
        return Answer(Status.INVALID, f"a hold lasts over 0 and at most {HOLD_S:.0f} seconds")
    held = {"until_s": asked.now_s + seconds, "by": str(asked.actor), "since_s": asked.now_s}
    ports.store.kept.put(HOLD, held)
    return Answer(Status.ACCEPTED, "automation is on hold", body=held)


def release(ports: Ports, asked: Asked) -> Answer:
    ports.store.kept.put(HOLD, None)
    return Answer(Status.ACCEPTED, "automation goes on")


HANDLERS: Mapping[str, Handler] = {
    "propose": propose,
    "propose.steps": propose_steps,
    "apply": apply,
    "dismiss": dismiss,
    "cancel": cancel,
    "undo": undo,
    "drain": drain,
    "budget.daily": daily,
    "hold": hold,
    "release": release,
}
