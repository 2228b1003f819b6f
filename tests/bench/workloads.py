"""The workloads by name: which streams, which rows, which query, which bars. Running them is not here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[np.int64]]
Generate = Callable[["Workload", str, np.random.Generator], Columns]

TYPE_BYTES = {"long": 8, "timestamp": 8}
DUCKDB_TYPES = {"long": "BIGINT", "timestamp": "TIMESTAMPTZ"}


@dataclass(frozen=True)
class Stream:
    """One input: its columns as Spark DDL types, and which of them the join has to keep."""

    name: str
    columns: dict[str, str]
    stored: tuple[str, ...]

    @property
    def schema(self) -> str:
        return ", ".join(f"{column} {kind}" for column, kind in self.columns.items())

    @property
    def stored_bytes_per_row(self) -> int:
        return sum(TYPE_BYTES[self.columns[column]] for column in self.stored)


@dataclass(frozen=True)
class Bar:
    """What performance.md asks for: a ratio to reach (`least`) or to stay under (`most`), and the aim."""

    least: float
    aim: float


@dataclass(frozen=True)
class Workload:
    """`rows` and `files` are per stream; `select`/`source` are the two halves of the query."""

    name: str
    title: str
    streams: tuple[Stream, ...]
    select: str
    source: str
    rows: int
    files: int
    files_per_trigger: tuple[int, ...]
    generate: Generate
    spark_bars: dict[int, Bar] = field(default_factory=dict)
    duckdb_bars: dict[int, Bar] = field(default_factory=dict)
    window_s: float = 0.0  # bounds are in `source`, for all sides alike; this is for time and state
    spacing_us: int = 1000  # between two rows of a stream
    tree: bool = False  # combined rows are kept too: no limit of the state follows from the inputs
    seed: int = 7

    @property
    def sql(self) -> str:
        return f"SELECT {self.select} FROM {self.source}"

    @property
    def key(self) -> str:
        spaced = f"-{self.spacing_us}us" if self.window_s else ""
        return f"{self.name}-{self.rows}x{self.files}{spaced}-seed{self.seed}"

    def scaled(self, rows: int) -> Workload:
        return replace(self, rows=rows)

    def ticks(self, files_per_trigger: int) -> int:
        return -(-self.files // files_per_trigger)

    def live_rows(self, files_per_trigger: int) -> int:
        """Rows of a stream that a state has to hold at the end: all, or the window's and two ticks' more (one
        that comes in, one by which whole runs may outlive their oldest row)."""
        if not self.window_s:
            return self.rows
        tick = self.rows * files_per_trigger // self.files
        return min(self.rows, int(self.window_s * 1e6 / self.spacing_us) + 2 * tick)

    def payload_bytes(self, rows: int) -> int:
        return rows * sum(stream.stored_bytes_per_row for stream in self.streams)

    def state_bytes_limit(self, files_per_trigger: int) -> int:
        """1.3 × the Arrow bytes of the stored columns + 16 bytes per row."""
        rows = self.live_rows(files_per_trigger)
        return int(1.3 * self.payload_bytes(rows)) + 16 * rows * len(self.streams)


def _stream(name: str) -> Stream:
    return Stream(name, {"k": "long", "ts": "timestamp", f"v{name}": "long"}, ("k", f"v{name}"))


def _rest(workload: Workload, name: str) -> Columns:
    """Time, and a value that tells every row from every other."""
    rows = workload.rows
    start = np.int64(1_700_000_000_000_000)  # µs
    offset = np.int64("abcdefgh".index(name) * 1_000_000_000)
    return {
        "ts": start + np.arange(rows, dtype=np.int64) * workload.spacing_us,
        f"v{name}": offset + np.arange(rows, dtype=np.int64),
    }


def _columns(workload: Workload, keys: npt.NDArray[np.int64], name: str) -> Columns:
    return {"k": keys.astype(np.int64)} | _rest(workload, name)


def uniform(workload: Workload, name: str, rng: np.random.Generator) -> Columns:
    """Every key as likely as any other; 3.33 rows of each key in each stream."""
    distinct = max(1, int(workload.rows / 3.33))
    return _columns(workload, rng.integers(0, distinct, workload.rows), name)


def skewed(workload: Workload, name: str, rng: np.random.Generator) -> Columns:
    """Stream a: 80 % of the rows on 20 % of the keys. The others uniform, 6.67 rows of each key."""
    distinct = max(5, int(workload.rows / 6.67))
    keys = rng.integers(0, distinct, workload.rows)
    if name == "a":
        hot = distinct // 5
        on_hot = rng.random(workload.rows) < 0.8
        cold = rng.integers(hot, distinct, workload.rows)
        keys = np.where(on_hot, rng.integers(0, hot, workload.rows), cold)
    # Spread the hot keys over the whole range: nothing may depend on their being small.
    scrambled = np.random.default_rng(workload.seed).permutation(distinct)
    return _columns(workload, scrambled[keys], name)


def sparse(workload: Workload, name: str, rng: np.random.Generator) -> Columns:
    """Twenty keys for every row: much state, few results."""
    return _columns(workload, rng.integers(0, 20 * workload.rows, workload.rows), name)


def in_window(workload: Workload, name: str, rng: np.random.Generator) -> Columns:
    """Uniform keys, as many that a row has 3.33 partners within the window on both sides of it."""
    near = 2 * workload.window_s * 1e6 / workload.spacing_us
    return _columns(workload, rng.integers(0, max(1, int(near / 3.33)), workload.rows), name)


CHAIN_KEYS = {"a": ("x",), "b": ("x", "y"), "c": ("y", "z"), "d": ("z",)}
UNEVEN = {"x": 150.0, "y": 1.0, "z": 0.02}


def chained(workload: Workload, name: str, rng: np.random.Generator) -> Columns:
    """Uniform keys of each class, two partners for each row and hop within the window on both sides."""
    return _chained(workload, name, rng, dict.fromkeys("xyz", 2.0))


def unevenly_chained(workload: Workload, name: str, rng: np.random.Generator) -> Columns:
    """The same, with many partners on one hop and few on the others."""
    return _chained(workload, name, rng, UNEVEN)


def _chained(
    workload: Workload, name: str, rng: np.random.Generator, partners: Mapping[str, float]
) -> Columns:
    keys = {
        key: rng.integers(0, distinct(workload, partners[key]), workload.rows)
        for key in CHAIN_KEYS[name]
    }
    return keys | _rest(workload, name)


def distinct(workload: Workload, partners: float) -> int:
    """Keys of a class so that a row has as many partners within the window on both sides."""
    near = 2 * workload.window_s * 1e6 / workload.spacing_us
    return max(1, int(near / partners))


def _chain_stream(name: str) -> Stream:
    keys = dict.fromkeys(CHAIN_KEYS[name], "long")
    columns = {**keys, "ts": "timestamp", f"v{name}": "long"}
    return Stream(name, columns, tuple(columns))


def _near(one: str, other: str, seconds: int) -> str:
    span = f"INTERVAL {seconds} SECONDS"
    return f"{one}.ts BETWEEN {other}.ts - {span} AND {other}.ts + {span}"


_ABC = tuple(_stream(name) for name in "abc")
_TRI_SELECT = "a.k, a.va, b.vb, c.vc"
_TRI_SOURCE = "a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="tri",
            title="W1 tri: A.k = B.k = C.k, unbounded, uniform keys",
            streams=_ABC,
            select=_TRI_SELECT,
            source=_TRI_SOURCE,
            rows=1_000_000,
            files=20,
            files_per_trigger=(1, 5),
            generate=uniform,
            spark_bars={1: Bar(5, 8), 5: Bar(5, 10)},
            duckdb_bars={5: Bar(6, 4)},
        ),
        Workload(
            name="tri-long",
            title="W1L tri-long: as W1, four times the rows",
            streams=_ABC,
            select=_TRI_SELECT,
            source=_TRI_SOURCE,
            rows=4_000_000,
            files=80,
            files_per_trigger=(4,),
            generate=uniform,
            spark_bars={4: Bar(10, 10)},
        ),
        Workload(
            name="skew",
            title="W3 skew: 80 % of A's rows on 20 % of its keys, B and C uniform",
            streams=_ABC,
            select=_TRI_SELECT,
            source=_TRI_SOURCE,
            rows=300_000,
            files=20,
            files_per_trigger=(1, 5),
            generate=skewed,
            spark_bars={1: Bar(4, 8), 5: Bar(4, 8)},
        ),
        Workload(
            name="window2",
            title="W2 window2: A.k = B.k within 60 s, a tenth of the data inside the window",
            streams=tuple(
                Stream(
                    name,
                    {"k": "long", "ts": "timestamp", f"v{name}": "long"},
                    ("k", "ts", f"v{name}"),
                )
                for name in "ab"
            ),
            select="a.k, a.va, b.vb",
            source=f"a JOIN b ON a.k = b.k AND {_near('a', 'b', 60)}",
            rows=2_000_000,
            files=20,
            files_per_trigger=(1, 5),
            generate=in_window,
            spark_bars={1: Bar(4, 8), 5: Bar(4, 8)},
            window_s=60,
            spacing_us=300,
        ),
        Workload(
            name="chain4",
            title="W4 chain4: A.x = B.x, B.y = C.y, C.z = D.z within 60 s",
            streams=tuple(_chain_stream(name) for name in "abcd"),
            select="a.x, b.y, c.z, a.va, b.vb, c.vc, d.vd",
            source=(
                f"a JOIN b ON a.x = b.x AND {_near('a', 'b', 60)} "
                f"JOIN c ON b.y = c.y AND {_near('c', 'a', 60)} AND {_near('c', 'b', 60)} "
                f"JOIN d ON c.z = d.z AND {_near('d', 'a', 60)} AND {_near('d', 'b', 60)} "
                f"AND {_near('d', 'c', 60)}"
            ),
            rows=200_000,
            files=20,
            files_per_trigger=(1, 5),
            generate=chained,
            spark_bars={1: Bar(4, 8), 5: Bar(4, 8)},
            window_s=60,
            spacing_us=3000,
            tree=True,
        ),
    )
}

# Not compared with anybody: state to be read back after a crash. See recovery.py.
RECOVERY = Workload(
    name="recovery",
    title="Recovery: time to be back after kill −9, against reading the state from disk",
    streams=_ABC,
    select=_TRI_SELECT,
    source=_TRI_SOURCE,
    rows=16_000_000,
    files=32,
    files_per_trigger=(1,),
    generate=sparse,
)

# W4 for whoever looks for a better order: what the first join makes, the last one throws away. See better_order.py.
UNEVEN_CHAIN = replace(
    WORKLOADS["chain4"],
    name="chain4-uneven",
    title="W4 chain4 with uneven selectivities",
    rows=400_000,
    files=40,
    generate=unevenly_chained,
)
