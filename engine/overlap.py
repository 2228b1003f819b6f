"""What two queries in one engine must not share: a name, a checkpoint, a folder of results.

Pure. One query reading what another writes is allowed: that is a chain.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath

from engine.errors import HostError
from engine.query.model import QuerySpec


def refuse_overlap(spec: QuerySpec, others: Iterable[QuerySpec]) -> None:
    """HostError if `spec` cannot run beside one of the others."""
    for other in others:
        if spec.name == other.name:
            raise HostError(
                f"there is a query {spec.name!r} already, from {other.file}",
                where=str(spec.file),
                hint="Give each query its own `name`.",
            )
        for mine, what in _folders(spec):
            for theirs, whose in _folders(other):
                if _nested(mine, theirs):
                    raise HostError(
                        f"its {what} {mine} overlaps the {whose} {theirs} of query {other.name!r}",
                        where=str(spec.file),
                        hint="Give each query a checkpoint and a sink path of its own, none inside another.",
                    )


def _folders(spec: QuerySpec) -> list[tuple[PurePath, str]]:
    """What the query writes, and what that is called in the query file."""
    found = [(_place(str(spec.checkpoint)), "checkpoint")]
    return [*found, (_place(spec.sink.path), "sink path")] if spec.sink.path else found


def _place(path: str) -> PurePath:
    return PurePath(path) if "://" in path else Path(path).resolve()


def _nested(a: PurePath, b: PurePath) -> bool:
    return a.is_relative_to(b) or b.is_relative_to(a)
