"""A plan that a migration put in place of the query file's: its tree, and its operators by name. Values only.

The query file says which plan a checkpoint begins with; from the first migration on the manifest has this. An
operator keeps its name as long as its state stays the same state, and no name is given twice.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.id for one in self.operators)

    def pack(self) -> dict[str, Any]:
        named = [[one.id, list(one.placement)] for one in self.operators]
        return {
            "tree": self.tree,
            "operators": named,
            "nodes": self.nodes,
            "following": self.following,
            "sources": list(self.sources),
        }

    @staticmethod
    def unpack(raw: dict[str, Any] | None) -> Replan | None:
        if raw is None:
            return None
        named = tuple(Named(name, tuple(placement)) for name, placement in raw["operators"])
        sources = tuple(raw["sources"])
        return Replan(_tree(raw["tree"]), named, raw["nodes"], raw["following"], sources)


def _tree(raw: Any) -> Any:
    return tuple(_tree(part) for part in raw) if isinstance(raw, list) else raw
