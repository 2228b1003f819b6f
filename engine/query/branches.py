"""Entries of FROM as sources: a stream, or `(SELECT … FROM a UNION ALL SELECT … FROM b) x`.

A subquery filters and projects single streams; all its branches give the same columns, of the types
to which Spark would widen them. Everything else in parentheses is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from engine.query import infer
from engine.query.clauses import check_select, tables
from engine.query.model import Field, StreamSpec
from engine.query.parse import SqlText, start_of
from engine.query.scope import Branch, Ref, Scope, Source, check_alias, source_of
from engine.query.select import From, Output, conditions, outputs
from engine.query.spark_text import cast, spark_sql

BRANCHES_MAX = 16
_SETS: dict[type[exp.Expr], str] = {exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


@dataclass(frozen=True, slots=True)
class _Read:
    """One SELECT of a subquery: its stream, filter and columns."""

    stream: StreamSpec
    where: str | None
    columns: list[Output]
    node: exp.Expr


def source(text: SqlText, node: exp.Expr, streams: Mapping[str, StreamSpec]) -> Source:
    """What an entry of FROM stands for."""
    if isinstance(node, exp.Table):
        return source_of(text, node, dict(streams))
    alias = node.alias
    if not alias:
        raise text.error("a subquery in FROM needs a name", node, "write (SELECT …) x")
    check_alias(text, alias, node)
    selects = list(_selects(text, node.this))
    if len(selects) > BRANCHES_MAX:
        raise text.error(f"UNION ALL of {len(selects)} SELECTs; the limit is {BRANCHES_MAX}", node)
    reads = [_read(text, one, streams, named=not n) for n, one in enumerate(selects)]
    fields = _fields(text, reads)
    return Source(alias, fields, tuple(_branch(one, fields) for one in reads), start_of(node))


def _selects(text: SqlText, node: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs of a UNION ALL, in order."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Subquery) and not node.alias:
            waiting.append(node.this)
        elif isinstance(node, exp.Union):
            _check_union(text, node)
            waiting += [node.expression, node.this]
        elif type(node) in _SETS:
            raise text.error(f"{_SETS[type(node)]} in FROM is not supported", node)
        else:
            yield check_select(text, node)


def _check_union(text: SqlText, node: exp.Union) -> None:
    if node.args.get("distinct"):
        raise text.error("UNION without ALL is not supported", node.expression, "write UNION ALL")
    for clause, value in node.args.items():
        if value and clause not in ("this", "expression", "distinct"):
            raise text.error(f"{clause.strip('_').upper()} of a UNION ALL is not supported", node)


def _read(
    text: SqlText, select: exp.Select, streams: Mapping[str, StreamSpec], *, named: bool
) -> _Read:
    entries = list(tables(text, select))
    if len(entries) > 1:
        raise text.error(
            "a join within a subquery is not supported", entries[1][0], "join in the outer FROM"
        )
    node = entries[0][0]
    if not isinstance(node, exp.Table):
        raise text.error("a subquery within a subquery is not supported", node, "name a stream")
    own = source_of(text, node, dict(streams))
    scope = Scope(text, (own,))
    found = From(scope, star=[Ref(0, column) for column in own.fields])
    clause = select.args.get("where")
    filters = conditions(scope, clause.this if clause else None, "WHERE")
    where = " AND ".join(spark_sql(term) for term in filters) or None
    columns = outputs(found, select, named=named)
    return _Read(own.branches[0].stream, where, columns, select)


def _fields(text: SqlText, reads: list[_Read]) -> tuple[Field, ...]:
    """The columns of the whole: names from the first SELECT, types that hold all."""
    count = len(reads[0].columns)
    for one in reads[1:]:
        if len(one.columns) != count:
            what = f"this SELECT of a UNION ALL has {len(one.columns)} columns, the first {count}"
            raise text.error(what, one.node, "give all the same columns, in the same order")
    names = [output.name for output in reads[0].columns]
    return tuple(
        Field(name, _type(text, name, [one.columns[n] for one in reads]))
        for n, name in enumerate(names)
    )


def _type(text: SqlText, name: str, given: list[Output]) -> str:
    for output in given:
        if not output.term.type or output.term.type == "interval":
            shown = text.source(output.term.node)
            raise text.error(f"the type of `{shown}` is not known", output.term.node, "CAST it")
    kinds = [output.term.type for output in given]
    if len(set(kinds)) == 1:
        kind = kinds[0]
    else:
        try:
            kind = infer.common(tuple(infer.Kind(kind) for kind in kinds))
        except infer.NotProven as reason:
            what = (
                f"column `{name}` of a UNION ALL is {' and '.join(dict.fromkeys(kinds))}: {reason}"
            )
            raise text.error(what, given[0].term.node) from None
    if kind == "void":
        raise text.error("NULL alone has no type", given[0].term.node, "write CAST(NULL AS type)")
    return kind


def _branch(one: _Read, fields: tuple[Field, ...]) -> Branch:
    terms = [output.term for output in one.columns]
    pairs = zip(terms, fields, strict=True)
    exprs = tuple(cast(spark_sql(term), term.type, column.type) for term, column in pairs)
    names = tuple(term.ref.field.name if term.ref else None for term in terms)
    return Branch(one.stream, exprs, names, one.where)
