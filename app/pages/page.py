"""A page as one value, and what every page's callbacks begin with: who looks at what, how old it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dash import Input

from app.desk import feed
from app.feed import Feed, Fresh
from app.view import View
from control.ledger import QueryRow
from control.people import Role
from control.samples import Sample

POLLED = (Input("poll", "n_intervals"), Input("view", "data"))


@dataclass(frozen=True, slots=True)
class Page:
    """`path` without a slash; `key`: the letter after g; `count`: what stands beside its name; `low`: below the line."""

    path: str
    name: str
    icon: str
    key: str = ""
    order: int = 100
    role: Role = Role.VIEWER
    count: Callable[[Feed, str], Any] | None = None
    low: bool = False
    listed: bool = True

    @property
    def href(self) -> str:
        return f"/{self.path}"


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at one query."""

    view: View
    query: QueryRow | None
    sample: Sample | None
    fresh: Fresh
    now_s: float

    @property
    def name(self) -> str:
        return self.query.name if self.query else ""

    @property
    def stale(self) -> bool:
        return self.fresh.stale


def look(raw_view: Any) -> Seen:
    """At the query that is chosen in the top bar."""
    view, found = View.of(raw_view), feed()
    query = found.query(view.query)
    sample = found.newest(query.name) if query else None
    return Seen(view, query, sample, found.fresh(query, sample, view.refresh_s), found.now_s())


def mark(*values: Any) -> str:
    """Of plain values that something is drawn from: the same mark, the same picture."""
    return hashlib.blake2b(repr(values).encode(), digest_size=9).hexdigest()
