"""Checked expressions as Spark SQL over one stream's own columns (unqualified, backquoted)."""

from __future__ import annotations

from collections.abc import Callable

from engine.query.scope import Branch, Ref, Source
from engine.query.terms import Term

_CALL_SIGNS = {"neg": "-", "not": "NOT ", "~": "~"}


def own_column(ref: Ref) -> str:
    """A stream's column under its own name."""
    return quote(ref.field.name)


def column_in(source: Source, branch: Branch) -> Callable[[Ref], str]:
    """How the columns of an entry of FROM are computed in one of its streams."""
    if not branch.exprs:
        return own_column
    return lambda ref: branch.exprs[source.fields.index(ref.field)]


def spark_sql(term: Term, column: Callable[[Ref], str] = own_column) -> str:
    """Spark SQL that Spark's parser reads back as the same expression."""
    if term.ref:
        return column(term.ref)
    if term.op == "literal":
        return text(term.value) if term.type == "string" else term.value
    if term.op == "interval":
        return term.value
    args = [spark_sql(arg, column) for arg in term.args]
    if term.op in ("cast", "try_cast"):
        return f"{term.op.upper()}({args[0]} AS {term.value})"
    if term.op == "call":
        return f"{term.value}({', '.join(args)})"
    if term.op == "case":
        return _case(args)
    if term.op == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if term.op == "is null":
        return f"({args[0]} IS NULL)"
    if term.op == "is":
        return f"({args[0]} IS {term.value.upper()})"
    if term.op in _CALL_SIGNS:
        return f"({_CALL_SIGNS[term.op]}{args[0]})"
    return f"({args[0]} {term.op.upper()} {args[1]})"


def cast(sql: str, source: str, target: str) -> str:
    """The cast that brings a key part to the common type."""
    return sql if source == target else f"CAST({sql} AS {target})"


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A string literal; backslashes and quotes escaped as Spark's parser wants them."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _case(args: list[str]) -> str:
    pairs = len(args) // 2
    branches = [f"WHEN {args[2 * i]} THEN {args[2 * i + 1]}" for i in range(pairs)]
    rest = [f"ELSE {args[-1]}"] if len(args) % 2 else []
    return f"(CASE {' '.join(branches + rest)} END)"
