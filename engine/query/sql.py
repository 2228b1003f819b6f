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
from engine.query.common_tables import inline
from engine.query.duck_text import TooLong
from engine.query.model import JoinQuery, QuerySpec
from engine.query.over import Over, over_of
from engine.query.parse import SqlText, parse, start_of
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
    select = check_select(text, parse(text), "windows", "with_")
    entries = list(tables(text, select))
    over = over_of(text, select)
    found = _read_from(text, select, entries, spec)
    windows = bind(text, cuts, [node for node, _ in entries])
    where = select.args.get("where")
    found.conditions += conditions(found.scope, where.this if where else None, "WHERE")
    limits = [*file_window(spec, len(entries)), *stream_windows(windows, len(entries))]
    made = _outputs(found, select, over)
    if len(entries) == 1 and over is None:
        what = f"the query reads one stream, `{found.scope.sources[0].alias}`"
        hint = "one stream is enough for window functions: avg(v) OVER (PARTITION BY …)"
        raise text.error(f"{what}; a join needs 2 to {STREAMS_MAX}", entries[0][0], hint)
    return assemble(found.scope, spec, limits, found.conditions, made, over)


def _outputs(found: From, select: exp.Select, over: Over | None) -> list[Output]:
    if over is None:
        return outputs(found, select)
    seeing = replace(found, scope=replace(found.scope, over=over.read))
    return outputs(seeing, select)


def _read_from(
    text: SqlText,
    select: exp.Select,
    entries: list[tuple[exp.Expr, exp.Join | None]],
    spec: QuerySpec,
) -> From:
    nodes = [node for node, _ in entries]
    if len(nodes) > STREAMS_MAX:
        what = f"the query reads {len(nodes)} streams; a join needs 2 to {STREAMS_MAX}"
        raise text.error(what, nodes[STREAMS_MAX])
    inlined = zip(inline(text, select, nodes), nodes, strict=True)
    sources = [replace(source(text, n, spec.streams), at=start_of(own)) for n, own in inlined]
    distinct_aliases(text, nodes, sources)
    found = From(Scope(text, (sources[0],)))
    found.star = [Ref(0, own) for own in sources[0].fields]
    for position, (_, join) in enumerate(entries[1:], start=1):
        assert join is not None
        left = found.scope
        found.scope = replace(left, sources=(*left.sources, sources[position]))
        right = [Ref(position, own) for own in sources[position].fields]
        shared = join.args.get("using") or _common_columns(found, join, right)
        if shared:
            _join_using(found, left, shared, right)
        else:
            found.star += right
            found.conditions += conditions(found.scope, join.args.get("on"), "ON")
    return found


def _common_columns(found: From, join: exp.Join, right: list[Ref]) -> list[exp.Expr]:
    """The columns that NATURAL stands for: all that both sides have, in the order of the left side."""
    if not join.args.get("method"):
        return []
    text, start = found.scope.text, start_of(join.this)
    theirs = {ref.field.name.lower() for ref in right}
    shared = [ref.field.name for ref in found.star if ref.field.name.lower() in theirs]
    if not shared:
        what = f"NATURAL JOIN: `{found.scope.sources[-1].alias}` shares no column with the others"
        raise text.error(what, start, "write JOIN b ON a.k = b.k")
    columns: list[exp.Expr] = [exp.to_identifier(name) for name in shared]
    for column_name in columns:
        column_name.meta.update(start=start, end=start)
    return columns


def _join_using(found: From, left: Scope, shared: list[exp.Expr], right: list[Ref]) -> None:
    """USING: equalities, merged names, and Spark's order of `*` (merged columns first)."""
    position = len(left.sources)
    keys = []
    for name in shared:
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
