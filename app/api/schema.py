"""JSON Schema as far as we need it: builders, and checking a value against one. No dependency.

Checking gives the value back, with whole numbers as ints, and every fault with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

Schema = Mapping[str, Any]
Fault = tuple[str, str]  # where, what

WHOLE_MAX = 2**53 - 1
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@ -]{0,63}$"
ANY_OBJECT: Schema = {"type": "object"}
BOOL: Schema = {"type": "boolean"}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}


def text(most: int = 200, least: int = 0, pattern: str = "", help: str = "") -> Schema:
    found: dict[str, Any] = {"type": "string", "minLength": least, "maxLength": most}
    return _with(found, pattern=pattern, description=help)


def name(help: str = "") -> Schema:
    """Of queries, rules, users, tokens."""
    return text(64, 1, NAME, help)


def whole(low: int = 0, high: int = WHOLE_MAX, help: str = "") -> Schema:
    return _with({"type": "integer", "minimum": low, "maximum": high}, description=help)


def number(low: float = 0.0, high: float = 1e15, help: str = "") -> Schema:
    return _with({"type": "number", "minimum": low, "maximum": high}, description=help)


def one_of(choices: Sequence[str] | type[StrEnum], help: str = "") -> Schema:
    values = [str(getattr(choice, "value", choice)) for choice in choices]
    return _with({"type": "string", "enum": values}, description=help)


def array(items: Schema, most: int | None = None, least: int = 0) -> Schema:
    found: dict[str, Any] = {"type": "array", "items": items}
    found |= {"minItems": least} if least else {}
    return found | ({"maxItems": most} if most is not None else {})


def both(*items: Schema) -> Schema:
    """A list with exactly these items, in this order."""
    return {
        "type": "array",
        "prefixItems": list(items),
        "items": False,
        "minItems": len(items),
        "maxItems": len(items),
    }


def obj(needs: Mapping[str, Schema], may: Mapping[str, Schema] | None = None) -> Schema:
    """An object with exactly these fields: those it needs, those it may have."""
    fields = {**needs, **(may or {})}
    found: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
    return found | ({"required": list(needs)} if needs else {})


def by_name(values: Schema) -> Schema:
    """An object with any keys."""
    return {"type": "object", "additionalProperties": values}


def or_null(schema: Schema) -> Schema:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    found = {**schema, "type": [*kinds, "null"]}
    return found | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})


def page(items: Schema) -> Schema:
    return obj({"items": array(items), "next": or_null(text(200))})


def _with(found: dict[str, Any], **more: str) -> Schema:
    return found | {key: value for key, value in more.items() if value}


def checked(value: Any, schema: Schema, where: str = "body") -> tuple[Any, list[Fault]]:
    """The value as handlers take it, and everything that is wrong with it."""
    faults: list[Fault] = []
    return _checked(value, schema, where, faults), faults


def _checked(value: Any, schema: Schema, where: str, faults: list[Fault]) -> Any:
    wanted = schema.get("type")
    kinds = wanted if isinstance(wanted, list) else [wanted] if wanted else []
    kind = next((kind for kind in kinds if IS[kind](value)), None)
    if kinds and kind is None:
        faults.append((where, f"must be {' or '.join(CALLED[kind] for kind in kinds)}"))
        return value
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(str(item) for item in schema["enum"] if item is not None)
        faults.append((where, f"{str(value)[:80]!r} is none of: {known}"))
        return value
    check = INSIDE.get(kind or "")
    return check(value, schema, where, faults) if check else value


def _number(value: Any, schema: Schema, where: str, faults: list[Fault]) -> Any:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        faults.append((where, f"{str(value)[:40]} is not from {low:,} to {high:,}"))
        return value
    return value


def _whole(value: Any, schema: Schema, where: str, faults: list[Fault]) -> Any:
    low, high = schema.get("minimum", -WHOLE_MAX), schema.get("maximum", WHOLE_MAX)
    if not low <= value <= high:  # before int(): 1e308 is whole, and long
        faults.append((where, f"{str(value)[:40]} is not from {low:,} to {high:,}"))
        return value
    return int(value)


def _text(value: Any, schema: Schema, where: str, faults: list[Fault]) -> Any:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least or (most is not None and len(value) > most):
        faults.append((where, f"has {len(value)} characters, not {least} to {most}"))
    elif "pattern" in schema and not re.fullmatch(schema["pattern"].strip("^$"), value):
        faults.append((where, f"does not match {schema['pattern']}"))
    return value


def _array(value: Any, schema: Schema, where: str, faults: list[Fault]) -> Any:
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < least or (most is not None and len(value) > most):
        faults.append((where, f"has {len(value)} items, not {least} to {most or 'any number'}"))
        return value
    first: Sequence[Schema] = schema.get("prefixItems", ())
    rest: Schema = schema.get("items") or {}
    return [
        _checked(item, first[n] if n < len(first) else rest, f"{where}[{n}]", faults)
        for n, item in enumerate(value)
    ]


def _object(value: Any, schema: Schema, where: str, faults: list[Fault]) -> Any:
    fields: Mapping[str, Schema] = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    missing = [key for key in schema.get("required", ()) if key not in value]
    faults.extend((f"{where}.{key}", "is missing") for key in missing)
    found: dict[str, Any] = {}
    for key, item in value.items():
        if key in fields:
            found[key] = _checked(item, fields[key], f"{where}.{key}", faults)
        elif more is False:
            faults.append((f"{where}.{str(key)[:40]}", f"is not known; known: {', '.join(fields)}"))
        else:
            inside = more if isinstance(more, Mapping) else {}
            found[key] = _checked(item, inside, f"{where}.{str(key)[:40]}", faults)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


IS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
CALLED = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
INSIDE: Mapping[str, Callable[[Any, Schema, str, list[Fault]], Any]] = {
    "string": _text,
    "integer": _whole,
    "number": _number,
    "array": _array,
    "object": _object,
}


def from_text(raw: str, schema: Schema, where: str) -> tuple[Any, list[Fault]]:
    """A parameter, which comes as a text, as its schema says."""
    kind = schema.get("type")
    value: Any = raw
    if kind == "boolean":
        value = {"true": True, "false": False, "1": True, "0": False}.get(raw.lower(), raw)
    elif kind == "array":
        items = [from_text(part, schema["items"], where) for part in raw.split(",") if part]
        value = [item for item, _ in items]
    elif kind in ("integer", "number"):
        value = _number_from(raw, whole=kind == "integer")
    return checked(value, schema, where)


def _number_from(raw: str, *, whole: bool) -> Any:
    if not re.fullmatch(
        r"-?\d{1,16}" if whole else r"-?\d{1,16}(\.\d{1,20})?([eE][+-]?\d{1,3})?", raw
    ):
        return raw
    return int(raw) if whole else float(raw)
