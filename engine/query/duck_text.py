"""Checked expressions as DuckDB SQL over the joined row, giving what Spark in ANSI mode gives.

Every operand is first cast to the type in which Spark would compute. Not here: what is allowed
(infer.py); a term without a type never gets this far.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.query.casts import duck_cast
from engine.query.infer import Kind, common
from engine.query.scope import Ref
from engine.query.terms import Term
from engine.query.types import INTEGERS, decimal_of, duck_type

ColumnName = Callable[[Ref], str]
_RAISING = ("+", "-", "*", "/", "div", "%", "neg", "cast", "call")


SQL_CHARS_MAX = 100_000


class TooLong(ValueError):
    """Operands are written out several times; nested deeply, that multiplies."""

    def __init__(self, term: Term) -> None:
        self.term = term
        super().__init__(f"more than {SQL_CHARS_MAX} characters")


def duck_sql(term: Term, column: ColumnName) -> str:
    """DuckDB SQL; `column` gives a column's id in the joined row."""
    found = _duck_sql(term, column)
    if len(found) > SQL_CHARS_MAX:
        raise TooLong(term)
    return found


def _duck_sql(term: Term, column: ColumnName) -> str:
    if term.ref:
        return quote(column(term.ref))
    if term.op == "literal":
        return _literal(term)
    if term.op == "interval":
        return term.value
    if term.op == "window":
        return quote(term.value)
    args = [duck_sql(arg, column) for arg in term.args]
    if term.op == "call":
        return _call(term, args)
    maker = _MAKERS.get(term.op)
    return maker(term, args) if maker else _comparison(term, args)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(term: Term) -> str:
    if term.type == "string":
        return "'" + term.value.replace("'", "''") + "'"
    if term.type in ("boolean", "void"):
        return term.value.upper()
    return f"CAST('{term.value}' AS {duck_type(term.type)})"


def _to(term: Term, sql: str, target: str) -> str:
    if term.type == "void":
        return f"CAST(NULL AS {duck_type(target)})" if duck_type(target) else "NULL"
    return duck_cast(sql, term.type, target)


def _all_to(term: Term, args: list[str], target: str) -> list[str]:
    return [_to(arg, sql, target) for arg, sql in zip(term.args, args, strict=True)]


def _common(terms: tuple[Term, ...]) -> str:
    return common(tuple(Kind(t.type) for t in terms))


def _comparison(term: Term, args: list[str]) -> str:
    left, right = _all_to(term, args, _common(term.args))
    sign = {"<=>": "IS NOT DISTINCT FROM"}.get(term.op, term.op)
    return f"({left} {sign} {right})"


def _in(term: Term, args: list[str]) -> str:
    first, *rest = _all_to(term, args, _common(term.args))
    return f"({first} IN ({', '.join(rest)}))"


def _arithmetic(term: Term, args: list[str]) -> str:
    if term.type.startswith("decimal"):
        return _decimal(term, args)
    if term.type.startswith("timestamp"):
        return f"({args[0]} {term.op} {args[1]})"
    left, right = _all_to(term, args, term.type)
    return f"({left} {term.op} {right})"


def _decimal(term: Term, args: list[str]) -> str:
    """Sums are computed in the result's type; products in their own, which cannot overflow."""
    if term.op == "*":
        parts = _factors(term, args)
    else:
        parts = _all_to(term, args, term.type)
    return f"CAST(({parts[0]} {term.op} {parts[1]}) AS {duck_type(term.type)})"


def _factors(term: Term, args: list[str]) -> list[str]:
    """Two decimals of up to 18 digits make DuckDB compute in 18, unless one has more."""
    digits = [_own_digits(factor) for factor in term.args]
    if max(digits)[0] <= 18 < digits[0][0] + digits[1][0]:
        digits[0] = (19, digits[0][1])
    kinds = [f"decimal({precision},{scale})" for precision, scale in digits]
    return [_to(t, sql, kind) for t, sql, kind in zip(term.args, args, kinds, strict=True)]


def _own_digits(term: Term) -> tuple[int, int]:
    if term.op == "literal" and term.type in INTEGERS:
        return max(1, len(term.value.lstrip("-"))), 0
    return decimal_of(term.type) or (38, 0)


def _divided(term: Term, args: list[str]) -> str:
    """Division by zero is an error in Spark; DuckDB would give NULL or infinity."""
    kind = "bigint" if term.op == "div" else term.type
    left, right = _all_to(term, args, kind)
    sign = {"div": "//"}.get(term.op, term.op)
    if term.op == "%" and kind in INTEGERS:
        result = (
            f"CASE WHEN {right} = -1 THEN CAST(0 AS {duck_type(kind)}) ELSE {left} % {right} END"
        )
        result = f"CASE WHEN {left} IS NOT NULL THEN {result} END"
    else:
        result = f"{left} {sign} {right}"
    if _is_nonzero_literal(term.args[1]):
        return f"({result})"
    return (
        f"(CASE WHEN {right} = 0 AND {left} IS NOT NULL THEN error('division by zero') "
        f"ELSE {result} END)"
    )


def _is_nonzero_literal(term: Term) -> bool:
    return term.op == "literal" and term.type != "void" and float(term.value) != 0


def _negated(term: Term, args: list[str]) -> str:
    kind = duck_type(term.type)
    if term.type in INTEGERS:
        return f"(CAST(0 AS {kind}) - {args[0]})"
    return f"CAST(-{args[0]} AS {kind})"


def _and_or(term: Term, args: list[str]) -> str:
    """As in Spark, the right side of AND and OR is not computed where the left side decides."""
    left, right = _all_to(term, args, "boolean")
    plain = f"({left} {term.op.upper()} {right})"
    if not any(t.op in _RAISING for t in term.args[1].walk()):
        return plain
    if term.op == "and":
        return f"(CASE WHEN NOT {left} THEN FALSE ELSE {plain} END)"
    return f"(CASE WHEN {left} THEN TRUE ELSE {plain} END)"


