"""What a run of a query is told about adaptation: a policy file (`--adapt`) and a script (`--script`).

policy = "lazy_disk"          [[at]]
span_s = 10                   tick = 12
interval_s = 1                do = "move"
hold = false                  node = 0
[limits]                      to = 1
action_bytes_max = "50MB"     percent = 20
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from control.conduct import Conduct, conduct_of
from control.errors import ControlError, TomlError
from control.limits import OPEN, Limits
from control.plans import AUTO
from control.policies.local_spill import LocalSpill
from control.policies.none import Nothing
from control.policies.registry import Policy as Kind
from control.policies.registry import policy_from
from control.requests import Request
from control.toml import read_toml_file
from engine.errors import SettingError
from engine.query.values import size_bytes

DO = ("spill", "cleanup", "move", "budget", "migrate", "cancel")
KEYS = {
    "tick": int,
    "do": str,
    "operator": str,
    "groups": list,
    "percent": (int, float),
    "node": int,
    "to": int,
    "bytes": (int, str),
    "join_order": str,
    "strategy": str,
}


@dataclass(frozen=True, slots=True)
class Command:
    """A line of a script: what to do before which tick."""

    tick: int
    request: Request


@dataclass
class Policy:
    """The policy, its limits, and the commands that are still to come."""

    kind: Kind = field(default_factory=LocalSpill)
    limits: Limits = OPEN
    interval_s: float = 1.0
    hold: bool = False  # moves in the paper's order: hold first, copy then
    commands: list[Command] = field(default_factory=list)
    minute_s: float = 0.0  # experiments: a tick takes so long, for whoever decides
    patient: bool = False  # experiments: no tick begins while a side job runs

    @property
    def conduct(self) -> Conduct:
        """What nodes do by themselves, and how rounds go."""
        return conduct_of(self.kind) or Conduct()

    @property
    def decides(self) -> bool:
        """Whether this policy moves anything, and not somebody else."""
        return not isinstance(self.kind, LocalSpill | Nothing)

    def due(self, tick: int) -> list[Request]:
        """The commands for this tick and earlier ones, once."""
        now = [command for command in self.commands if command.tick <= tick]
        self.commands = [command for command in self.commands if command.tick > tick]
        return [command.request for command in now]


def load(adapt: Path | None, script: Path | None) -> Policy:
    """From files; SettingError says what is wrong in which."""
    policy = _adapt(adapt) if adapt else Policy()
    if script:
        policy.commands = _script(script)
    return policy


def _table(path: Path) -> dict[str, Any]:
    try:
        return read_toml_file(path)
    except TomlError as error:
        raise SettingError(error.what, where=str(path), hint=error.hint) from None


def _adapt(path: Path) -> Policy:
    table = _table(path)
    interval = _number(table.pop("interval_s", 1.0), 0.0, f"{path}, interval_s")
    hold = table.pop("hold", False)
    if not isinstance(hold, bool):
        raise SettingError("must be true or false", where=f"{path}, hold")
    limits = _limits(table.pop("limits", {}), path)
    try:
        return Policy(policy_from(table, str(path)), limits, interval, hold)
    except ControlError as error:
        raise SettingError(error.what, where=error.where, hint=error.hint) from error


def _limits(raw: Any, path: Path) -> Limits:
    known = {f.name: f for f in fields(Limits)}
    where = f"{path}, [limits]"
    if not isinstance(raw, Mapping):
        raise SettingError("must be a table", where=where)
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if name not in known:
            raise SettingError(f"no limit {name!r}", where=where, hint=f"known: {', '.join(known)}")
        if name.startswith(("action_bytes", "daily_bytes")):
            values[name] = _bytes(value, f"{where}, {name}")
        elif name == "held":
            values[name] = bool(value)
        else:
            number = _number(value, 0.0, f"{where}, {name}")
            values[name] = int(number) if name == "steps_max" else number
    return Limits(**values)


def _script(path: Path) -> list[Command]:
    table = _table(path)
    rows = table.pop("at", None)
    if table or not isinstance(rows, list) or not rows:
        raise SettingError(
            "a script has [[at]] tables and nothing else",
            where=str(path),
            hint='[[at]]\n  tick = 3\n  do = "spill"\n  node = 0\n  percent = 30',
        )
    commands = [_command(row, f"{path}, [[at]] number {n}") for n, row in enumerate(rows, start=1)]
    return sorted(commands, key=lambda command: command.tick)


def _command(row: Any, where: str) -> Command:
    if not isinstance(row, Mapping):
        raise SettingError("must be a table", where=where)
    for name, value in row.items():
        if name not in KEYS:
            raise SettingError(f"no key {name!r}", where=where, hint=f"known: {', '.join(KEYS)}")
        if not isinstance(value, KEYS[name]) or isinstance(value, bool):  # type: ignore[arg-type]
            raise SettingError(f"{name} cannot be {value!r}", where=where)
    if "tick" not in row or row.get("do") not in DO:
        raise SettingError("needs `tick` and `do`", where=where, hint=f"do: one of {', '.join(DO)}")
    if row["do"] not in ("cancel", "migrate") and "node" not in row:
        raise SettingError("needs `node`", where=where, hint="the node that it is about")
    groups = row.get("groups")
    if groups is not None and not all(type(g) is int for g in groups):
        raise SettingError("groups are numbers", where=where)
    size = _bytes(row["bytes"], f"{where}, bytes") if "bytes" in row else None
    if row["do"] == "budget" and size is None:
        raise SettingError("needs `bytes`", where=where, hint='for example bytes = "100MB"')
    request = Request(
        row["do"],
        row.get("node", 0),
        row.get("to"),
        row.get("operator"),
        tuple(groups) if groups is not None else None,
        row.get("percent"),
        size,
        row.get("join_order"),
        row.get("strategy", AUTO),
    )
    return Command(row["tick"], request)


def _bytes(value: Any, where: str) -> int:
    size = value if type(value) is int else size_bytes(value) if isinstance(value, str) else None
    if size is None or size < 0:
        raise SettingError(f"{value!r} is not a size", where=where, hint='for example "50MB"')
    return size


def _number(value: Any, least: float, where: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < least:
        raise SettingError(f"{value!r} is not a number of at least {least:g}", where=where)
    return float(value)
