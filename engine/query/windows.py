"""Windows of a query: written in the file, behind a stream, or as conditions; brought to one form.

Here: what was written where, the errors about it, and which inputs then need their event time.
Not here: shortest paths (bounds.py), the brackets themselves (brackets.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.errors import QueryFileError, SpillwayError
from engine.query.bounds import US_MAX, US_PER_S, after, close, contradiction, everywhere
from engine.query.brackets import Cut
from engine.query.model import Bound, QuerySpec
from engine.query.parse import start_of
from engine.query.scope import Branch, Ref, Scope, Source
from engine.query.terms import Term

_INTERVAL = re.compile(r"INTERVAL '(-?\d+)' (\w+)")
_UNITS_US = {
    "DAY": 86_400 * US_PER_S,
    "HOUR": 3_600 * US_PER_S,
    "MINUTE": 60 * US_PER_S,
    "SECOND": US_PER_S,
}
# of left - right <= most and right - left <= least, what each sign adds; None: no such bound
_LIMITS: dict[str, tuple[int | None, int | None]] = {
    "<=": (0, None),
    "<": (-1, None),
    ">=": (None, 0),
    ">": (None, -1),
    "=": (0, 0),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound as the user wrote it; `at` is its offset in the SQL, None for the file's `window`."""

    bound: Bound
    shown: str
    at: int | None = None


def file_window(spec: QuerySpec, inputs: int) -> Iterator[Limit]:
    """`window = "60 seconds"`: all pairs, both ways."""
    if spec.window_s is None:
        return
    us = round(spec.window_s * US_PER_S)
    shown = f'window = "{spec.window_s:g} seconds"'
    yield from (Limit(bound, shown) for bound in everywhere(inputs, us))


def stream_windows(windows: Mapping[int, Cut], inputs: int) -> Iterator[Limit]:
    """`a [RANGE 2 MINUTES]`: no other stream is later than that one by more."""
    for position, given in windows.items():
        if given.us is not None:
            for bound in after(position, inputs, given.us):
                yield Limit(bound, given.shown, given.start)


def condition_windows(scope: Scope, conditions: Sequence[Term]) -> tuple[list[Limit], list[Term]]:
    """Comparisons between the event times of two inputs as bounds, and the conditions that remain.

    Equal times are both: a bound, and a condition that may make a key.
    """
    limits: list[Limit] = []
    rest: list[Term] = []
    for term in _halves(scope, conditions):
        found = _compared(scope, term)
        limits += found
        if not found or term.op == "=":
            rest.append(term)
    return limits, rest


def _halves(scope: Scope, conditions: Sequence[Term]) -> Iterator[Term]:
    """BETWEEN as two comparisons where one of them is a bound."""
    for term in conditions:
        if term.op == "and" and any(_compared(scope, half) for half in term.args):
            yield from term.args
        else:
            yield term


def _compared(scope: Scope, term: Term) -> list[Limit]:
    """What `a.ts <= b.ts + INTERVAL …` and the like say."""
    if term.op not in _LIMITS:
        return []
    left, right = (_linear(scope, arg) for arg in term.args)
    if left is None or right is None:
        return []
    inputs = {n: left[0][n] - right[0][n] for n in {*left[0], *right[0]}}
    one = [n for n, factor in inputs.items() if factor == 1]
    other = [n for n, factor in inputs.items() if factor == -1]
    if len(one) != 1 or len(other) != 1 or any(abs(factor) > 1 for factor in inputs.values()):
        return []
    for ref in (part.ref for part in term.walk() if part.ref):
        _check_whole(scope, term, ref)
    shift = right[1] - left[1]
    most, least = _LIMITS[term.op]
    found = [] if most is None else [Bound(other[0], one[0], shift + most)]
    found += [] if least is None else [Bound(one[0], other[0], least - shift)]
    shown, at = scope.text.source(term.node), start_of(term.node)
    return [Limit(bound, shown, at) for bound in found]


def _linear(scope: Scope, term: Term) -> tuple[Counter[int], int] | None:
    """A sum of event times and intervals: how often each input's time is in it, and microseconds."""
    if term.ref:
        return (Counter({term.ref.input: 1}), 0) if _any_time(scope, term.ref) else None
    if term.op == "interval":
        return Counter(), interval_us(term)
    if term.op not in ("+", "-"):
        return None
    left, right = (_linear(scope, arg) for arg in term.args)
    if left is None or right is None:
        return None
    sign = 1 if term.op == "+" else -1
    inputs = Counter(left[0])
    for position, factor in right[0].items():
        inputs[position] += sign * factor
    return inputs, left[1] + sign * right[1]


