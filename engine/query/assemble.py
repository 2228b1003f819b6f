"""From conditions and outputs to the join: each condition where it belongs, and only the columns that
are needed afterwards.

Conditions become keys (keys.py), windows (windows.py), filters of one stream, or a filter over the
joined row. Reading the SQL is sql.py's business.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from engine.errors import QueryFileError
from engine.query.duck_text import duck_sql
from engine.query.grouping import (
    group_query,
    group_terms,
    group_times,
    ordered,
    with_group_key,
)
from engine.query.keys import Equality, Keys, find_keys
from engine.query.model import (
    Field,
    JoinInput,
    JoinQuery,
    OutputColumn,
    QuerySpec,
    Tree,
    key_id,
    time_id,
)
from engine.query.order import BadOrder, default_order, read_order
from engine.query.over import Over
from engine.query.scope import Branch, Ref, Scope, Source
from engine.query.select import Output
from engine.query.spark_text import column_in, quote, spark_sql
from engine.query.terms import Term, refusal, typed
from engine.query.types import NoSuchType, arrow_type
from engine.query.windows import Limit, closed, condition_windows, time_column, timed


def assemble(
    scope: Scope,
    spec: QuerySpec,
    limits: list[Limit],
    conditions: list[Term],
    outputs: list[Output],
    over: Over | None = None,
) -> JoinQuery:
    """The checked join; `limits` are the windows that are not conditions, `over` the window functions."""
    written, conditions = condition_windows(scope, conditions)
    equal = {id(term): _equality(term) for term in conditions}
    others = [term for term in conditions if not equal[id(term)]]
    keys = find_keys(scope, [e for e in equal.values() if e], others)
    bounds = closed(scope, spec, [*limits, *written])
    single, several = _apart(conditions, equal, keys)
    used = (*several, *(output.term for output in outputs), *(group_terms(over) if over else ()))
    for term in used:
        _check_after(scope, term)
    times = group_times(scope, over, bounds) if over else timed(bounds)
    order = _order(scope, spec, keys)
    alone = over is not None and len(scope.sources) == 1
    columns = _Columns(scope, with_group_key(keys, over) if over and alone else keys, times, used)
    where = duck_sql(reduce(_both, several), columns.id) if several else None
    inputs = [_input(columns, i, single) for i in range(len(scope.sources))]
    return JoinQuery(
        tuple(ordered(given, alone=alone) for given in inputs) if over else tuple(inputs),
        tuple(_output_column(columns, output) for output in outputs),
        where,
        bounds,
        order,
        group_query(scope, over, columns.id) if over else None,
    )


def _apart(
    conditions: list[Term], equal: dict[int, Equality | None], keys: Keys
) -> tuple[list[Term], list[Term]]:
    """Conditions on one input, and those over the joined row."""
    rest = {id(equality) for equality in keys.rest}
    single = [t for t in conditions if not equal[id(t)] and len(t.inputs) < 2]
    several = [
        t for t in conditions if (id(equal[id(t)]) in rest if equal[id(t)] else len(t.inputs) > 1)
    ]
    return single, several


def _order(scope: Scope, spec: QuerySpec, keys: Keys) -> Tree | None:
    if spec.join_order is None or len(scope.sources) == 1:
        return default_order(keys.spans, len(scope.sources))
    try:
        return read_order(spec.join_order, [s.alias for s in scope.sources], keys.spans)
    except BadOrder as bad:
        where = f"{spec.file}: join_order column {bad.at + 1}"
        raise QueryFileError(bad.what, where=where, hint=bad.hint) from None


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
        what = f"cannot evaluate `{shown}` over the joined row: {culprit.why}"
        raise scope.text.error(what, culprit.node, _before_the_join(scope, culprit))
    if term.type == "void":
        raise scope.text.error("NULL alone has no type", term.node, "write CAST(NULL AS type)")
    try:
        arrow_type(term.type)
    except NoSuchType as reason:
        raise scope.text.error(f"`{scope.text.source(term.node)}`: {reason}", term.node) from None


def _before_the_join(scope: Scope, culprit: Term) -> str:
    """How a subquery in FROM computes what concerns one stream only."""
    by_spark = culprit.op in ("call", "cast", "try_cast", "rlike", "ilike", "like")
    if len(culprit.inputs) != 1 or not by_spark:
        return ""
    source = scope.sources[min(culprit.inputs)]
    if len(source.branches) > 1 or source.branches[0].exprs:
        return "compute it in the subquery in FROM, with CAST(… AS type)"
    stream = source.branches[0].stream.name
    return (
        f"compute it before the join, as one more column: FROM (SELECT *, CAST(… AS type) AS x "
        f"FROM {stream}) {source.alias}"
    )


class _Columns:
    """How columns are called in the joined row, and which travel there."""

    def __init__(
        self, scope: Scope, keys: Keys, timed: frozenset[int], after: tuple[Term, ...]
    ) -> None:
        self.scope, self.keys, self.timed = scope, keys, timed
        self.used = {term.ref for root in after for term in root.walk() if term.ref}

    def key_part(self, ref: Ref) -> int | None:
        """The key class that has this column's very value and type."""
        for found in self.keys.classes:
            same = [t for t in found.members.get(ref.input, []) if t.ref == ref]
            if same and found.type == ref.field.type:
                return found.number
        return None

    def is_time(self, ref: Ref) -> bool:
        """Whether the column travels as the input's event time anyway."""
        named = time_column(self.scope.sources[ref.input]) == ref.field.name
        return named and ref.input in self.timed

    def id(self, ref: Ref) -> str:
        alias = self.scope.sources[ref.input].alias
        part = self.key_part(ref)
        if part is not None:
            return key_id(part)
        return time_id(alias) if self.is_time(ref) else f"{alias}.{ref.field.name}"

    def payload(self, position: int) -> tuple[Field, ...]:
        refs = [Ref(position, column) for column in self.scope.sources[position].fields]
        return tuple(
            ref.field
            for ref in refs
            if ref in self.used and self.key_part(ref) is None and not self.is_time(ref)
        )


