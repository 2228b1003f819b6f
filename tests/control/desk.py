"""A dispatcher over a store in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from control.dispatch import Dispatcher
from control.ledger import QueryRow, Wanted
from control.people import Actor, Role, Source, User
from control.samples import NODE_FIGURES, QUERY_FIGURES, Sample
from control.snapshot import ClusterSnapshot
from db.open import Store
from tests.db.template import fresh_store

NOW_S = 1_000.0
ADMIN = Actor("ann", Role.ADMIN, Source.API, address="127.0.0.1")
OPERATOR = Actor("otto", Role.OPERATOR, Source.API)
VIEWER = Actor("vera", Role.VIEWER, Source.API)


class Desk:
    """A dispatcher, its store, and a clock that is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.now_s, self.count = NOW_S, 0
        self.store: Store = fresh_store(folder)
        self.dispatcher = Dispatcher(self.store, lambda: self.now_s, random=self._random)
        for actor in (ADMIN, OPERATOR, VIEWER):
            self.store.users.add(User(actor.user, actor.role, "-", False, 1.0))
        self.store.queries.add(QueryRow("q", "", "", None, Wanted.RUNNING, True, 1.0, "running"))

    def _random(self) -> str:
        self.count += 1
        return f"{self.count:032x}"[::-1]

    def show(self, snapshot: ClusterSnapshot) -> None:
        """The engine's newest sample."""
        nodes = {name: np.zeros(len(snapshot.nodes)) for name in NODE_FIGURES}
        figures = dict.fromkeys(QUERY_FIGURES, 0.0)
        self.store.metrics.write(
            [Sample("q", self.now_s, snapshot.version, figures, nodes, snapshot)]
        )

    def ask(self, kind: str, actor: Actor = ADMIN, query: str = "", **body: Any) -> Any:
        return self.dispatcher.dispatch(kind, body, actor, query)
