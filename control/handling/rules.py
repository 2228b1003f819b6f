"""Rules: saving their text, switching their mode, dropping them. Evaluating them is loop.py's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from control.charge import rival
from control.handling.base import Handler, Ports, missing
from control.kinds import Answer, Asked, Status
from control.ledger import RuleRow
from control.people import Role
from control.rules import MODES, Rule, rule_from

RULES_MAX = 200


def save(ports: Ports, asked: Asked) -> Answer:
    """Add or change a rule; whoever saves it is in whose name it acts from now on."""
    rule = rule_from(asked.body["text"])
    before = ports.store.rules.find(rule.name)
    if rule.mode == "auto" and asked.actor.role is not Role.ADMIN:
        return Answer(Status.FORBIDDEN, "only admins may save a rule in mode auto")
    if rule.mode == "auto" and (why := _one_in_charge(ports, rule)):
        return Answer(Status.REFUSED, why)
    if before is None and len(ports.store.rules.all()) >= RULES_MAX:
        return Answer(Status.REFUSED, f"there are {RULES_MAX} rules already, the most there may be")
    row = RuleRow(
        rule.name,
        asked.body["text"],
        rule.mode,
        asked.actor.user,
        asked.now_s,
        anchor_s=asked.now_s,
    )
    if before is not None:
        row = replace(row, last_fired_s=before.last_fired_s, last_acted_s=before.last_acted_s)
    ports.store.rules.keep(row)
    return Answer(Status.ACCEPTED, "saved", rule.name)


def _one_in_charge(ports: Ports, rule: Rule) -> str:
    """Why a rule may not be in mode auto: another one has the nodes' own parameters in hand."""
    other = rival(ports.store.rules.all(), rule)
    if not other:
        return ""
    which = "every query" if rule.query == "*" else f"query {rule.query}"
    return (
        f"rule {other} is in mode auto and says how nodes spill and how long rounds are; {rule.name} would say so too, for "
        f"{which}: switch {other} off or to propose first, or give the two different queries"
    )


def mode(ports: Ports, asked: Asked) -> Answer:
    """Off, propose or auto. A rule that comes back counts its interval from now: it does not fire at once."""
    name, wanted = asked.body["rule"], asked.body["mode"]
    row = ports.store.rules.find(name)
    if row is None:
        return missing("rule", name)
    if wanted not in MODES:
        return Answer(Status.INVALID, f"no mode {wanted!r}: one of {', '.join(MODES)}")
    if wanted == "auto" and asked.actor.role is not Role.ADMIN:
        return Answer(Status.FORBIDDEN, "only admins may switch a rule to auto")
    if wanted == "auto" and (why := _one_in_charge(ports, rule_from(row.text))):
        return Answer(Status.REFUSED, why)
    anchor = asked.now_s if row.mode == "off" else row.anchor_s
    editor = asked.actor.user if wanted == "auto" else row.editor
    ports.store.rules.keep(
        replace(row, mode=wanted, editor=editor, changed_s=asked.now_s, anchor_s=anchor)
    )
    return Answer(Status.ACCEPTED, f"{name} is {wanted} now", name)


def drop(ports: Ports, asked: Asked) -> Answer:
    name = asked.body["rule"]
    if not ports.store.rules.drop(name):
        return missing("rule", name)
    return Answer(Status.ACCEPTED, "dropped", name)


HANDLERS: Mapping[str, Handler] = {"rule.save": save, "rule.mode": mode, "rule.drop": drop}
