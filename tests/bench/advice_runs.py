"""One run of advice.py: a query by the clock at one setting, migrated by one strategy, and what all its results waited.

Two figures come of a run. *Length*: from the action's first step to its last, beside what control/ predicted from the
snapshot that it began with; both are functions of that snapshot alone, so that they are worked out afterwards takes no
time from the run. *Lateness*: of each result, its commit less the time when its last part was due, added up over all
that were due within the horizon, in row·s. What a strategy costs is that, less the lateness of the same results with
the new plan from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from control.cost.coefficients import Coefficients, Horizon
from control.ledger import ActionRow
from control.orders import priced_order
from control.plans import Plan, Reason, Topic, migrate_to
from control.predict import preview
from control.snapshot import ClusterSnapshot
from engine.papers.live import LiveLine, LiveRun
from engine.papers.paced import Chain
from engine.papers.probe import partners_for
from tests.bench.data import connect
from tests.bench.exact import Difference, difference

BAD, GOOD = "(((a b) c) d)", "(((c d) b) a)"
OTHERS = (0.25, 0.05)  # partners on the other hops: the good order has little state
LARGE = (0.004, 15.0)  # here `c d` is large: to compute it takes longer than a tick
WARM_S = (
    12.0  # by the clock, until statistics know the query, and ticks are as long as they will be
)
SETTLES_S = 10.0  # of the horizon, besides the window
BEGUN = "begun"  # with the new plan from the start


@dataclass(frozen=True)
class Setting:
    """`load`: the share of the time that the old plan's rows in between take; `partners`: of a row within one window,
    hop by hop, so that they do; `rate`: rows a second of each stream."""

    window_s: float
    load: float
    rate: float
    partners: tuple[float, float, float]

    @staticmethod
    def of(
        window_s: float,
        load: float,
        rate: float,
        row_s: float,
        others: tuple[float, float] = OTHERS,
    ) -> Setting:
        """`row_s`: that a row in between takes on this machine."""
        partners = partners_for(load, row_s, rate, others), *others
        return Setting(window_s, load, rate, partners)

    @property
    def name(self) -> str:
        large = ", c d large" if self.partners[1:] == LARGE else ""
        return f"W {self.window_s:g} s, load {self.load:g}, {self.rate:g} rows/s{large}"

    @property
    def horizon_s(self) -> float:
        return 1.1 * self.window_s + SETTLES_S

    @property
    def chain(self) -> Chain:
        keys = tuple(max(1, round(self.rate * self.window_s / n)) for n in self.partners)
        live_s = WARM_S + self.horizon_s
        return Chain((self.rate,) * 4, keys, self.window_s, self.window_s + 0.5, live_s)

    def line(self, way: str, numbers: Coefficients) -> LiveLine:
        if way == BEGUN:
            return LiveLine(way, GOOD)
        return LiveLine(way, BAD, GOOD, way, WARM_S, numbers=numbers)


@dataclass(frozen=True)
class Seen:
    """A finished run: its results against DuckDB's, and what they waited within the horizon."""

    check: Difference
    late_row_s: float
    rows: int


def reference_of(chain: Chain, made: Path, folder: Path) -> Path:
    """DuckDB's join of all input."""
    folder.mkdir(parents=True)
    near = " AND ".join(
        f"abs(epoch_us({a}.ts) - epoch_us({b}.ts)) <= {round(chain.window_s * 1e6)}"
        for n, a in enumerate(chain.names)
        for b in chain.names[n + 1 :]
    )
    with connect() as connection:
        for name in chain.names:
            connection.execute(
                f"CREATE VIEW {name} AS FROM read_parquet('{made / name}/*.parquet')"
            )
        out = folder / "part-0.parquet"
        connection.execute(f"COPY ({chain.sql} WHERE {near}) TO '{out}' (FORMAT parquet)")
    return folder


