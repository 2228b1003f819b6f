"""Random queries over trees of streams, random data for them, and what they should give: Hypothesis strategies.

The oracle knows nothing of trees, windows' closure or state: DuckDB joins all accepted rows at once, with the
conditions as they were written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from engine.admission import Admission
from engine.hashing import FULL_MASK
from engine.query.model import StreamSpec, Tree
from engine.query.order import one_key, show
from tests.engine.local import Local, Meddler, Rows, stream

S = 1_000_000
FORMS = ("none", "file", "range", "on", "on+range", "file+on")
ROWS = {
    2: 60,
    3: 36,
    4: 20,
    5: 13,
    6: 9,
}  # of each stream over all ticks: results stay below some thousands


@dataclass(frozen=True)
class Query:
    """A query over streams s0, s1, …; stream i has the key columns k<c> of its classes."""

    classes: tuple[tuple[int, ...], ...]  # of each stream
    edges: tuple[
        tuple[int, int, tuple[int, ...]], ...
    ]  # stream, an earlier one, classes made equal
    bounds: tuple[tuple[int, int, int], ...]  # early, late, microseconds: as written
    ranges: Mapping[int, int]  # seconds
    conditions: tuple[tuple[int, str], ...]  # in ON of a stream
    window: int | None
    delays: tuple[float, ...]
    idle: tuple[float | None, ...]

    @property
    def size(self) -> int:
        return len(self.classes)

    @property
    def timed(self) -> set[int]:
        return {n for early, late, _ in self.bounds for n in (early, late)}

    @property
    def spans(self) -> list[frozenset[int]]:
        numbers = sorted({c for mine in self.classes for c in mine})
        return [frozenset(i for i, mine in enumerate(self.classes) if c in mine) for c in numbers]

    def sql(self) -> str:
        parts = [self._from(0)]
        for i, parent, shared in self.edges:
            equal = [f"s{parent}.k{c} = s{i}.k{c}" for c in shared]
            timely = [text for at, text in self.conditions if at == i]
            parts.append(f"JOIN {self._from(i)} ON {' AND '.join(equal + timely)}")
        return f"SELECT {', '.join(f's{i}.id AS i{i}' for i in range(self.size))} FROM {' '.join(parts)}"

    def _from(self, i: int) -> str:
        return f"s{i} [RANGE {self.ranges[i]} SECONDS]" if i in self.ranges else f"s{i}"

    def streams(self) -> list[StreamSpec]:
        return [
            stream(
                f"s{i}",
                ", ".join(["id bigint", "ts timestamp", *(f"k{c} {kind(i, c)}" for c in mine)]),
                time="ts",
                delay=self.delays[i],
                idle=self.idle[i],
            )
            for i, mine in enumerate(self.classes)
        ]

    def expected(self, accepted: Sequence[pa.Table]) -> Counter[tuple[int, ...]]:
        """The batch join over the accepted rows."""
        con = duckdb.connect()
        con.execute("SET threads = 1; SET TimeZone = 'UTC'")
        for i, table in enumerate(accepted):
            con.register(f"s{i}", table)
        where = [f"s{p}.k{c} = s{i}.k{c}" for i, p, shared in self.edges for c in shared]
        where += [
            f"epoch_us(s{late}.ts) - epoch_us(s{early}.ts) <= {us}"
            for early, late, us in self.bounds
        ]
        ids = ", ".join(f"s{i}.id" for i in range(self.size))
        tables = ", ".join(f"s{i}" for i in range(self.size))
        return Counter(
            con.execute(f"SELECT {ids} FROM {tables} WHERE {' AND '.join(where)}").fetchall()
        )

    def random_order(self, rng: np.random.Generator) -> str:
        """Some tree that gives the same rows: two by two, or more at once where they share one key."""
        tree = self._tree(tuple(range(self.size)), rng)
        return show(_flatter(tree, self.spans, rng), [f"s{i}" for i in range(self.size)])

    def _tree(self, members: tuple[int, ...], rng: np.random.Generator) -> Tree:
        if len(members) == 1:
            return members[0]
        ways = [
            (left, right)
            for left, right in _splits(members)
            if self._meet(left, right) and self._connected(left) and self._connected(right)
        ]
        left, right = ways[rng.integers(len(ways))]
        return self._tree(left, rng), self._tree(right, rng)

    def _meet(self, left: Sequence[int], right: Sequence[int]) -> bool:
        return any(span & set(left) and span & set(right) for span in self.spans)

    def _connected(self, members: Sequence[int]) -> bool:
        reached, grown = {members[0]}, True
        while grown:
            more = {i for span in self.spans if span & reached for i in span} & set(members)
            grown, reached = not more <= reached, reached | more
        return reached == set(members)


def kind(i: int, c: int) -> str:
    """Key columns of one class differ in width."""
    return "int" if (i + c) % 3 == 0 else "bigint"


def _splits(members: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    masks = range(1, (1 << len(members)) - 1)
    return [
        (
            tuple(m for n, m in enumerate(members) if mask >> n & 1),
            tuple(m for n, m in enumerate(members) if not mask >> n & 1),
        )
        for mask in masks
    ]


def _flatter(tree: Tree, spans: Sequence[frozenset[int]], rng: np.random.Generator) -> Tree:
    """Sometimes one operator instead of two, where one key serves all parts."""
    if isinstance(tree, int):
        return tree
    parts = [_flatter(part, spans, rng) for part in tree]
    for at, part in enumerate(parts):
        if not isinstance(part, int) and rng.random() < 0.4:
            flat = [*parts[:at], *part, *parts[at + 1 :]]
            if one_key(spans, [frozenset(leaves(p)) for p in flat]):
                return tuple(flat)
    return tuple(parts)


def leaves(tree: Tree) -> tuple[int, ...]:
    return (
        (tree,) if isinstance(tree, int) else tuple(leaf for part in tree for leaf in leaves(part))
    )


@st.composite
def queries(draw: st.DrawFn, most: int = 6, forms: Sequence[str] = FORMS) -> Query:
    size = draw(st.integers(2, most))
    shape = draw(st.sampled_from(["chain", "star", "any", "one"]))
    classes: list[list[int]] = [[] for _ in range(size)]
    edges, fresh = [], 0
    for i in range(1, size):
        parent = {"chain": i - 1, "star": 0, "one": 0}.get(shape, draw(st.integers(0, i - 1)))
        shared = []
        for part in range(2 if draw(st.integers(0, 7)) == 0 else 1):
            again = classes[parent] and (shape == "one" or (shape == "any" and draw(st.booleans())))
            c = classes[parent][0] if again and not part else fresh
            fresh += c == fresh
            for one in (parent, i):
                if c not in classes[one]:
                    classes[one].append(c)
            shared.append(c)
        edges.append((i, parent, tuple(shared)))
    form = draw(st.sampled_from(list(forms)))
    bounds: list[tuple[int, int, int]] = []
    ranges: dict[int, int] = {}
    conditions: list[tuple[int, str]] = []
    window = None
    if "file" in form:
        window = draw(st.integers(0, 8))
        bounds += [(i, j, window * S) for i in range(size) for j in range(size) if i != j]
    if "range" in form:
        for i in draw(st.sets(st.integers(0, size - 1), min_size=1)):
            ranges[i] = draw(st.integers(0, 8))
            bounds += [(i, j, ranges[i] * S) for j in range(size) if j != i]
    if "on" in form:
        chosen = draw(
            st.lists(st.integers(1, size - 1), min_size=1, max_size=size - 1, unique=True)
        )
        for i in chosen:
            _condition(draw, i, draw(st.integers(0, i - 1)), bounds, conditions)
    delays = tuple(draw(st.sampled_from([0.0, 0.5, 2.0, 5.0])) for _ in range(size))
    patience = st.sampled_from([None, None, 3.0])
    return Query(
        tuple(map(tuple, classes)),
        tuple(edges),
        tuple(bounds),
        ranges,
        tuple(conditions),
        window,
        delays,
        tuple(draw(patience) for _ in range(size)),
    )


def _condition(
    draw: st.DrawFn,
    i: int,
    j: int,
    bounds: list[tuple[int, int, int]],
    conditions: list[tuple[int, str]],
) -> None:
    """t_i - t_j between low and high, or only one of both."""
    low = draw(st.integers(-6, 3))
    high = low + draw(st.integers(0, 9))
    sides = draw(st.sampled_from(["both", "both", "low", "high"]))
    if sides == "both":
        conditions.append(
            (i, f"s{i}.ts BETWEEN s{j}.ts + {_interval(low)} AND s{j}.ts + {_interval(high)}")
        )
    elif sides == "low":
        conditions.append((i, f"s{i}.ts >= s{j}.ts + {_interval(low)}"))
    else:
        conditions.append((i, f"s{i}.ts - {_interval(high)} <= s{j}.ts"))
    bounds += [(j, i, high * S)] * (sides != "low") + [(i, j, -low * S)] * (sides != "high")


def _interval(seconds: int) -> str:
    return f"INTERVAL '{seconds}' SECOND"


@dataclass(frozen=True)
class Life:
    """What happens to a query: its data, cut into ticks, and everything that must not matter."""

    seed: int
    ticks: int = 4
    disorder: float = 1.0  # seconds
    late: float = 0.05
    silent: float = 0.1  # of a stream in a tick
    nodes: tuple[int, ...] = (2,)  # more than one: restarts
    groups: int = 16
    mask: int = FULL_MASK
    segment_bytes: int = 8_000_000
    holds: float = 0.0
    tasks: int = 1
    step: float = 2.0  # seconds of event time in a tick
    domain: int = 4


lives = st.builds(
    Life,
    seed=st.integers(0, 2**32),
    ticks=st.integers(1, 7),
    disorder=st.sampled_from([0.0, 1.0, 6.0]),
    late=st.sampled_from([0.0, 0.1]),
    silent=st.sampled_from([0.0, 0.3]),
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    groups=st.sampled_from([4, 16, 200]),
    mask=st.sampled_from([FULL_MASK, FULL_MASK, 0, 1 << 63]),
    segment_bytes=st.sampled_from([8_000_000, 600]),
    holds=st.sampled_from([0.0, 0.4]),
    tasks=st.integers(1, 3),
    domain=st.sampled_from([1, 4, 9]),
)


@dataclass
class Told:
    """What was fed, and the model's opinion of it."""

    fed: dict[int, list[pa.Table]] = field(default_factory=dict)
    tick_of: dict[int, int] = field(default_factory=dict)  # version, by id
    late: set[int] = field(default_factory=set)
    null: set[int] = field(default_factory=set)

    def accepted(self, i: int) -> pa.Table:
        whole = pa.concat_tables(self.fed[i])
        good = [
            id_ not in self.late and id_ not in self.null for id_ in whole.column("id").to_pylist()
        ]
        return whole.filter(pa.array(good, pa.bool_()))


