"""A query's SQL, checked and taken apart: `analyse` gives the join's inputs, key and outputs.

Here: how FROM, ON, USING, WHERE and SELECT come together. Parsing is in parse.py, clauses in
clauses.py, names in scope.py, expressions in terms.py, keys in keys.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from engine.errors import QueryFileError
from engine.query.clauses import check_select, conjuncts, tables
from engine.query.duck_text import TooLong, duck_sql
from engine.query.keys import Equality, Keys, find_keys
from engine.query.model import JoinInput, JoinQuery, OutputColumn, QuerySpec, key_id
from engine.query.parse import SqlText, parse
from engine.query.scope import Merged, Ref, Scope, distinct_aliases, source_of
from engine.query.spark_text import spark_sql
from engine.query.terms import Term, build, refusal, typed
from engine.query.types import NoSuchType, arrow_type

STREAMS_MAX = 8


@dataclass(slots=True)
class _From:
    """FROM and ON as they are read: the scope so far, conditions, and the columns of `*`."""

    scope: Scope
    conditions: list[Term] = field(default_factory=list)
    star: list[Ref] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Output:
    name: str
    term: Term


def analyse(spec: QuerySpec) -> JoinQuery:
    """The checked join that the query's SQL describes; SqlError names whatever is refused."""
    text = SqlText(str(spec.file), spec.sql)
    if spec.window_s is not None:  # to ignore it would give other results without a word
        raise QueryFileError("windows are not supported yet", where=f"{spec.file}: window",
                             hint="leave `window` out; the join then keeps all its input")
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
    return _assemble(found, outputs)


def _read_from(text: SqlText, select: exp.Select, spec: QuerySpec) -> _From:
    entries = list(tables(text, select))
    sources = [source_of(text, table, dict(spec.streams)) for table, _ in entries]
    distinct_aliases(text, [table for table, _ in entries], sources)
    if not 2 <= len(sources) <= STREAMS_MAX:
        raise text.error(f"the query reads {len(sources)} stream{'s' * (len(sources) > 1)}; "
                         f"a join needs 2 to {STREAMS_MAX}", entries[-1][0])
    found = _From(Scope(text, (sources[0],)))
    found.star = [Ref(0, column) for column in sources[0].stream.fields]
    for position, (_, join) in enumerate(entries[1:], start=1):
        assert join is not None
        left = found.scope
        found.scope = replace(left, sources=(*left.sources, sources[position]))
        right = [Ref(position, column) for column in sources[position].stream.fields]
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


def _outputs(found: _From, select: exp.Select) -> Iterator[_Output]:
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
        yield _Output(node.alias if isinstance(node, exp.Alias) else inner.name, term)


def _star(found: _From, node: exp.Expr, star: exp.Star) -> Iterator[_Output]:
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
        refs = [Ref(position, column) for column in scope.sources[position].stream.fields]
    for ref in refs:
        yield _Output(ref.field.name, _column(ref, node))


def _check_names(text: SqlText, outputs: list[_Output], select: exp.Select) -> None:
    seen: set[str] = set()
    for output in outputs:
        if output.name.lower() in seen:
            raise text.error(f"two output columns are named `{output.name}`", output.term.node,
                             f"give one another name: … AS {output.name}_2")
        seen.add(output.name.lower())
    if not outputs:
        raise text.error("SELECT has no columns", select)


def _assemble(found: _From, outputs: list[_Output]) -> JoinQuery:
    """Each condition where it belongs, and only the columns that are needed afterwards."""
    scope = found.scope
    equal = [_equality(term) for term in found.conditions]
    keys = find_keys(scope, [e for e in equal if e])
    rest = {id(e) for e in keys.rest}
    single = [t for t, e in zip(found.conditions, equal, strict=True) if not e and len(t.inputs) < 2]
    several = [t for t, e in zip(found.conditions, equal, strict=True)
               if (e and id(e) in rest) or (not e and len(t.inputs) > 1)]
    for term in (*several, *(output.term for output in outputs)):
        _check_after(scope, term)
    columns = _Columns(scope, keys, (*several, *(output.term for output in outputs)))
    where = duck_sql(reduce(_both, several), columns.id) if several else None
    return JoinQuery(tuple(_input(columns, i, single) for i in range(len(scope.sources))),
                     tuple(_output_column(columns, output) for output in outputs), where)


def _both(left: Term, right: Term) -> Term:
    """AND as one term, so that what the left side excludes does not reach the right side."""
    return typed(Term("and", right.node, (left, right)))


def _equality(term: Term) -> Equality | None:
    """The term as an equality of two inputs, if it is one."""
    if term.op != "=":
        return None
    left, right = term.args
    if len(left.inputs) == len(right.inputs) == 1 and left.inputs != right.inputs:
        return Equality(left, right)
    return None


def _check_after(scope: Scope, term: Term) -> None:
    """Refuses what cannot be evaluated over the joined row exactly as Spark would."""
    culprit = refusal(term)
    if culprit:
        shown = scope.text.source(culprit.node)
        raise scope.text.error(f"cannot evaluate `{shown}` over the joined row: {culprit.why}",
                               culprit.node)
    if term.type == "void":
        raise scope.text.error("NULL alone has no type", term.node, "write CAST(NULL AS type)")
    try:
        arrow_type(term.type)
    except NoSuchType as reason:
        raise scope.text.error(f"`{scope.text.source(term.node)}`: {reason}", term.node) from None


class _Columns:
    """How columns are called in the joined row, and which travel there."""

    def __init__(self, scope: Scope, keys: Keys, after: tuple[Term, ...]) -> None:
        self.scope, self.keys = scope, keys
        self.used = {term.ref for root in after for term in root.walk() if term.ref}

    def key_part(self, ref: Ref) -> int | None:
        """The key part that has this column's very value and type."""
        for number, found in enumerate(self.keys.classes):
            same = [t for t in found.members[ref.input] if t.ref == ref]
            if same and found.type == ref.field.type:
                return number
        return None

    def id(self, ref: Ref) -> str:
        part = self.key_part(ref)
        return f"{self.scope.sources[ref.input].alias}.{ref.field.name}" if part is None \
            else key_id(part)


def _input(columns: _Columns, position: int, single: list[Term]) -> JoinInput:
    source = columns.scope.sources[position]
    payload = tuple(column for column in source.stream.fields
                    if Ref(position, column) in columns.used
                    and columns.key_part(Ref(position, column)) is None)
    filters = [spark_sql(t) for t in single if min(t.inputs, default=0) == position]
    for found in columns.keys.classes:
        filters += found.extra_filters(position)
    return JoinInput(source.alias, source.stream.name,
                     tuple(found.part(position) for found in columns.keys.classes),
                     payload, " AND ".join(filters) or None)


def _output_column(columns: _Columns, output: _Output) -> OutputColumn:
    term = output.term
    if term.ref:
        return OutputColumn(output.name, term.type, source=columns.id(term.ref))
    return OutputColumn(output.name, term.type, expr=duck_sql(term, columns.id))
