"""A rule's text while it is written: which line an error means, what to begin with, what may be written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from control.errors import ControlError, RuleError
from control.parameters import Parameter
from control.policies.registry import KINDS, parameters_of
from control.rules import TEXT_MAX, rule_from, rule_to_json

_AT_LINE = re.compile(r"at line (\d+)")
_QUOTED = re.compile(r"(?:key|limit|parameter) '([\w-]+)'")
_KEY = re.compile(r"^\s*([\w-]+)\s*=")
_TABLE = re.compile(r"^\s*\[([\w-]+)\]")


@dataclass(frozen=True, slots=True)
class Checked:
    """A text as it stands: the rule that it says, or what is wrong with it and in which line (from 1)."""

    rule: Mapping[str, Any] = field(default_factory=dict)
    what: str = ""
    where: str = ""
    hint: str = ""
    line: int | None = None

    @property
    def good(self) -> bool:
        return not self.what


def check(text: str) -> Checked:
    if not text.strip():
        return Checked(what="nothing is written yet", hint="choose a policy to begin with")
    try:
        return Checked(rule_to_json(rule_from(text)))
    except RuleError as error:
        return Checked({}, error.what, error.where, error.hint, line_of(error, text))
    except ControlError as error:  # a schedule or a policy says it itself
        return Checked({}, error.what, error.where, error.hint, line_of(error, text))


def line_of(error: ControlError, text: str) -> int | None:
    """Where to look: as the TOML reader says, else where the key stands that is named last."""
    if found := _AT_LINE.search(error.what):
        return min(int(found.group(1)), text.count("\n") + 1)
    names = [name.strip(" `[]") for name in error.where.split(",")[1:]]
    quoted = _QUOTED.search(error.what) or re.search(r"`(\w+)`", error.what)
    table = next((name for name in ("policy", "limits") if f"[{name}]" in error.where), "")
    wanted = quoted.group(1) if quoted else names[-1] if names else ""
    if table == "policy" and wanted == "policy":
        wanted = "name"  # of the policy
    return _find(text, table, wanted) or (_find(text, "", table) if table else None)


def _find(text: str, table: str, key: str) -> int | None:
    """The line of a key in a table, or of the table's head."""
    at, first = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if head := _TABLE.match(line):
            at = head.group(1)
            if at == key or (at == table and key in ("", table)):
                return number
            first = number if at == table else first
        elif at == table and (found := _KEY.match(line)) and found.group(1) == key:
            return number
    return first


def begun(policy: str, query: str) -> str:
    """A rule to begin with: every parameter at its default, with what it is."""
    name = policy if policy in KINDS else next(iter(KINDS))
    lines = [
        f'name = "{name.replace("_", "-")}-rule"',
        'mode = "propose"            # off, propose, auto',
        f'query = "{query or "*"}"'.ljust(28) + '# or "*" for all',
        'every = "30s"               # or cron = "0 3 * * *"',
        'cooldown = "2m"             # after it proposed or did something',
        "",
        "[policy]",
        f'name = "{name}"'.ljust(28) + f"# {KINDS[name].help}",
    ]
    lines += [
        f"{p.name} = {_toml(p.default)}".ljust(28) + f"# {_about(p)}"
        for p in parameters_of(name)
        if p.name != "seed"
    ]
    return "\n".join(lines) + "\n"


def _about(parameter: Parameter) -> str:
    unit = f" {parameter.unit}" if parameter.unit else ""
    endless = "e+" in parameter.range  # a range without end says nothing
    return parameter.help if endless else f"{parameter.help}; {parameter.range}{unit}"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{value:g}" if isinstance(value, float) and value == int(value) else str(value)


def cut(text: Any) -> str:
    """As it comes from a browser."""
    return text[: TEXT_MAX + 1] if isinstance(text, str) else ""