def live(
    root: Path,
    query: Query,
    life: Life,
    order: str | None,
    *,
    size: int = 0,
    meddler: Meddler | None = None,
) -> tuple[Local, Told]:
    """The query's whole life; the same rows whatever the order."""
    rng, other = np.random.default_rng(life.seed), np.random.default_rng(life.seed + 1)
    groups = max(life.groups, *life.nodes)
    local = Local(
        root,
        query.sql(),
        query.streams(),
        life.nodes[0],
        groups,
        query.window,
        order,
        life.mask,
        life.segment_bytes,
    )
    told, seen = Told(), {}
    for tick in range(life.ticks):
        rows: Rows = {f"s{i}": _rows(query, i, life, tick, rng, size) for i in range(query.size)}
        local.clock.now += float(rng.integers(0, 3))
        if meddler is not None:
            meddler.boundary(local)
        marks = local.ticker.marks()
        if not any(query.idle):
            assert marks == {f"s{i}": at - round(query.delays[i] * S) for i, at in seen.items()}, (
                "the model's watermarks"
            )
        _judge(query, rows, marks, told, seen, version=local.ticker.manifest.version + 1)
        local.tick(rows, _admissions(local, life, other, release=False), tasks=life.tasks)
        if life.holds and other.random() < 0.5:
            local.tick(None, _admissions(local, life, other, release=True))
        if len(life.nodes) > 1 and tick + 1 < life.ticks:
            local.start(life.nodes[(tick + 1) % len(life.nodes)])
    if meddler is not None:
        meddler.finish(local)
    local.drain()
    return local, told


