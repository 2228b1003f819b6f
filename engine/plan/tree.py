"""Operators as an immutable tree. Values only: what runs them lives in tick.py and operators/.

    Sink ← Project ← MultiJoin ← Exchange ← Scan   (one Exchange and Scan for each input)

Each stateful operator has groups and a placement (group → node) of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.query.model import Field, JoinInput, OutputColumn, SinkSpec, StreamSpec


@dataclass(frozen=True, slots=True)
class Scan:
    """A source with its pushed-down filter and projection."""

    id: str
    stream: StreamSpec
    input: JoinInput


@dataclass(frozen=True, slots=True)
class Exchange:
    """Routing by key hash to the group's node."""

    id: str
    child: Scan


@dataclass(frozen=True, slots=True)
class MultiJoin:
    """The m-way symmetric join on one shared key."""

    id: str
    children: tuple[Exchange, ...]
    key: tuple[Field, ...]
    groups: int
    placement: tuple[int, ...]  # node of each group

    @property
    def inputs(self) -> tuple[JoinInput, ...]:
        return tuple(child.child.input for child in self.children)


@dataclass(frozen=True, slots=True)
class Project:
    """Filter and expressions over the joined row."""

    id: str
    child: MultiJoin
    where: str | None
    outputs: tuple[OutputColumn, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole query: the tree, its sink and how many nodes it runs on."""

    name: str
    root: Project
    sink: SinkSpec
    nodes: int

    @property
    def join(self) -> MultiJoin:
        return self.root.child
