"""A query's SQL, checked and taken apart: `analyse` gives the join's inputs, key and outputs.

Here: how FROM, ON and USING make a scope. Parsing is in parse.py, clauses in clauses.py, entries of FROM
in branches.py, names in scope.py, WHERE and SELECT in select.py, expressions in terms.py; what becomes
of it all in assemble.py.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from engine.query.assemble import assemble
from engine.query.brackets import bind, cut
from engine.query.branches import source
from engine.query.clauses import check_select, tables
from engine.query.duck_text import TooLong
from engine.query.model import JoinQuery, QuerySpec
from engine.query.over import Over, over_of
from engine.query.parse import SqlText, parse
from engine.query.scope import Merged, Ref, Scope, distinct_aliases
from engine.query.select import From, Output, column, conditions, outputs
from engine.query.terms import Term
from engine.query.windows import file_window, stream_windows

STREAMS_MAX = 8


def analyse(spec: QuerySpec) -> JoinQuery:
    """The checked join that the query's SQL describes; SqlError names whatever is refused."""
    text = SqlText(str(spec.file), spec.sql)
    try:
        return _analyse(text, spec)
    except TooLong as error:
        raise text.error(
            "the expression is too deeply nested",
            error.term.node,
            "split it, or compute parts of it before the join",
        ) from None
    except RecursionError:
        raise text.error("the SQL is too deeply nested", 0, "write it with fewer levels") from None


def _analyse(text: SqlText, spec: QuerySpec) -> JoinQuery:
    text, cuts = cut(text)
    select = check_select(text, parse(text), "windows")
    entries = list(tables(text, select))
    over = over_of(text, select)
    found = _read_from(text, entries, spec, least=1 if over else 2)
    windows = bind(text, cuts, [node for node, _ in entries])
    where = select.args.get("where")
    found.conditions += conditions(found.scope, where.this if where else None, "WHERE")
    limits = [*file_window(spec, len(entries)), *stream_windows(windows, len(entries))]
    made = _outputs(found, select, over)
    return assemble(found.scope, spec, limits, found.conditions, made, over)


def _outputs(found: From, select: exp.Select, over: Over | None) -> list[Output]:
    if over is None:
        return outputs(found, select)
    seeing = replace(found, scope=replace(found.scope, over=over.read))
    return outputs(seeing, select)


def _read_from(
    text: SqlText,
    entries: list[tuple[exp.Expr, exp.Join | None]],
    spec: QuerySpec,
    *,
    least: int,
) -> From:
    sources = [source(text, node, spec.streams) for node, _ in entries]
    distinct_aliases(text, [node for node, _ in entries], sources)
    if not least <= len(sources) <= STREAMS_MAX:
        count = f"{len(sources)} stream{'s' * (len(sources) > 1)}"
        what = f"the query reads {count}; a join needs 2 to {STREAMS_MAX}"
        hint = "one stream is enough for window functions: avg(v) OVER (PARTITION BY …)"
        raise text.error(what, entries[-1][0], hint if len(sources) == 1 else "")
    found = From(Scope(text, (sources[0],)))
    found.star = [Ref(0, own) for own in sources[0].fields]
    for position, (_, join) in enumerate(entries[1:], start=1):
        assert join is not None
        left = found.scope
        found.scope = replace(left, sources=(*left.sources, sources[position]))
        right = [Ref(position, own) for own in sources[position].fields]
        if join.args.get("using"):
            _join_using(found, left, join, right)
        else:
            found.star += right
            found.conditions += conditions(found.scope, join.args.get("on"), "ON")
    return found


def _join_using(found: From, left: Scope, join: exp.Join, right: list[Ref]) -> None:
    """USING: equalities, merged names, and Spark's order of `*` (merged columns first)."""
    position = len(left.sources)
    keys = []
    for name in join.args["using"]:
        node = exp.Column(this=name.copy())
        mine = left.resolve(node)
        other = Scope(left.text, (found.scope.sources[position],)).resolve(node)
        theirs = Ref(position, other.field)
        found.conditions.append(
            Term("=", name, (column(mine, name), column(theirs, name)), type="boolean")
        )
        found.scope = replace(found.scope, merged=_merge(found.scope.merged, mine, theirs))
        keys.append((mine, theirs))
    mine_all, theirs_all = [k[0] for k in keys], [k[1] for k in keys]
    found.star = (
        mine_all
        + [ref for ref in found.star if ref not in mine_all]
        + [ref for ref in right if ref not in theirs_all]
    )


def _merge(merged: tuple[Merged, ...], mine: Ref, theirs: Ref) -> tuple[Merged, ...]:
    known = next((m for m in merged if mine in m.refs), None)
    if known is None:
        return (*merged, Merged(mine.field.name, (mine, theirs)))
    grown = replace(known, refs=(*known.refs, theirs))
    return tuple(grown if m is known else m for m in merged)