def _input(columns: _Columns, position: int, single: list[Term]) -> JoinInput:
    source = columns.scope.sources[position]
    first, *more = [_branch_input(columns, position, single, b) for b in source.branches]
    return replace(first, more=tuple(more))


def _branch_input(
    columns: _Columns, position: int, single: list[Term], branch: Branch
) -> JoinInput:
    """One of the streams under an alias, as it enters the join."""
    source = columns.scope.sources[position]
    payload = columns.payload(position)
    column = column_in(source, branch)
    filters = [branch.where] if branch.where else []
    filters += [spark_sql(t, column) for t in single if min(t.inputs, default=0) == position]
    for found in columns.keys.classes:
        filters += found.extra_filters(position, source, branch)
    classes = [found for found in columns.keys.classes if position in found.members]
    return JoinInput(
        source.alias,
        branch.stream.name,
        tuple(found.part(position, source, branch) for found in classes),
        payload,
        " AND ".join(filters) or None,
        branch.stream.time if position in columns.timed else None,
        _exprs(source, branch, position, payload),
    )


def _exprs(
    source: Source, branch: Branch, position: int, payload: tuple[Field, ...]
) -> tuple[str, ...]:
    """What each payload column is in this stream; nothing where all go by their own names."""
    texts = tuple(column_in(source, branch)(Ref(position, column)) for column in payload)
    plain = tuple(quote(column.name) for column in payload)
    return () if texts == plain else texts


def _output_column(columns: _Columns, output: Output) -> OutputColumn:
    term = output.term
    if term.ref:
        return OutputColumn(output.name, term.type, source=columns.id(term.ref))
    if term.op == "window":
        return OutputColumn(output.name, term.type, source=term.value)
    return OutputColumn(output.name, term.type, expr=duck_sql(term, columns.id))
