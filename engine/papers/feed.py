"""An experiment's input: three streams from the generator, one file for each tick.

Files, so that every line of a figure has the same ticks whatever the machine does meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.sources import generator

STREAMS = ("a", "b", "c")
SQL = "SELECT a.k, a.va, b.vb, c.vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
EPOCH_S = 1_700_000_000
SPEED = 10.0  # times the paper's rates is the pace that the engine is to keep


@dataclass(frozen=True)
class Feed:
    """`knobs` are the generator's options; `rate` rows a second and stream; a tick takes in `tick_s` seconds of them.
    `factor`: times the paper's rows, which is in `rate` and the tuple range already."""

    minutes: int
    rate: float
    knobs: Mapping[str, str] = field(default_factory=dict)
    groups: int = 300
    tick_s: float = 60.0
    factor: float = 1.0

    @property
    def rows_per_tick(self) -> int:
        return round(self.tick_s * self.rate)

    @property
    def ticks(self) -> int:
        return round(60 * self.minutes / self.tick_s)

    @property
    def clock_s(self) -> float:
        """A tick's input by the clock, if rows came at SPEED times the paper's rates."""
        return self.tick_s * self.factor / SPEED

    @property
    def key(self) -> str:
        about = json.dumps(
            [self.minutes, self.rate, self.groups, self.tick_s, sorted(self.knobs.items())]
        )
        return hashlib.blake2b(about.encode(), digest_size=6).hexdigest()

    def make(self, under: Path) -> Path:
        """The folder with one sub-folder for each stream; made on first use."""
        return once(under / f"feed-{self.key}", self._write)

    def _write(self, folder: Path) -> None:
        options = {
            "rate": f"{self.rate:g}",
            "groups": str(self.groups),
            "seed": "1",
            **self.knobs,
        }
        for name in STREAMS:
            (folder / name).mkdir(parents=True)
            seed, rows = generator.stream_seed(name), self.rows_per_tick
            for tick in range(self.ticks):
                batch = generator.batch(options, seed, tick * rows, (tick + 1) * rows)
                path = folder / name / f"{tick:04d}.parquet"
                pq.write_table(_named(batch, name), path)
                os.utime(path, (EPOCH_S + tick, EPOCH_S + tick))


def once(folder: Path, write: Callable[[Path], None]) -> Path:
    """The folder, written on first use, and there as a whole or not at all."""
    if folder.is_dir():
        return folder
    part = folder.with_suffix(f".{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    write(part)
    part.rename(folder)
    return folder


def _named(batch: pa.RecordBatch, name: str) -> pa.Table:
    return pa.Table.from_batches([batch]).rename_columns(["k", "ts", f"v{name}"])


def query_file(folder: Path, place: Path, feed: Feed, nodes: int, extra: str) -> Path:
    """The query over a feed, with its checkpoint and results in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    lines = [
        'name = "experiment"',
        f'sql = "{SQL}"',
        f"nodes = {nodes}\ngroups = {feed.groups}",
        f'checkpoint = "cp"\n{extra}',
    ]
    for name in STREAMS:
        lines += [
            f'[streams.{name}]\nformat = "parquet"',
            f'path = "{os.path.relpath(folder / name, place)}"',
            f'schema = "k long, ts timestamp, v{name} long"',
            'options = { maxFilesPerTrigger = "1" }',
        ]
    path = place / "q.toml"
    path.write_text("\n".join([*lines, '[sink]\nformat = "parquet"\npath = "out"', ""]))
    return path
