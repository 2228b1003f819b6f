"""The types that Spark 4 (ANSI mode) gives expressions, for the operators and functions that may
run after the exchange.

What is not here is not proven, hence not evaluated by us: `NotProven` says why, in words that fit
after "cannot evaluate … over the joined row: ". tests/engine/query/test_against_spark.py checks
every line of this module against Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.query.functions import POST
from engine.query.types import INTEGERS, decimal_of, duck_type

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_FLOATS = ("float", "double")


class NotProven(ValueError):
    """We cannot prove what Spark gives here."""


class Kind(NamedTuple):
    """An argument as inference sees it: its type, and its value if it is a literal."""

    type: str
    literal: str | None = None


def number_type(text: str) -> str:
    """The type of a numeric literal; "" if it has too many digits."""
    if "e" in text.lower():
        return "double"
    if (
        "." not in text and len(text) <= 20
    ):  # more digits fit no whole type, and may be too many for int()
        value = int(text)
        if -(1 << 31) <= value < 1 << 31:
            return "int"
        if -(1 << 63) <= value < 1 << 63:
            return "bigint"
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = max(len(whole.lstrip("0")) + len(fraction), 1, len(fraction))
    return f"decimal({digits},{len(fraction)})" if digits <= 38 else ""


def type_of(op: str, value: str, args: tuple[Kind, ...]) -> str:
    """The type of an operator or function applied to these arguments."""
    if op == "call":
        return _call(value, args)
    if op in ("cast", "try_cast"):
        return _cast(op, value, args[0])
    if op in _COMPARISONS or op == "in":
        common(args)
        return "boolean"
    rule = _RULES.get(op)
    if rule is None:
        raise NotProven(f"{op.upper()} is allowed on one stream only, in WHERE or ON")
    return rule(op, args)


def common(args: tuple[Kind, ...]) -> str:
    """The one type to which Spark brings these arguments, to compare or to choose among them."""
    found = [arg for arg in args if arg.type != "void"]
    if not found:
        return "void"
    result = found[0]
    for other in found[1:]:
        result = Kind(_common(result, other))
    if duck_type(result.type) is None:
        raise NotProven(f"type {result.type} is not supported in expressions")
    return result.type


def _common(one: Kind, two: Kind) -> str:
    left, right = one.type, two.type
    if left == right:
        return left
    if {left, right} <= set(_TIMES):
        return _common_time(left, right)
    if _is_number(left) and _is_number(right):
        return _common_number(left, right)
    raise NotProven(f"{left} and {right} have no common type; CAST one of them")


def _common_time(left: str, right: str) -> str:
    if "date" not in (left, right):
        raise NotProven(f"{left} and {right} do not mix; CAST one of them")
    return left if right == "date" else right


def _common_number(left: str, right: str) -> str:
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if left in _FLOATS or right in _FLOATS:
        return "double"
    one, two = decimal_of(left), decimal_of(right)
    assert one and two
    scale = max(one[1], two[1])
    return _decimal(max(one[0] - one[1], two[0] - two[1]) + scale, scale)


def _decimal(precision: int, scale: int) -> str:
    if precision > 38:
        raise NotProven(
            f"the result needs decimal({precision},{scale}), and 38 digits are the "
            "limit; CAST to fewer digits"
        )
    return f"decimal({precision},{scale})"


def _is_number(kind: str) -> bool:
    return kind in _FLOATS or decimal_of(kind) is not None


def _arithmetic(op: str, args: tuple[Kind, ...]) -> str:
    left, right = args
    if "interval" in (left.type, right.type):
        return _shifted(op, left.type, right.type)
    if not (_is_number(left.type) and _is_number(right.type)):
        raise NotProven(f"{left.type} {op} {right.type} is not supported")
    kinds = {left.type, right.type}
    if kinds <= set(INTEGERS):
        return _common_number(left.type, right.type)
    if kinds & set(_FLOATS):
        return "float" if kinds == {"float"} else "double"
    return _decimal_arithmetic(op, _digits(left), _digits(right))


def _shifted(op: str, left: str, right: str) -> str:
    """A time plus or minus an interval."""
    kind = left if right == "interval" else right
    swapped = left == "interval"
    if kind in ("timestamp", "timestamp_ntz") and (op == "+" or (op == "-" and not swapped)):
        return kind
    raise NotProven(f"{left} {op} {right} is not supported")


def _digits(kind: Kind) -> tuple[int, int]:
    """Precision and scale; a whole-number literal counts its own digits only."""
    if kind.literal is not None and kind.type in INTEGERS:
        return max(1, len(kind.literal.lstrip("-"))), 0
    found = decimal_of(kind.type)
    assert found
    return found


def _decimal_arithmetic(op: str, one: tuple[int, int], two: tuple[int, int]) -> str:
    if op == "*":
        return _decimal(one[0] + two[0] + 1, one[1] + two[1])
    if op not in "+-":
        raise NotProven(f"decimals with {op} are not supported yet; CAST both to double")
    scale = max(one[1], two[1])
    return _decimal(max(one[0] - one[1], two[0] - two[1]) + scale + 1, scale)


def _divide(op: str, args: tuple[Kind, ...]) -> str:
    if any(arg.type.startswith("decimal") for arg in args):
        raise NotProven(f"decimals with {op} are not supported yet; CAST both to double")
    _arithmetic(op, args)
    return "double"


def _whole_divide(op: str, args: tuple[Kind, ...]) -> str:
    if any(arg.type not in INTEGERS for arg in args):
        raise NotProven("DIV is supported for whole numbers only")
    return "bigint"


def _boolean(op: str, args: tuple[Kind, ...]) -> str:
    for arg in args:
        if arg.type not in ("boolean", "void"):
            raise NotProven(f"{op.upper()} needs a boolean, not {arg.type}")
    return "boolean"


def _any_to_boolean(op: str, args: tuple[Kind, ...]) -> str:
    return "boolean"


def _bits(op: str, args: tuple[Kind, ...]) -> str:
    if any(arg.type not in INTEGERS for arg in args):
        raise NotProven(f"{op} is supported for whole numbers only")
    return common(args)


def _negate(op: str, args: tuple[Kind, ...]) -> str:
    if not _is_number(args[0].type):
        raise NotProven(f"-{args[0].type} is not supported")
    return args[0].type


def _strings(op: str, args: tuple[Kind, ...]) -> str:
    for arg in args:
        if arg.type != "string":
            raise NotProven(f"{op} of {arg.type} is not supported; CAST it to string")
    return "string"


def _like(op: str, args: tuple[Kind, ...]) -> str:
    _strings("LIKE", args)
    if args[1].literal is None or "\\" in args[1].literal:
        raise NotProven("LIKE is supported with a plain pattern without backslashes only")
    return "boolean"


def _case(op: str, args: tuple[Kind, ...]) -> str:
    pairs = len(args) // 2
    _boolean("WHEN", tuple(args[2 * i] for i in range(pairs)))
    values = tuple(args[2 * i + 1] for i in range(pairs))
    return common(values + args[2 * pairs :])


_RULES: dict[str, Callable[[str, tuple[Kind, ...]], str]] = {
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "%": _arithmetic,
    "/": _divide,
    "div": _whole_divide,
    "neg": _negate,
    "and": _boolean,
    "or": _boolean,
    "not": _boolean,
    "is": _boolean,
    "is null": _any_to_boolean,
    "&": _bits,
    "|": _bits,
    "^": _bits,
    "~": _bits,
    "||": _strings,
    "like": _like,
    "case": _case,
}


def _cast(op: str, target: str, arg: Kind) -> str:
    from engine.query.casts import castable

    if op == "try_cast":
        raise NotProven("TRY_CAST is allowed on one stream only, in WHERE or ON")
    if not castable(arg.type, target, arg.literal):
        raise NotProven(f"CAST of {arg.type} to {target} is not supported")
    return target


def _call(name: str, args: tuple[Kind, ...]) -> str:
    if name not in POST:
        raise NotProven(f"function {name} is allowed on one stream only, in WHERE or ON")
    rule, counts = _CALLS[name]
    if len(args) not in counts:
        raise NotProven(f"{name} does not take {len(args)} arguments")
    return rule(name, args)


def _needs(*wanted: tuple[str, ...], result: str) -> Callable[[str, tuple[Kind, ...]], str]:
    """A rule: argument i must be of one of the types wanted[i]."""

    def rule(name: str, args: tuple[Kind, ...]) -> str:
        for arg, kinds in zip(args, wanted, strict=False):
            if arg.type not in kinds:
                raise NotProven(f"{name} of {arg.type} is not supported")
        return result

    return rule


def _of_common(name: str, args: tuple[Kind, ...]) -> str:
    return common(args)


def _extreme(name: str, args: tuple[Kind, ...]) -> str:
    found = common(args)
    if found in _FLOATS and len(args) > 2:
        raise NotProven(f"{name} of more than two {found}s is not supported; nest it")
    return found


def _nullif(name: str, args: tuple[Kind, ...]) -> str:
    common(args)
    return args[0].type


def _nvl2(name: str, args: tuple[Kind, ...]) -> str:
    return common(args[1:])


def _if(name: str, args: tuple[Kind, ...]) -> str:
    return _case("case", args)


_TEXT, _WHOLE = ("string",), ("tinyint", "smallint", "int")
_ANY_COUNT = range(1, 256)
_PART = (_needs(_TIMES, result="int"), range(1, 2))
_CLOCK = (_needs(("timestamp", "timestamp_ntz"), result="int"), range(1, 2))
_TRIM = (_needs(_TEXT, result="string"), range(1, 2))
_DAYS = (_needs(("date",), _WHOLE, result="date"), range(2, 3))
_CALLS: dict[str, tuple[Callable[[str, tuple[Kind, ...]], str], range]] = {
    "abs": (_negate, range(1, 2)),
    "negative": (_negate, range(1, 2)),
    "coalesce": (_of_common, _ANY_COUNT),
    "greatest": (_extreme, range(2, 256)),
    "least": (_extreme, range(2, 256)),
    "nullif": (_nullif, range(2, 3)),
    "nvl2": (_nvl2, range(3, 4)),
    "if": (_if, range(3, 4)),
    "concat": (_strings, _ANY_COUNT),
    "length": (_needs(("string", "binary"), result="int"), range(1, 2)),
    "trim": _TRIM,
    "ltrim": _TRIM,
    "rtrim": _TRIM,
    "left": (_needs(_TEXT, _WHOLE, result="string"), range(2, 3)),
    "right": (_needs(_TEXT, _WHOLE, result="string"), range(2, 3)),
    "substring": (_needs(_TEXT, _WHOLE, _WHOLE, result="string"), range(2, 4)),
    "year": _PART,
    "quarter": _PART,
    "month": _PART,
    "day": _PART,
    "dayofweek": _PART,
    "dayofyear": _PART,
    "weekday": _PART,
    "hour": _CLOCK,
    "minute": _CLOCK,
    "second": _CLOCK,
    "date_add": _DAYS,
    "date_sub": _DAYS,
    "datediff": (_needs(("date",), ("date",), result="int"), range(2, 3)),
}