def interval_us(term: Term) -> int:
    """The length of an interval."""
    found = _INTERVAL.match(term.value)
    assert found
    return int(found.group(1)) * _UNITS_US[found.group(2)]


def _any_time(scope: Scope, ref: Ref) -> bool:
    source = scope.sources[ref.input]
    return any(_is_time(source, branch, ref.field.name) for branch in source.branches)


def _check_whole(scope: Scope, term: Term, ref: Ref) -> None:
    """Under UNION ALL, the column must be the event time of all the streams."""
    source = scope.sources[ref.input]
    for branch in source.branches:
        if not _is_time(source, branch, ref.field.name):
            name, time = branch.stream.name, branch.stream.time
            what = f"`{source.alias}.{ref.field.name}` is not the event time of stream {name}"
            hint = f"its `time` is {time}" if time else f"name its `time` under [streams.{name}]"
            raise scope.text.error(what, term.node, hint)


def closed(scope: Scope, spec: QuerySpec, limits: list[Limit]) -> tuple[Bound, ...]:
    """All bounds, checked and closed over all inputs."""
    for limit in limits:
        _check_times(scope, spec, limit)
        if abs(limit.bound.us) > US_MAX:
            raise _error(scope, spec, limit, "the window is longer than 10000 years")
    bounds = [limit.bound for limit in limits]
    circle = contradiction(len(scope.sources), bounds)
    if circle:
        raise _never(scope, spec, [limits[place] for place in circle])
    return close(len(scope.sources), bounds)


def timed(bounds: tuple[Bound, ...]) -> frozenset[int]:
    """The inputs whose event time matters."""
    return frozenset(n for bound in bounds for n in (bound.early, bound.late))


def time_column(source: Source) -> str | None:
    """The column of an entry of FROM that is the event time in all its streams."""
    times = (
        column.name
        for column in source.fields
        if all(_is_time(source, branch, column.name) for branch in source.branches)
    )
    return next(times, None)


def _is_time(source: Source, branch: Branch, name: str) -> bool:
    field = source.field(name)
    return (
        field is not None
        and branch.stream.time is not None
        and source.column(branch, field) == branch.stream.time
    )


def _check_times(scope: Scope, spec: QuerySpec, limit: Limit) -> None:
    """Both inputs must have event times, and of one type."""
    kinds: dict[str, str] = {}
    for position in (limit.bound.early, limit.bound.late):
        for branch in scope.sources[position].branches:
            stream = branch.stream
            if stream.time is None:
                what = f"stream {stream.name} needs `time = …` in the query file for its window"
                hint = f"name its event time column under [streams.{stream.name}]"
                raise _error(scope, spec, limit, what, hint)
            kind = next(f.type for f in stream.fields if f.name == stream.time)
            kinds.setdefault(kind, stream.name)
    if len(kinds) > 1:
        shown = " and ".join(f"{name} ({kind})" for kind, name in kinds.items())
        raise _error(
            scope,
            spec,
            limit,
            f"the times of {shown} do not mix in a window",
            "declare both as timestamp, or both as timestamp_ntz",
        )


def _never(scope: Scope, spec: QuerySpec, circle: list[Limit]) -> SpillwayError:
    """A circle of bounds whose sum is negative."""
    written = list(dict.fromkeys((limit.at, limit.shown) for limit in circle))
    shown = " with ".join(f"`{text}`{_place(scope, at)}" for at, text in written)
    return _error(
        scope,
        spec,
        max(circle, key=lambda limit: limit.at or -1),
        f"this bound can never hold: {shown}",
        "no rows could ever join; widen one of them",
    )


def _place(scope: Scope, at: int | None) -> str:
    return "" if at is None else f" ({scope.text.place(at)})"


def _error(scope: Scope, spec: QuerySpec, limit: Limit, what: str, hint: str = "") -> SpillwayError:
    if limit.at is None:
        return QueryFileError(what, where=f"{spec.file}: window", hint=hint)
    return scope.text.error(what, limit.at, hint)
