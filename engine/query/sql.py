"""A query's SQL, checked and taken apart: `analyse` gives the join's inputs, key and outputs.

Here: what FROM, ON, USING, WHERE and SELECT say. Parsing is in parse.py, clauses in clauses.py, names
in scope.py, expressions in terms.py; what becomes of it all in assemble.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from engine.query.assemble import Output, assemble
from engine.query.clauses import check_select, conjuncts, tables
from engine.query.duck_text import TooLong
from engine.query.model import JoinQuery, QuerySpec
from engine.query.parse import SqlText, parse
from engine.query.scope import Merged, Ref, Scope, distinct_aliases, source_of
from engine.query.terms import Term, build

STREAMS_MAX = 8


@dataclass(slots=True)
class _From:
    """FROM and ON as they are read: the scope so far, conditions, and the columns of `*`."""

    scope: Scope
    conditions: list[Term] = field(default_factory=list)
    star: list[Ref] = field(default_factory=list)


def analyse(spec: QuerySpec) -> JoinQuery:
    """The checked join that the query's SQL describes; SqlError names whatever is refused."""
    text = SqlText(str(spec.file), spec.sql)
    try:
        return _analyse(text, spec)
    except TooLong as error:
        raise text.error("the expression is too deeply nested", error.term.node,
                         "split it, or compute parts of it before the join") from None
    except RecursionError:
        raise text.error("the SQL is too deeply nested", 0, "write it with fewer levels") from None


def _analyse(text: SqlText, spec: QuerySpec) -> JoinQuery:
    select = check_select(text, parse(text))
    found = _read_from(text, select, spec)
    where = select.args.get("where")
    found.conditions += _conditions(found.scope, where.this if where else None, "WHERE")
    outputs = list(_outputs(found, select))
    _check_names(text, outputs, select)
    return assemble(found.scope, spec, found.conditions, outputs)


def _read_from(text: SqlText, select: exp.Select, spec: QuerySpec) -> _From:
    entries = list(tables(text, select))
    sources = [source_of(text, table, dict(spec.streams)) for table, _ in entries]
    distinct_aliases(text, [table for table, _ in entries], sources)
    if not 2 <= len(sources) <= STREAMS_MAX:
        raise text.error(f"the query reads {len(sources)} stream{'s' * (len(sources) > 1)}; "
                         f"a join needs 2 to {STREAMS_MAX}", entries[-1][0])
    found = _From(Scope(text, (sources[0],)))
    found.star = [Ref(0, column) for column in sources[0].fields]
    for position, (_, join) in enumerate(entries[1:], start=1):
        assert join is not None
        left = found.scope
        found.scope = replace(left, sources=(*left.sources, sources[position]))
        right = [Ref(position, column) for column in sources[position].fields]
        if join.args.get("using"):
            _join_using(found, left, join, right)
        else:
            found.star += right
            found.conditions += _conditions(found.scope, join.args.get("on"), "ON")
    return found


def _join_using(found: _From, left: Scope, join: exp.Join, right: list[Ref]) -> None:
    """USING: equalities, merged names, and Spark's order of `*` (merged columns first)."""
    position = len(left.sources)
    keys = []
    for name in join.args["using"]:
        node = exp.Column(this=name.copy())
        mine = left.resolve(node)
        other = Scope(left.text, (found.scope.sources[position],)).resolve(node)
        theirs = Ref(position, other.field)
        found.conditions.append(Term("=", name, (_column(mine, name), _column(theirs, name)),
                                     type="boolean"))
        found.scope = replace(found.scope, merged=_merge(found.scope.merged, mine, theirs))
        keys.append((mine, theirs))
    mine_all, theirs_all = [k[0] for k in keys], [k[1] for k in keys]
    found.star = mine_all + [ref for ref in found.star if ref not in mine_all] \
        + [ref for ref in right if ref not in theirs_all]


def _column(ref: Ref, node: exp.Expr) -> Term:
    return Term("column", node, ref=ref, type=ref.field.type)


def _merge(merged: tuple[Merged, ...], mine: Ref, theirs: Ref) -> tuple[Merged, ...]:
    known = next((m for m in merged if mine in m.refs), None)
    if known is None:
        return (*merged, Merged(mine.field.name, (mine, theirs)))
    grown = replace(known, refs=(*known.refs, theirs))
    return tuple(grown if m is known else m for m in merged)


def _conditions(scope: Scope, node: exp.Expr | None, clause: str) -> list[Term]:
    found = []
    for part in conjuncts(node):
        term = build(part, scope)
        if term.type not in ("boolean", "void", ""):
            raise scope.text.error(f"{clause} needs a boolean, and "
                                   f"`{scope.text.source(part)}` is {term.type}", part)
        if not (isinstance(part, exp.Boolean) and part.this):
            found.append(term)
    return found


def _outputs(found: _From, select: exp.Select) -> Iterator[Output]:
    scope = found.scope
    for node in select.expressions:
        star = node if isinstance(node, exp.Star) else node.this
        if isinstance(star, exp.Star) and isinstance(node, exp.Star | exp.Column):
            yield from _star(found, node, star)
            continue
        inner = (node.this if isinstance(node, exp.Alias) else node).unnest()
        term = build(inner, scope)
        if not isinstance(node, exp.Alias) and not isinstance(inner, exp.Column):
            raise scope.text.error(f"`{scope.text.source(node)}` needs a name", node,
                                   "write: expression AS name")
        yield Output(node.alias if isinstance(node, exp.Alias) else inner.name, term)


def _star(found: _From, node: exp.Expr, star: exp.Star) -> Iterator[Output]:
    scope = found.scope
    if any(star.args.values()):
        raise scope.text.error("* EXCEPT or REPLACE is not supported", node, "list the columns")
    refs = found.star
    if isinstance(node, exp.Column):
        position = scope.find_source(node.table)
        if position is None:
            names = ", ".join(source.alias for source in scope.sources)
            raise scope.text.error(f"there is no stream `{node.table}` in FROM", node,
                                   f"in FROM are: {names}")
        refs = [Ref(position, column) for column in scope.sources[position].fields]
    for ref in refs:
        yield Output(ref.field.name, _column(ref, node))


def _check_names(text: SqlText, outputs: list[Output], select: exp.Select) -> None:
    seen: set[str] = set()
    for output in outputs:
        if output.name.lower() in seen:
            raise text.error(f"two output columns are named `{output.name}`", output.term.node,
                             f"give one another name: … AS {output.name}_2")
        seen.add(output.name.lower())
    if not outputs:
        raise text.error("SELECT has no columns", select)