def _rows(
    query: Query, i: int, life: Life, tick: int, rng: np.random.Generator, size: int
) -> pa.Table:
    """`size`: about so many rows, instead of what fits the number of streams."""
    most = size or max(1, ROWS[query.size] * (2 if life.domain > 4 else 1) // life.ticks)
    count = 0 if rng.random() < life.silent else int(rng.integers(0, 2 * most + 1))
    if life.domain == 1:
        count = min(count, 4 if query.size < 5 else 2)
    seconds = (
        tick * life.step + rng.uniform(0, life.step, count) - rng.uniform(0, life.disorder, count)
    )
    seconds = np.round(
        seconds - np.where(rng.random(count) < life.late, rng.uniform(5, 30, count), 0), 1
    )
    ids = 1_000_000 * (i + 1) + 1000 * tick + np.arange(count)
    times = pa.array(
        (1_700_000_000 * S + seconds * S).astype(np.int64), mask=rng.random(count) < 0.03
    )
    columns = {"id": pa.array(ids), "ts": times.cast(pa.timestamp("us", tz="UTC"))}
    for c in query.classes[i]:
        columns[f"k{c}"] = pa.array(
            rng.integers(0, life.domain, count), mask=rng.random(count) < 0.03
        )
    return pa.table(columns)


def _judge(
    query: Query,
    rows: Rows,
    marks: Mapping[str, int],
    told: Told,
    seen: dict[int, int],
    version: int,
) -> None:
    """Which rows of a tick are null, which late: by the definition, row by row."""
    for i in range(query.size):
        table = rows[f"s{i}"]
        told.fed.setdefault(i, []).append(table)
        stamps = table.column("ts").cast(pa.int64()).to_pylist()
        keys = [table.column(f"k{c}").to_pylist() for c in query.classes[i]]
        for at, id_ in enumerate(table.column("id").to_pylist()):
            told.tick_of[id_] = version
            if any(k[at] is None for k in keys) or (i in query.timed and stamps[at] is None):
                told.null.add(id_)
            elif i in query.timed:
                seen[i] = max(seen.get(i, stamps[at]), stamps[at])
                if f"s{i}" in marks and stamps[at] < marks[f"s{i}"]:
                    told.late.add(id_)


def _admissions(
    local: Local, life: Life, rng: np.random.Generator, *, release: bool
) -> dict[str, Admission]:
    if not life.holds:
        return {}
    out = {}
    for op in local.ticker.setup.flow.ops:
        some = tuple(np.flatnonzero(rng.random(op.groups) < life.holds).tolist())
        out[op.id] = Admission((), some) if release else Admission(some, ())
    return out
