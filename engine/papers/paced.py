"""An experiment's input by the clock: streams joined in a chain, in files that appear when their last row is due.

What a migration takes is seconds of the machine, how long the parallel track lasts is seconds of event time: to put the
two beside each other, rows have to come as fast as their times say. Files made before and put in place by the clock
give every line of a figure the same rows, take no time from the engine, and tell to the row what is due. Before the clock
begins some seconds of input come as fast as ticks go, a piece each, so that windows are full when it does.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.papers.feed import once

EPOCH_S = 1_700_000_000
NAMES = "abcdefgh"
HEADS = (
    9  # ticks before the clock begins: state goes by runs, none of which is to be much of a window
)


@dataclass(frozen=True)
class Chain:
    """Each stream has a key with the next one: `keys` distinct values, all alike. `rates`: rows a second."""

    rates: tuple[float, ...]
    keys: tuple[int, ...]
    window_s: float
    head_s: float  # of input before the clock begins
    live_s: float  # by the clock
    piece_s: float = 0.25
    pieces_a_tick: int = 8  # at most, of each stream: what is more waits
    seed: int = 1

    @property
    def names(self) -> str:
        return NAMES[: len(self.rates)]

    @property
    def sql(self) -> str:
        values = ", ".join(f"{name}.v{name}" for name in self.names)
        joins = "".join(
            f" JOIN {after} ON {before}.k{hop} = {after}.k{hop}"
            for hop, (before, after) in enumerate(zip(self.names, self.names[1:], strict=False))
        )
        return f"SELECT {values} FROM {self.names[0]}{joins}"

    def hops(self, stream: int) -> list[int]:
        """The keys that a stream has."""
        return [hop for hop in (stream - 1, stream) if 0 <= hop < len(self.keys)]

    def schema(self, stream: int) -> str:
        name = self.names[stream]
        keys = "".join(f"k{hop} long, " for hop in self.hops(stream))
        return f"{keys}ts timestamp, v{name} long"

    def rows(self, stream: int, until_s: float) -> int:
        """Rows whose time is before `until_s` seconds after the beginning."""
        return int(np.ceil(until_s * self.rates[stream] - 1e-9))

    def due_rows(self, live_s: float) -> int:
        """Of all streams, after so many seconds by the clock."""
        until = self.head_s + min(live_s, self.end_s)
        return sum(self.rows(stream, until) for stream in range(len(self.rates)))

    @property
    def pieces(self) -> int:
        return round(self.live_s / self.piece_s)

    @property
    def end_s(self) -> float:
        """By the clock, when the last piece is due."""
        return self.pieces * self.piece_s

    @property
    def key(self) -> str:
        return hashlib.blake2b(json.dumps(asdict(self)).encode(), digest_size=6).hexdigest()

    def make(self, under: Path) -> Path:
        """The folder with a sub-folder for each stream; made on first use."""
        return once(under / f"chain-{self.key}", self._write)

    def _write(self, folder: Path) -> None:
        for stream, name in enumerate(self.names):
            (folder / name).mkdir(parents=True)
            self._write_stream(stream, folder / name)

    def _write_stream(self, stream: int, folder: Path) -> None:
        total = self.rows(stream, self.head_s + self.end_s)
        rng = np.random.default_rng([self.seed, stream])
        columns = {
            f"k{hop}": pa.array(rng.integers(0, self.keys[hop], total)) for hop in self.hops(stream)
        }
        offsets = np.arange(total)
        times = EPOCH_S * 1_000_000 + np.floor(offsets / self.rates[stream] * 1e6).astype(np.int64)
        columns["ts"] = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
        columns[f"v{self.names[stream]}"] = pa.array(offsets)
        table = pa.table(columns)
        ends = [self.head_s * (head + 1) / HEADS for head in range(HEADS)]
        ends += [self.head_s + self.piece_s * (piece + 1) for piece in range(self.pieces)]
        first = 0
        for number, end_s in enumerate(ends):
            last = self.rows(stream, end_s)
            path = folder / file_of(number)
            pq.write_table(table.slice(first, last - first), path)
            os.utime(path, (EPOCH_S + number, EPOCH_S + number))
            first = last

    def query_file(self, live: Path, place: Path, *, nodes: int, groups: int, order: str) -> Path:
        """The query over what appears in `live`, with its checkpoint and results in `place`; `live` is made where it is
        not there, as sources have to be."""
        lines = [
            'name = "experiment"',
            f'sql = "{self.sql}"',
            f'window = "{self.window_s:g} seconds"',
            f'join_order = "{order}"',
            f'nodes = {nodes}\ngroups = {groups}\ncheckpoint = "checkpoint"',
        ]
        for stream, name in enumerate(self.names):
            (live / name).mkdir(parents=True, exist_ok=True)
            lines += [
                f'[streams.{name}]\nformat = "parquet"',
                f'path = "{os.path.relpath(live / name, place)}"',
                f'schema = "{self.schema(stream)}"\ntime = "ts"',
                f'options = {{ maxFilesPerTrigger = "{self.pieces_a_tick}" }}',
            ]
        path = place / "query.toml"
        path.write_text("\n".join([*lines, '[sink]\nformat = "parquet"\npath = "out"', ""]))
        return path


def file_of(number: int) -> str:
    """Of each stream: HEADS for what comes before the clock, then the pieces."""
    return f"{number:05d}.parquet"


class Player(threading.Thread):
    """Puts a chain's files in place: one for each tick (`next_head`) until the clock begins with `begin`, then by the clock.
    `over` is called once, when nothing more is to come and some patience is over too."""

    def __init__(
        self,
        chain: Chain,
        made: Path,
        live: Path,
        patience_s: float,
        over: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name="player", daemon=True)
        self.chain, self.made, self.live = chain, made, live
        self.patience_s, self._over, self.now_s = patience_s, over, clock
        self.begun_s: float | None = None
        self._enough = threading.Event()
        self._heads = 0
        for name in chain.names:
            (live / name).mkdir(parents=True, exist_ok=True)
        self.next_head()

    def next_head(self) -> bool:
        """What the next tick is to have before the clock begins; False where there is nothing left of that."""
        if self._heads == HEADS:
            return False
        self._put(self._heads)
        self._heads += 1
        return True

    def _put(self, number: int) -> None:
        for name in self.chain.names:
            os.link(self.made / name / file_of(number), self.live / name / file_of(number))

    def begin(self) -> float:
        """Start the clock; when that is."""
        self.begun_s = self.now_s()
        self.start()
        return self.begun_s

    def due_s(self, row_s: float) -> float:
        """On the wall clock, when a row with this time (seconds after the beginning) is due."""
        assert self.begun_s is not None
        return self.begun_s + max(0.0, row_s - self.chain.head_s)

    def enough(self) -> None:
        """Nobody waits for more."""
        self._enough.set()

    def run(self) -> None:
        assert self.begun_s is not None
        for piece in range(self.chain.pieces):
            if self._waited(self.begun_s + (piece + 1) * self.chain.piece_s):
                return
            self._put(HEADS + piece)
        if not self._waited(self.begun_s + self.chain.live_s + self.patience_s):
            self._over()

    def _waited(self, until_s: float) -> bool:
        """Until then, or until it is enough: then True."""
        return self._enough.wait(max(0.0, until_s - self.now_s()))
