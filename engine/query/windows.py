"""Windows of a query: written in the file, behind a stream, or as conditions; brought to one form.

Here: what was written where, the errors about it, and which inputs then need their event time.
Not here: shortest paths (bounds.py), the brackets themselves (brackets.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import QueryFileError, SpillwayError
from engine.query.bounds import US_MAX, US_PER_S, close, contradiction, everywhere
from engine.query.model import Bound, QuerySpec
from engine.query.scope import Branch, Scope, Source


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
    found = (f.name for f in source.fields if all(_is_time(source, b, f.name) for b in source.branches))
    return next(found, None)


def _is_time(source: Source, branch: Branch, name: str) -> bool:
    field = source.field(name)
    return field is not None and branch.stream.time is not None \
        and source.column(branch, field) == branch.stream.time


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
            kinds[next(f.type for f in stream.fields if f.name == stream.time)] = stream.name
    if len(kinds) > 1:
        shown = " and ".join(f"{name} ({kind})" for kind, name in kinds.items())
        raise _error(scope, spec, limit, f"the times of {shown} do not mix in a window",
                     "declare both as timestamp, or both as timestamp_ntz")


def _never(scope: Scope, spec: QuerySpec, circle: list[Limit]) -> SpillwayError:
    """A circle of bounds whose sum is negative."""
    written = list(dict.fromkeys((limit.at, limit.shown) for limit in circle))
    shown = " with ".join(f"`{text}`{_place(scope, at)}" for at, text in written)
    return _error(scope, spec, max(circle, key=lambda limit: limit.at or -1),
                  f"this bound can never hold: {shown}", "no rows could ever join; widen one of them")


def _place(scope: Scope, at: int | None) -> str:
    return "" if at is None else f" ({scope.text.place(at)})"


def _error(scope: Scope, spec: QuerySpec, limit: Limit, what: str, hint: str = "") -> SpillwayError:
    if limit.at is None:
        return QueryFileError(what, where=f"{spec.file}: window", hint=hint)
    return scope.text.error(what, limit.at, hint)
