"""A plan that a migration put in place of the query file's: its tree, and its operators by name. Values only.

The query file says which plan a checkpoint begins with; from the first migration on the manifest has this. An
operator keeps its name as long as its state stays the same state, and no name is given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.query.model import Tree


@dataclass(frozen=True, slots=True)
class Named:
    """An operator, and the node of each of its groups when the plan was made."""

    id: str
    placement: tuple[int, ...]

    @property
    def groups(self) -> int:
        return len(self.placement)


@dataclass(frozen=True, slots=True)
class Replan:
    """`tree` None: one join of all inputs. `operators` in the plan's order, children first; `nodes`: how many
    there were; `following`: the number of the next operator that needs a name; `sources`: in which order Spark has
    them, which is the query file's for ever."""

    tree: Tree | None
    operators: tuple[Named, ...]
    nodes: int
    following: int
    sources: tuple[str, ...]
    track: Track | None = None
    delta: Delta | None = None

    @property
    def everyone(self) -> tuple[Named, ...]:
        """The operators of both plans, where there are two."""
        if self.track is None:
            return self.operators
        mine = {one.id for one in self.operators}  # window functions are above both
        more = [one for one in self.track.plan.operators if one.id not in mine]
        return (*self.operators, *more)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.id for one in self.everyone)

    @property
    def withheld(self) -> tuple[Withheld, ...]:
        """Results that have been made and that nobody sees yet."""
        return self.track.withheld if self.track is not None else ()

    def withholding(self, more: Iterable[Withheld]) -> Replan:
        """The same with some more of them."""
        assert self.track is not None
        track = replace(self.track, withheld=(*self.track.withheld, *more))
        return replace(self, track=track)

    def pack(self) -> dict[str, Any]:
        named = [[one.id, list(one.placement)] for one in self.operators]
        return {
            "tree": self.tree,
            "operators": named,
            "nodes": self.nodes,
            "following": self.following,
            "sources": list(self.sources),
            "track": self.track.pack() if self.track is not None else None,
            "delta": self.delta.pack() if self.delta is not None else None,
        }

    @staticmethod
    def unpack(raw: dict[str, Any] | None) -> Replan | None:
        if raw is None:
            return None
        named = tuple(Named(name, tuple(placement)) for name, placement in raw["operators"])
        sources = tuple(raw["sources"])
        track = Track.unpack(raw["track"]) if raw.get("track") else None
        delta = Delta.unpack(raw["delta"]) if raw.get("delta") else None
        about = _tree(raw["tree"]), named, raw["nodes"], raw["following"], sources
        return Replan(*about, track, delta)


@dataclass(frozen=True, slots=True)
class Withheld:
    """A file of results under its hidden name in the sink's folder."""

    tmp: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Track:
    """Another plan that runs beside, since it was begun with nothing in its state. `until`: the greatest time of each
    input by then, so of any old row; `action`: whose doing it is. `withholds`: nobody sees its results until it runs
    alone; `withheld`: those that there are by now."""

    plan: Replan
    until: Mapping[str, int] = field(default_factory=dict)
    action: str = ""
    withholds: bool = False
    withheld: tuple[Withheld, ...] = ()

    def pack(self) -> dict[str, Any]:
        return {
            "plan": self.plan.pack(),
            "until": dict(self.until),
            "action": self.action,
            "withholds": self.withholds,
            "withheld": [[one.tmp, one.rows, one.bytes] for one in self.withheld],
        }

    @staticmethod
    def unpack(raw: dict[str, Any]) -> Track:
        plan = Replan.unpack(raw["plan"])
        assert plan is not None
        withheld = tuple(Withheld(*one) for one in raw.get("withheld", ()))
        withholds = raw.get("withholds", False)
        return Track(plan, raw["until"], raw["action"], withholds, withheld)


@dataclass(frozen=True, slots=True)
class Delta:
    """No tree is run, but the plan without intermediate state (plan/delta.py), on the way to the order `to`. `orders`: of
    each input, itself and then the others as its new rows meet theirs; `action`: whose doing it is. The operators are
    the bases, then each input's probes, then what is above the joins."""

    orders: tuple[tuple[int, ...], ...]
    to: str
    action: str = ""

    def pack(self) -> dict[str, Any]:
        return {
            "orders": [list(order) for order in self.orders],
            "to": self.to,
            "action": self.action,
        }

    @staticmethod
    def unpack(raw: dict[str, Any]) -> Delta:
        return Delta(tuple(tuple(order) for order in raw["orders"]), raw["to"], raw["action"])


def _tree(raw: Any) -> Any:
    return tuple(_tree(part) for part in raw) if isinstance(raw, list) else raw