def _case(term: Term, args: list[str]) -> str:
    pairs = len(args) // 2
    tests = [_to(term.args[2 * i], args[2 * i], "boolean") for i in range(pairs)]
    values = [_to(term.args[2 * i + 1], args[2 * i + 1], term.type) for i in range(pairs)]
    whens = [f"WHEN {test} THEN {value}" for test, value in zip(tests, values, strict=True)]
    rest = [f"ELSE {_to(term.args[-1], args[-1], term.type)}"] if len(args) % 2 else []
    return f"(CASE {' '.join(whens + rest)} END)"


def _bits(term: Term, args: list[str]) -> str:
    left, right = _all_to(term, args, term.type)
    return f"xor({left}, {right})" if term.op == "^" else f"({left} {term.op} {right})"


_MAKERS: dict[str, Callable[[Term, list[str]], str]] = {
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "/": _divided,
    "div": _divided,
    "%": _divided,
    "neg": _negated,
    "and": _and_or,
    "or": _and_or,
    "in": _in,
    "case": _case,
    "&": _bits,
    "|": _bits,
    "^": _bits,
    "~": lambda term, args: f"(~{args[0]})",
    "not": lambda term, args: f"(NOT {_to(term.args[0], args[0], 'boolean')})",
    "is null": lambda term, args: f"({args[0]} IS NULL)",
    "is": lambda term, args: f"({_to(term.args[0], args[0], 'boolean')} IS {term.value.upper()})",
    "cast": lambda term, args: _to(term.args[0], args[0], term.type),
    "||": lambda term, args: f"({' || '.join(args)})",
    "like": lambda term, args: f"({args[0]} LIKE {args[1]})",
}


def _call(term: Term, args: list[str]) -> str:
    maker = _CALLS.get(term.value)
    if maker:
        return maker(term, args)
    return f"CAST({term.value}({', '.join(args)}) AS {duck_type(term.type)})"


def _of_common(term: Term, args: list[str]) -> str:
    return f"{term.value}({', '.join(_all_to(term, args, term.type))})"


def _extreme(term: Term, args: list[str]) -> str:
    """Of 0.0 and -0.0 Spark keeps the first; DuckDB's greatest and least do not."""
    if term.type not in ("float", "double"):
        return _of_common(term, args)
    one, two = _all_to(term, args, term.type)
    sign = ">" if term.value == "greatest" else "<"
    return f"(CASE WHEN {one} IS NULL OR {two} {sign} {one} THEN {two} ELSE {one} END)"


def _nullif(term: Term, args: list[str]) -> str:
    left, right = _all_to(term, args, _common(term.args))
    return f"(CASE WHEN {left} = {right} THEN NULL ELSE {args[0]} END)"


def _nvl2(term: Term, args: list[str]) -> str:
    yes, no = (_to(term.args[i], args[i], term.type) for i in (1, 2))
    return f"(CASE WHEN {args[0]} IS NOT NULL THEN {yes} ELSE {no} END)"


def _substring(term: Term, args: list[str]) -> str:
    """Spark counts a negative start from the end, and cuts what lies before the beginning."""
    text, at = args[0], f"CAST({args[1]} AS BIGINT)"
    first = (
        f"(CASE WHEN {at} > 0 THEN {at} - 1 WHEN {at} < 0 THEN length({text}) + {at} ELSE 0 END)"
    )
    if len(args) == 2:
        return _unless_null(args, f"substring({text}, greatest({first}, 0) + 1)")
    count = f"CAST({args[2]} AS BIGINT)"
    kept = f"greatest({first} + {count} - greatest({first}, 0), 0)"
    return _unless_null(args, f"substring({text}, greatest({first}, 0) + 1, {kept})")


def _unless_null(args: list[str], sql: str) -> str:
    """`sql`, or NULL if an argument is NULL (greatest() and CASE pass over NULLs)."""
    tests = " AND ".join(f"{arg} IS NOT NULL" for arg in args[1:])
    return f"(CASE WHEN {tests} THEN {sql} END)"


def _part(name: str, shift: int = 0) -> Callable[[Term, list[str]], str]:
    def maker(term: Term, args: list[str]) -> str:
        return (
            f"CAST({name}({args[0]}) + {shift} AS INTEGER)"
            if shift
            else f"CAST({name}({args[0]}) AS INTEGER)"
        )

    return maker


def _side(term: Term, args: list[str]) -> str:
    sql = f"{term.value}({args[0]}, greatest(CAST({args[1]} AS BIGINT), 0))"
    return _unless_null(args, sql)


_CALLS: dict[str, Callable[[Term, list[str]], str]] = {
    "coalesce": _of_common,
    "greatest": _extreme,
    "least": _extreme,
    "if": _case,
    "nullif": _nullif,
    "nvl2": _nvl2,
    "substring": _substring,
    "left": _side,
    "right": _side,
    "concat": lambda term, args: f"({' || '.join(args)})",
    "negative": _negated,
    "length": lambda term, args: (
        f"CAST({'octet_length' if term.args[0].type == 'binary' else 'length'}({args[0]}) "
        "AS INTEGER)"
    ),
    "dayofweek": _part("dayofweek", 1),
    "weekday": _part("isodow", -1),
    "date_add": lambda term, args: f"CAST({args[0]} + CAST({args[1]} AS INTEGER) AS DATE)",
    "date_sub": lambda term, args: f"CAST({args[0]} - CAST({args[1]} AS INTEGER) AS DATE)",
    "datediff": lambda term, args: f"CAST({args[0]} - {args[1]} AS INTEGER)",
}
