"""What pages read, read once for everybody who watches: kept for less than a refresh, so that fifty watchers
cost the store little more than one. Nothing is decided here, nothing is written.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from app.health import Alive, processes
from app.parts import Parts
from app.problems import Problem
from app.redacted import seen_by
from app.turns import Turns
from control.errors import ControlError, StoreError
from control.handling.plans import HOLD
from control.ledger import ActionRow, Alert, QueryRow, RuleRow
from control.people import Role
from control.samples import RATES, Heartbeat, Sample, Series

T = TypeVar("T")
KEPT_MAX = 512
TICK_S = 0.45  # what changes with every tick
SLOW_S = 2.0  # what people and rules change
SERIES_S = 5.0  # while no tick comes
DEAR_S = 5.0  # what takes long to work out; made anew behind, while the last is shown
WAIT_S = 0.15
OLD_S = 15.0  # but not shown when it is older than this
MENU_MAX = 6
RECENT_S, RECENT_POINTS = 15.0, 60
ASKED_MAX, LOCAL_MAX = 60, 300  # actions of one chart: of people and rules, of nodes' own rules
STALE_S = 10.0  # and at least three refreshes
RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Hold:
    """Automation is on hold, by whom and until when."""

    by: str
    until_s: float


@dataclass(frozen=True, slots=True)
class Fresh:
    """How old what is known of a query is, and whether that is too old to be called live."""

    age_s: float | None  # None: nothing is known
    stale: bool
    engine: Alive


@dataclass(frozen=True, slots=True)
class Kept:
    """What was read, when, and how long somebody may still be shown it."""

    made_s: float
    life_s: float
    value: Any


class Feed:
    """One for each app. Everything returned is shared: nobody changes it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kept: OrderedDict[Any, Kept] = OrderedDict()
        self._readings = Turns()
        self._lock = threading.Lock()
        self._turn = 0  # of what somebody did
        self._behind = ThreadPoolExecutor(1, "feed")
        self._ordered: dict[Any, Future[None]] = {}

    def now_s(self) -> float:
        return self._parts.clock()

    def forget(self) -> None:
        """Somebody did something: everybody's next reading is a new one."""
        with self._lock:
            self._turn += 1
            self._kept.clear()
            self._readings.forget()

    def kept(self, key: Any, life_s: float, read: Callable[[], T]) -> T:
        """What `read` gives, not older than `life_s`; of many who ask at once, one reads."""
        found = self._found(key, life_s)
        if found is not None:
            return found.value  # type: ignore[no-any-return]
        with self._readings.of(key):
            found = self._found(key, life_s)
            if found is not None:
                return found.value  # type: ignore[no-any-return]
            turn = self._turn
            made = read()
            self._keep(key, made, life_s, turn)
            return made

    def kept_soon(self, key: Any, life_s: float, read: Callable[[], T]) -> T:
        """As `kept`, but what was kept is given while a newer one is made behind: nobody waits but the first."""
        if (found := self._found(key, OLD_S)) is None:
            return self.kept(key, OLD_S, read)
        if not self._young(found, life_s):
            self._order(key, read)
        return found.value  # type: ignore[no-any-return]

    def kept_behind(self, key: Any, read: Callable[[], T]) -> T | None:
        """For what is dear: what was kept is given at once, and a newer one is made behind. Where nothing is kept
        that may be shown, it is waited for, but not for long: None, and the next look has it."""
        if (found := self._found(key, DEAR_S)) is not None:
            return found.value  # type: ignore[no-any-return]
        ordered = self._order(key, read)
        if (old := self._found(key, OLD_S)) is None:
            with suppress(FutureTimeout):
                ordered.result(WAIT_S)
            old = self._found(key, OLD_S)
        return old.value if old is not None else None

    def _order(self, key: Any, read: Callable[[], Any]) -> Future[None]:
        with self._lock:
            if key not in self._ordered:
                self._ordered[key] = self._behind.submit(self._make, key, read)
            return self._ordered[key]

    def _make(self, key: Any, read: Callable[[], Any]) -> None:
        turn = self._turn
        try:
            made = read()
        except (StoreError, Problem) as error:
            logging.getLogger(__name__).warning("%s: %s", key[0], error)
        else:
            self._keep(key, made, OLD_S, turn)
        finally:
            with self._lock:
                self._ordered.pop(key, None)

    def close(self) -> None:
        """Nothing is made behind any more."""
        self._behind.shutdown(wait=True, cancel_futures=True)

    def _found(self, key: Any, life_s: float) -> Kept | None:
        with self._lock:
            found = self._kept.get(key)
        return found if found is not None and self._young(found, life_s) else None

    def _young(self, kept: Kept, life_s: float) -> bool:
        """A clock that was set back makes nothing younger than it is."""
        return 0 <= self.now_s() - kept.made_s < life_s

    def _keep(self, key: Any, made: Any, life_s: float, turn: int) -> None:
        """Unless somebody did something since it was begun to be read (`turn`). And let go what nobody is shown
        any more: most keys name a tick, and are never asked for again."""
        now_s = self.now_s()
        with self._lock:
            if turn != self._turn:
                return
            self._kept[key] = Kept(now_s, life_s, made)
            self._kept.move_to_end(key)
            gone = [k for k, kept in self._kept.items() if not self._young(kept, kept.life_s)]
            rest = len(self._kept) - len(gone) - KEPT_MAX
            left = (k for k, kept in self._kept.items() if self._young(kept, kept.life_s))
            for old in [*gone, *islice(left, max(0, rest))]:
                del self._kept[old]

    # -- queries ---------------------------------------------------------------------------------------

    def queries(self) -> Sequence[QueryRow]:
        """The demo first: it is what a first start shows. Without the passwords in their files."""

        def read() -> list[QueryRow]:
            rows = self._parts.store.queries.all()
            return [
                seen_by(q, Role.VIEWER) for q in sorted(rows, key=lambda q: (not q.demo, q.name))
            ]

        return self.kept("queries", SLOW_S, read)

    def query(self, name: str) -> QueryRow | None:
        """The one that is named; without a name the first. None: there is none (of that name)."""
        found = [row for row in self.queries() if not name or row.name == name]
        return found[0] if found else None

    def newest(self, query: str) -> Sample | None:
        return self.kept(("newest", query), TICK_S, lambda: self._parts.store.metrics.newest(query))

    def full_in(self, sample: Sample) -> Sequence[float | None]:
        """By node: seconds until it is full."""
        key = ("full", sample.query, sample.time_s)
        return self.kept(key, 60.0, lambda: self._parts.advice.forecast(sample))

    def menu(self, sample: Sample) -> Sequence[Mapping[str, Any]] | None:
        """What would help now; None: not yet. Ranked anew every few seconds, not with every tick: rows that jump
        cannot be read."""

        def read() -> Sequence[Mapping[str, Any]]:
            return self._parts.advice.menu(sample, self.now_s(), MENU_MAX)

        return self.kept_behind(("menu", sample.query), read)

    def orders(self, sample: Sample) -> Sequence[Mapping[str, Any]]:
        """Better join orders than the one that runs."""
        key = ("orders", sample.query, sample.time_s)
        return self.kept(key, DEAR_S, lambda: self._parts.advice.orders(sample))

    def order(self, sample: Sample, text: str) -> Mapping[str, Any]:
        """A join order priced. PlanError where it is none."""
        key = ("order", sample.query, sample.time_s, text)
        return self.kept(key, DEAR_S, lambda: self._parts.advice.order(sample, text))

    def _tick(self, query: str) -> float:
        """Series are read again when there is another tick."""
        newest = self.newest(query)
        return newest.time_s if newest is not None else 0.0

    def query_series(self, query: str, range_s: float, points: int) -> Series:
        metrics = self._parts.store.metrics

        def read() -> Series:
            now_s = self.now_s()
            return metrics.query_series(query, now_s - range_s, now_s, points)

        return self.kept(("series", query, range_s, points, self._tick(query)), SERIES_S, read)

    def recent(self, query: str, figure: str) -> float | None:
        """The mean of the last seconds, of a rate by the time that it is about: single ticks jump."""
        series = self.query_series(query, RECENT_S, RECENT_POINTS)
        column = series.values[figure] if len(series.time_s) else np.zeros(0)
        known = np.isfinite(column)
        weights = np.ones(len(column))
        if figure in RATES and len(column):
            weights = np.nan_to_num(series.values["covered_s"], nan=1.0)
        some = weights[known] if weights[known].any() else np.ones(int(known.sum()))
        return float(np.average(column[known], weights=some)) if known.any() else None

    def node_series(self, query: str, range_s: float, points: int) -> Series:
        metrics = self._parts.store.metrics

        def read() -> Series:
            now_s = self.now_s()
            return metrics.node_series(query, now_s - range_s, now_s, points)

        return self.kept(("nodes", query, range_s, points, self._tick(query)), SERIES_S, read)

    def actions(self, query: str, range_s: float) -> Sequence[ActionRow]:
        """Of the query, ended within the range or running, oldest first: the newest of what was asked for, and
        of nodes' own spills."""
        actions = self._parts.store.actions

        def read() -> Sequence[ActionRow]:
            since_s = self.now_s() - range_s
            asked = actions.asked(most=ASKED_MAX, query=query)
            newest = actions.page(most=LOCAL_MAX, query=query, since_s=since_s)
            found = {row.id: row for row in [*asked, *newest]}
            inside = [r for r in found.values() if r.ended_s is None or r.ended_s >= since_s]
            return sorted(inside, key=lambda row: row.started_s)

        return self.kept_soon(("actions", query, range_s), SLOW_S, read)

    def running(self, query: str = "") -> Sequence[ActionRow]:
        rows = self.kept("running", TICK_S, self._parts.store.actions.running)
        return [row for row in rows if not query or row.query == query]

    # -- rules, alerts, processes ----------------------------------------------------------------------

    def rules(self) -> Sequence[RuleRow]:
        return self.kept("rules", SLOW_S, self._parts.store.rules.all)

    def interlocks(self, query: str) -> Sequence[tuple[RuleRow, Mapping[str, Any]]] | None:
        """Each rule that is for the query, and what holds it. One that cannot be read says so. None: not yet."""
        return self.kept_behind(("interlocks", query), lambda: self._interlocks(query))

    def _interlocks(self, query: str) -> list[tuple[RuleRow, Mapping[str, Any]]]:
        found: list[tuple[RuleRow, Mapping[str, Any]]] = []
        for row in self.rules():
            try:
                lock = self._parts.advice.interlock(row.name, query, self.now_s())
            except ControlError as error:
                lock = {"error": str(error), "blockers": [], "mode": row.mode}
            except Problem:
                continue  # it was dropped meanwhile
            if lock:
                found.append((row, lock))
        return found

    def alerts(self) -> Sequence[Alert]:
        return self.kept("alerts", SLOW_S, self._parts.store.alerts.open)

    def hold(self) -> Hold | None:
        found = self.kept("hold", TICK_S, lambda: self._parts.store.kept.get(HOLD))
        held = isinstance(found, Mapping) and float(found.get("until_s", 0.0)) > self.now_s()
        return Hold(str(found.get("by", "")), float(found["until_s"])) if held else None

    def beats(self) -> Sequence[Heartbeat]:
        return self.kept("beats", TICK_S, self._parts.store.metrics.heartbeats)

    def processes(self) -> Sequence[Alive]:
        def read() -> Sequence[Alive]:
            return processes(self._parts.store, self._parts.settings, self.now_s())

        return self.kept("processes", TICK_S, read)

    def fresh(self, row: QueryRow | None, sample: Sample | None, refresh_s: float) -> Fresh:
        """A query that is meant to stand still is not stale, however old its last tick is."""
        engine = next(alive for alive in self.processes() if alive.process == "engine")
        if sample is None or row is None:
            return Fresh(None, engine.stale, engine)
        age_s = max(0.0, self.now_s() - sample.time_s)
        old = age_s > max(STALE_S, 3 * refresh_s)
        return Fresh(age_s, engine.stale or (old and row.state == RUNNING), engine)
