"""Parameters of policies: named, with default, range, unit and help; read from a TOML table.

A parameter set is a frozen dataclass whose fields are made by `number`, `whole`, `choice` and `flag`. The
console renders `describe`; `parse` refuses what is unknown or out of range, naming what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from control.errors import PolicyError

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as a person reads it."""

    name: str
    default: Any
    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.low is None or self.high is None:
            return "true or false"
        return f"{self.low:g} to {self.high:g}"


def number(default: float, low: float, high: float, help: str, unit: str = "") -> Any:
    meta = {"kind": float, "low": low, "high": high, "help": help, "unit": unit}
    return field(default=default, metadata=meta)


def whole(default: int, low: int, high: int, help: str, unit: str = "") -> Any:
    meta = {"kind": int, "low": low, "high": high, "help": help, "unit": unit}
    return field(default=default, metadata=meta)


def choice(default: str, choices: Sequence[str], help: str) -> Any:
    return field(
        default=default, metadata={"kind": str, "choices": tuple(choices), "help": help, "unit": ""}
    )


def flag(default: bool, help: str) -> Any:
    return field(default=default, metadata={"kind": bool, "help": help, "unit": ""})


def describe(kind: type[Any]) -> tuple[Parameter, ...]:
    """A parameter set's rows, in order."""
    return tuple(
        Parameter(
            item.name,
            item.default,
            item.metadata["help"],
            item.metadata["unit"],
            item.metadata.get("low"),
            item.metadata.get("high"),
            item.metadata.get("choices", ()),
        )
        for item in fields(kind)
        if "kind" in item.metadata
    )


def parse(kind: type[P], table: Mapping[str, Any], where: str) -> P:
    """A parameter set from a TOML table."""
    known = {item.name: item.metadata for item in fields(kind) if "kind" in item.metadata}  # type: ignore[arg-type]
    for name in table:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known) or 'none'}"
            raise PolicyError(f"no parameter {name!r}", where=where, hint=hint)
    return kind(
        **{name: _checked(value, known[name], f"{where}, {name}") for name, value in table.items()}
    )


def _checked(value: Any, meta: Mapping[str, Any], where: str) -> Any:
    kind = meta["kind"]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        wanted = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
        raise PolicyError(f"{value!r} is not {wanted[kind]}", where=where)
    if "low" in meta and not meta["low"] <= value <= meta["high"]:
        raise PolicyError(
            f"{value:g} is out of range", where=where, hint=f"{meta['low']:g} to {meta['high']:g}"
        )
    if "choices" in meta and value not in meta["choices"]:
        raise PolicyError(
            f"{value!r} is not known", where=where, hint=f"one of {', '.join(meta['choices'])}"
        )
    return value