def seen(run: LiveRun, place: Path, reference: Path, horizon_s: float) -> Seen:
    """Of a run's folder, before it goes."""
    check = difference(place / "out", reference)
    chain = run.chain
    due = ", ".join(
        f"v{name} / {rate}" for name, rate in zip(chain.names, chain.rates, strict=True)
    )
    first, last = chain.head_s + WARM_S, chain.head_s + WARM_S + horizon_s
    commits = ", ".join(f"({version}, {time_s})" for version, time_s in run.commits.items())
    with connect() as connection:
        late = connection.execute(
            f"SELECT coalesce(sum(c.time_s - ({run.begun_s} + r.due_s - {chain.head_s})), 0), count(*) FROM "
            f"(SELECT greatest({due}) AS due_s, CAST(split_part(parse_filename(filename), '-', 2) AS BIGINT) AS version "
            f"FROM read_parquet('{place}/out/part-*.parquet', filename = true)) r "
            f"JOIN (VALUES {commits}) c(version, time_s) USING (version) "
            f"WHERE r.due_s >= {first} AND r.due_s < {last}"
        ).fetchall()[0]
    return Seen(check, float(late[0]), int(late[1]))


@dataclass(frozen=True)
class Told:
    """What was predicted of a migration from the snapshot that it began with. `costs_row_s`: by strategy, what is lost
    until the new plan stands; `recommended`: what control/ advises."""

    length_s: float
    recommended: str
    gains_row_s: Mapping[str, float]
    lengths_s: Mapping[str, float]
    predicted: Mapping[str, Any]  # the step of a preview


def told(
    before: ClusterSnapshot,
    strategy: str,
    numbers: Coefficients,
    horizon_s: float,
    *,
    at_once: bool,
) -> Told:
    horizon = Horizon(horizon_s)
    order = priced_order(before, numbers, GOOD, strategy, horizon=horizon)
    step = migrate_to(GOOD, strategy, before, at_once=at_once)
    plan = Plan((step,), (Reason.of(Topic.CHOSEN, "a benchmark"),))
    made = preview(plan, before, numbers, horizon=horizon)["steps"][0]
    offers = order["strategies"]
    return Told(
        float(made["figures"]["seconds"]),
        str(order["recommended"]),
        {name: float(one["gain_row_s"]) for name, one in offers.items()},
        {name: float(one["duration_s"]) for name, one in offers.items()},
        made,
    )


def row_of(run: LiveRun, predicted: Mapping[str, Any]) -> ActionRow:
    """As the ledger has it, for what learns from it."""
    action = run.action
    begun, ended = action["records"][0][1], action["records"][-1][2]
    about = action["id"], "advice", action, "benchmark", action["state"], begun, ended
    return ActionRow(
        *about, int(action["bytes"]), predicted=dict(predicted), actual=action["actual"]
    )


@dataclass
class Ran:
    """One run and what became of it. `number`: of the round; below 0 it only taught."""

    setting: Setting
    way: str
    number: int
    seen: Seen
    ticks_s: Sequence[float]
    told: Told | None = None
    action: Mapping[str, Any] | None = None

    @property
    def length_s(self) -> float:
        """Infinite where the input was over before the migration was."""
        return float(self.action["actual"]["seconds"]) if self.action is not None else inf

    @property
    def waited(self) -> bool:
        """Did ticks wait for all of it?"""
        return self.action is not None and bool(self.action["step"].get("at_once"))

    @property
    def pause_s(self) -> float:
        return float(self.action["actual"]["pause_s"]) if self.action is not None else 0.0

    @property
    def ratio(self) -> float:
        """Length predicted against measured."""
        assert self.told is not None
        return self.told.length_s / self.length_s

    def __str__(self) -> str:
        late = self.seen.late_row_s / max(1, self.seen.rows)
        text = f"{self.setting.name}: {self.way:<8} {late:5.2f} s late on average"
        if self.told is not None:
            text += ", ticks waited" if self.waited else ""
            text += f", {self.length_s:5.2f} s for {self.told.length_s:5.2f} s, advised {self.told.recommended}"
        return text if self.seen.check.exact else f"{text}, {self.seen.check}"

    def as_json(self) -> dict[str, Any]:
        about = {"setting": self.setting.name, "way": self.way, "round": self.number}
        late = {"late_row_s": self.seen.late_row_s, "rows": self.seen.rows}
        out = {**about, **late, "exact": self.seen.check.exact, "tick_seconds": list(self.ticks_s)}
        if self.told is not None and self.action is not None:
            out["predicted"] = {
                "seconds": self.told.length_s,
                "recommended": self.told.recommended,
                "gains_row_s": dict(self.told.gains_row_s),
                "lengths_s": dict(self.told.lengths_s),
                "figures": self.told.predicted["figures"],
            }
            out["actual"], out["records"] = self.action["actual"], self.action["records"]
            out["at_once"] = self.waited
        return out
