"""A rule: which policy, for which query, when, within which limits, and whether it only proposes or acts.

    name = "relocate"
    mode = "propose"              # off, propose, auto
    query = "*"                   # or one query's name
    every = "15s"                 # or cron = "0 3 * * *"; Flux's policies are due whenever a round ends
    zone = "Europe/Berlin"        # of cron and quiet hours; UTC where nothing is said
    cooldown = "45s"              # after it proposed or did something
    quiet = ["22:00-06:00"]
    needs_gain = true             # auto: only what is likely to gain; false: as the papers' policies decide
    least_gain = 2.0              # times its cost
    least_confidence = 0.8        # P(gain > 0)

    [policy]
    name = "relocate"             # with its parameters
    ratio = 0.8

    [limits]
    action_bytes_max = "50MB"

Text in, a frozen value out; nothing here knows a clock or a store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from enum import StrEnum
from importlib.resources import files
from typing import Any

from control.cost.coefficients import LocalRule
from control.errors import PolicyError, RuleError, TomlError
from control.limits import Limits
from control.parameters import describe
from control.policies.registry import KINDS, Policy, policy_from
from control.schedule import Quiet, Schedule, checked
from control.snapshot import NO_LIMIT
from control.toml import read_toml
from control.units import seconds, size_bytes

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
TEXT_MAX = 20_000
QUIET_MAX = 8
COOLDOWN_S = 60.0


class Mode(StrEnum):
    OFF = "off"
    PROPOSE = "propose"
    AUTO = "auto"


MODES = tuple(mode.value for mode in Mode)


@dataclass(frozen=True)
class Rule:
    """As written. `limits` are its own; what a day allows comes on top when it is judged."""

    name: str
    mode: Mode
    query: str
    schedule: Schedule
    policy: Policy
    limits: Limits
    cooldown_s: float = COOLDOWN_S
    quiet: tuple[Quiet, ...] = ()
    needs_gain: bool = True
    least_gain: float = 2.0
    least_confidence: float = 0.8
    text: str = ""

    @property
    def zone(self) -> str:
        return self.schedule.zone

    def covers(self, query: str) -> bool:
        return self.query in ("*", query)


KEYS = (
    "name",
    "mode",
    "query",
    "every",
    "cron",
    "zone",
    "cooldown",
    "quiet",
    "needs_gain",
    "least_gain",
    "least_confidence",
    "policy",
    "limits",
)
LIMITS = ("action_bytes_max", "receiver_fill_max", "steps_max", "cooldown_s")


def rule_from(text: str, where: str = "rule") -> Rule:
    """RuleError says what is wrong, where, and what would be right."""
    if len(text) > TEXT_MAX:
        raise RuleError(
            "the text is too long", where=where, hint=f"at most {TEXT_MAX:,} characters"
        )
    try:
        table = read_toml(text)
    except TomlError as error:
        raise RuleError(error.what, where=where) from None
    _known(table, KEYS, where, "key")
    name = _name(table, where)
    where = f"{where} {name}"
    return Rule(
        name,
        _mode(table.get("mode", "propose"), where),
        _query(table.get("query", "*"), where),
        _schedule(table, where),
        _policy(table, where),
        _limits(table.get("limits", {}), f"{where}, [limits]"),
        seconds(table.get("cooldown", COOLDOWN_S), f"{where}, cooldown"),
        _quiet(table.get("quiet", []), f"{where}, quiet"),
        _flag(table.get("needs_gain", True), f"{where}, needs_gain"),
        _number(table.get("least_gain", 2.0), 0.0, 1e6, f"{where}, least_gain"),
        _number(table.get("least_confidence", 0.8), 0.0, 1.0, f"{where}, least_confidence"),
        text,
    )


def shipped_rules() -> list[Rule]:
    """What comes with a new installation; none of them acts before somebody says so."""
    found = sorted(files("control.shipped").iterdir(), key=lambda path: path.name)
    texts = [(path.name, path.read_text()) for path in found if path.name.endswith(".toml")]
    return [rule_from(text, f"shipped rule {name}") for name, text in texts]


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """For people and the API: everything that the rule says, defaults too."""
    schedule = rule.schedule
    return {
        "name": rule.name,
        "mode": rule.mode.value,
        "query": rule.query,
        "every_s": schedule.every_s,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "cooldown_s": rule.cooldown_s,
        "quiet": [str(span) for span in rule.quiet],
        "needs_gain": rule.needs_gain,
        "least_gain": rule.least_gain,
        "least_confidence": rule.least_confidence,
        "policy": policy_to_json(rule.policy),
        "limits": {
            name: value
            for name, value in asdict(rule.limits).items()
            if name in LIMITS and value != NO_LIMIT
        },
    }


def policy_to_json(policy: Policy) -> dict[str, Any]:
    """Its name, and each parameter with value, range, unit and help."""
    return {
        "name": policy.name,
        "help": policy.help,
        "parameters": [
            {
                "name": p.name,
                "value": getattr(policy, p.name),
                "default": p.default,
                "unit": p.unit,
                "range": p.range,
                "help": p.help,
            }
            for p in describe(type(policy))
        ],
    }


def node_rule(rule: Rule) -> LocalRule:
    """The nodes' own spill rule, as this rule's policy describes it."""
    threshold = getattr(rule.policy, "threshold", 0.9)
    return LocalRule(float(threshold), float(getattr(rule.policy, "spill_percent", 30.0)))


def _known(table: Mapping[str, Any], names: tuple[str, ...], where: str, kind: str) -> None:
    for name in table:
        if name not in names:
            close = get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
            raise RuleError(f"no {kind} {name!r}", where=where, hint=hint)


def _name(table: Mapping[str, Any], where: str) -> str:
    name = table.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        hint = "small letters, digits, - and _, at most 63"
        raise RuleError(f"`name` cannot be {name!r}", where=where, hint=hint)
    return name


def _mode(value: Any, where: str) -> Mode:
    if value not in list(Mode):
        close = get_close_matches(str(value), list(Mode), 1)
        hint = f"did you mean {close[0]}? " if close else ""
        hint += f"one of {', '.join(Mode)}"
        raise RuleError(f"`mode` cannot be {value!r}", where=where, hint=hint)
    return Mode(value)


def _query(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        hint = 'a query\'s name, or "*" for all'
        raise RuleError(f"`query` cannot be {value!r}", where=where, hint=hint)
    return value


def _schedule(table: Mapping[str, Any], where: str) -> Schedule:
    every, cron, zone = table.get("every"), table.get("cron"), table.get("zone", "UTC")
    if (every is None) == (cron is None):
        what = "needs `every` or `cron`" if every is None else "has `every` and `cron`: one of them"
        raise RuleError(what, where=where, hint='for example every = "15s", or cron = "0 3 * * *"')
    for name, value in (("cron", cron), ("zone", zone)):
        if value is not None and not isinstance(value, str):
            raise RuleError(f"{value!r} is not a text", where=f"{where}, {name}")
    every_s = None if every is None else seconds(every, f"{where}, every")
    return checked(Schedule(every_s, cron, zone), where)


def _policy(table: Mapping[str, Any], where: str) -> Policy:
    raw = table.get("policy")
    where = f"{where}, [policy]"
    if not isinstance(raw, Mapping) or "name" not in raw:
        hint = f'[policy]\n  name = "relocate"\n  known: {", ".join(KINDS)}'
        raise RuleError("needs a table [policy] with its `name`", where=where, hint=hint)
    rest = {name: value for name, value in raw.items() if name != "name"}
    try:
        return policy_from({"policy": raw["name"], **rest}, where)
    except PolicyError as error:
        raise RuleError(error.what, where=error.where, hint=error.hint) from error


def _limits(raw: Any, where: str) -> Limits:
    if not isinstance(raw, Mapping):
        raise RuleError("is not a table", where=where)
    _known(raw, LIMITS, where, "limit")
    values: dict[str, Any] = {}
    if "action_bytes_max" in raw:
        at = f"{where}, action_bytes_max"
        values["action_bytes_max"] = size_bytes(raw["action_bytes_max"], at)
    if "cooldown_s" in raw:
        values["cooldown_s"] = seconds(raw["cooldown_s"], f"{where}, cooldown_s")
    if "receiver_fill_max" in raw:
        at = f"{where}, receiver_fill_max"
        values["receiver_fill_max"] = _number(raw["receiver_fill_max"], 0.0, 1.0, at)
    if "steps_max" in raw:
        values["steps_max"] = int(_number(raw["steps_max"], 1, 1000, f"{where}, steps_max"))
    return Limits(**values)


def _quiet(raw: Any, where: str) -> tuple[Quiet, ...]:
    if not isinstance(raw, list) or len(raw) > QUIET_MAX:
        hint = 'for example quiet = ["22:00-06:00"]'
        raise RuleError(f"is not a list of at most {QUIET_MAX} spans", where=where, hint=hint)
    return tuple(Quiet.parse(text, where) for text in raw)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise RuleError(f"{value!r} is not true or false", where=where)
    return value


def _number(value: Any, low: float, high: float, where: str) -> float:
    if type(value) not in (int, float) or not low <= value <= high:
        raise RuleError(f"{value!r} is out of range", where=where, hint=f"{low:g} to {high:g}")
    return float(value)
