"""What window functions need from the streams: their key, their order to the last tie, their arguments.

Reading them is over.py's; here they are brought together with the join below them, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from engine.query.duck_text import duck_sql
from engine.query.keys import KeyClass, Keys
from engine.query.model import (
    Aggregate,
    Bound,
    Field,
    GroupQuery,
    JoinInput,
    OutputColumn,
    offset_id,
    time_id,
)
from engine.query.over import Over
from engine.query.scope import Ref, Scope
from engine.query.select import column
from engine.query.terms import Term


def group_terms(over: Over) -> list[Term]:
    """What window functions read, as terms: arguments and key columns."""
    assert over.order_at is not None
    arguments = [call.argument for call in over.calls if call.argument is not None]
    return [*arguments, *(column(ref, over.order_at) for ref in over.key)]


def with_group_key(keys: Keys, over: Over) -> Keys:
    """The key classes; of a single stream those of PARTITION BY."""
    assert over.order_at is not None
    terms = [column(ref, over.order_at) for ref in over.key]
    classes = [KeyClass(n, {0: [term]}, term.type) for n, term in enumerate(terms)]
    return replace(keys, classes=tuple(classes))


def group_times(scope: Scope, over: Over, bounds: tuple[Bound, ...]) -> frozenset[int]:
    """The inputs whose event time matters: all. Every other input must be held near the ordering one by
    a window; otherwise it could still join a row that is as old as you like, and no result is final."""
    assert over.time is not None
    first = over.time.input
    near = {bound.late for bound in bounds if bound.early == first}
    for position, source in enumerate(scope.sources):
        if position != first and position not in near:
            name = scope.sources[first].alias
            what = (
                f"no window says how much later than {name} a row of {source.alias} may come, "
                "so that no result over the joined rows would ever be final"
            )
            hint = 'give the query a window = "…", or bound the times in ON'
            raise scope.text.error(what, over.order_at, hint)
    return frozenset(range(len(scope.sources)))


def group_query(scope: Scope, over: Over, name: Callable[[Ref], str]) -> GroupQuery:
    """The window functions over columns by their ids in the joined row."""
    assert over.time is not None
    alias = scope.sources[over.time.input].alias
    arguments: list[OutputColumn] = []
    aggregates = []
    for call in over.calls:
        term, argument = call.argument, None
        if term is not None and term.ref:
            argument = name(term.ref)
        elif term is not None:
            argument = f"~{call.id}"
            arguments.append(OutputColumn(argument, term.type, expr=duck_sql(term, name)))
        aggregates.append(Aggregate(call.id, call.function, argument, call.frame, call.type))
    return GroupQuery(
        tuple(Field(name(ref), ref.field.type) for ref in over.key),
        time_id(alias),
        tuple(part for part in _order(scope) if part != time_id(alias)),
        tuple(aggregates),
        tuple(arguments),
    )


def _order(scope: Scope) -> Iterator[str]:
    """(time, stream, offset) of every part; an offset begins with its stream's number."""
    for source in scope.sources:
        yield time_id(source.alias)
        yield offset_id(source.alias)


def ordered(given: JoinInput, *, alone: bool) -> JoinInput:
    """The input with its rows' offsets; one that is not joined keeps rows whose key is null."""
    more = tuple(ordered(branch, alone=alone) for branch in given.more)
    return replace(given, ordered=True, nullable=alone, more=more)
