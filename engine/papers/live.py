"""One line of a live figure: a chain's query run by the clock, maybe with a migration on the way, and what it gave."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from control.cost.coefficients import Coefficients
from control.requests import Request
from control.snapshot import ClusterSnapshot
from engine.adapt.desk import Desk
from engine.adapt.joins import JoinStatistics
from engine.papers.paced import Chain, Player
from engine.papers.ticks import Tick, Ticks
from engine.query.file import read_query
from engine.runner import QueryRun
from engine.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODES, GROUPS = 2, 32
TRIGGER_S = 0.5  # least time from one tick to the next
PATIENCE_S = 30.0  # how long what has come may take to go through


@dataclass(frozen=True)
class LiveLine:
    """How one line differs from the others: `order` to begin with; with a `strategy`, the order `to` from `at_s` seconds
    by the clock on. It ends `after_s` seconds after the migration (None: with its input), and at most `patience_s` after
    its input. `numbers`: of the cost model, where more is known than what the run itself measures."""

    name: str
    order: str
    to: str = ""
    strategy: str = ""
    at_s: float = 0.0
    after_s: float | None = None
    patience_s: float = PATIENCE_S
    numbers: Coefficients | None = None


@dataclass
class LiveRun:
    """What a line gave. `commits`: by version, when; `before`: how things stood when the migration was asked for."""

    line: LiveLine
    chain: Chain
    ticks: list[Tick] = field(default_factory=list)
    commits: dict[int, float] = field(default_factory=dict)
    begun_s: float = 0.0
    actions: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    before: ClusterSnapshot | None = None
    asked_s: float = 0.0

    @property
    def done(self) -> bool:
        """Was a migration done?"""
        return any(action["state"] == "done" for action in self.actions)

    @property
    def action(self) -> dict[str, Any]:
        """The migration, done. RuntimeError says what became of it otherwise."""
        done = [action for action in self.actions if action["state"] == "done"]
        if len(done) != 1:
            said = [(a["state"], a["note"]) for a in self.actions] or self.refusals
            raise RuntimeError(f"{self.line.name}: the migration was not done: {said}")
        return done[0]

    @property
    def length_s(self) -> float:
        """From the first step's begin to the last one's end."""
        return float(self.action["actual"]["seconds"])

    @property
    def live(self) -> list[Tick]:
        """Ticks by the clock."""
        return [tick for tick in self.ticks if tick.end_s > self.begun_s]

    @property
    def whole(self) -> bool:
        """Has all input gone through?"""
        return sum(tick.rows_in for tick in self.ticks) == self.chain.due_rows(self.chain.end_s)

    def waiting(self, tick: Tick) -> int:
        """Rows that were due when a tick was committed, and in no tick yet."""
        taken = sum(other.rows_in for other in self.ticks if other.number <= tick.number)
        return max(0, self.chain.due_rows(max(0.0, tick.end_s - self.begun_s)) - taken)

    def as_json(self) -> dict[str, Any]:
        about = ("name", "order", "to", "strategy", "at_s")
        return {
            **{name: getattr(self.line, name) for name in about},
            "begun_s": self.begun_s,
            "ticks": [tick.as_json() for tick in self.ticks],
            "actions": self.actions,
            "refusals": self.refusals,
        }


def run_live(
    spark: SparkSession,
    chain: Chain,
    line: LiveLine,
    under: Path,
    *,
    trigger_s: float = TRIGGER_S,
    look: Callable[[LiveRun, Path], None] | None = None,
) -> LiveRun:
    """Run it until all its input has gone through, or its patience is over. `look`: at the finished run and its
    folder, before that goes."""
    made, place = chain.make(under), under / "live"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    path = chain.query_file(place / "in", place, nodes=NODES, groups=GROUPS, order=line.order)
    settings = Settings.load({"trigger_seconds": f"{trigger_s:g}"})
    found = LiveRun(line, chain)
    query = QueryRun(read_query(path), settings, (), once=False)
    _Life(query, found, made, place / "in").go(spark)
    if look is not None:
        look(found, place)
    shutil.rmtree(place, ignore_errors=True)
    return found


class _Life:
    """A run while it lasts: the clock begins when windows are full, the migration is asked for between ticks."""

    def __init__(self, query: QueryRun, found: LiveRun, made: Path, live: Path) -> None:
        self.query, self.found = query, found
        self.player = Player(found.chain, made, live, found.line.patience_s, query.stop)
        self.query.seated = self._seated
        self.ticks = Ticks(query)
        self.ticks.heard = self._heard
        self._asked = not found.line.strategy
        self._taken, self._ended_s = 0, 0.0

    def go(self, spark: SparkSession) -> None:
        try:
            self.query.serve(lambda: spark)
        finally:
            self.player.enough()
        assert self.query.desk is not None
        records = self.query.desk.records
        self.found.ticks, self.found.commits = self.ticks.all, self.ticks.commits
        self.found.actions = records.as_json()["actions"]
        self.found.refusals = records.refusals

    def _seated(self, desk: Desk) -> None:
        desk.watch = self._watch
        # Merged files would not tell any more in which tick a result came.
        desk.ticker.sink.maybe_compact = _never  # type: ignore[method-assign]

    def _heard(self, tick: Tick) -> None:
        self._taken += tick.rows_in
        desk = self.query.desk
        assert desk is not None
        if not self.found.begun_s and not self.player.next_head():
            # What came before was faster than the clock: nothing is to be learned from it.
            desk.joins = JoinStatistics(desk.ticker.setup)
            self.found.begun_s = self.player.begin()
        if self._over(desk):
            self.query.stop()

    def _over(self, desk: Desk) -> bool:
        """Is there nothing more to see?"""
        chain, after_s = self.found.chain, self.found.line.after_s
        if desk.running or not self._asked:
            return False
        if self._taken == chain.due_rows(chain.end_s):
            return True
        self._ended_s = self._ended_s or self.player.now_s()
        return after_s is not None and self.player.now_s() >= self._ended_s + after_s

    def _watch(self, desk: Desk) -> None:
        """At every boundary between ticks."""
        begun, line, known = self.player.begun_s, self.found.line, desk.joins.joins
        if self._asked or begun is None or self.player.now_s() < begun + line.at_s:
            return
        if known is None or not known.known:
            return  # a tick or two later
        self._asked = True
        self.found.before = desk.snapshot()
        self.found.asked_s = self.player.now_s()
        request = Request("migrate", 0, order=line.to, strategy=line.strategy)
        desk.ask(request, "experiment", line.numbers)


def _never() -> int:
    return 0
