"""`python -m tests.bench.reordered`: a join in another order half way through its input, with Spark and with us.

Spark: A ⋈ B ⋈ C on named sources takes in half of the files, is stopped, and is started again on the same checkpoint as
A ⋈ C ⋈ B, with source evolution on, which is what allows a checkpoint other sources. Beside it the same restart in the
same order, which shows that nothing else is amiss. Spillway: a migration at the same place. All outputs are compared with
DuckDB's join of everything, row by row. A Spark that refuses says so here, in its own words: then there is nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.data import BENCH_DIR, ROOT, connect
from tests.bench.exact import Difference, difference
from tests.bench.report import machine
from tests.bench.sides import forget, supervised

ROWS = 300_000  # of each stream
FILES = 8
NAMES = "abc"
FIRST, OTHER = "abc", "acb"
WAYS = {
    FIRST: "Spark, stopped and started in the same order",
    OTHER: "Spark, started again in another order",
    "spillway": "Spillway, migrated while it runs",
}
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def sql_of(order: str) -> str:
    first, *more = order
    joins = "".join(f" JOIN {name} ON {first}.k = {name}.k" for name in more)
    return f"SELECT a.v AS va, b.v AS vb, c.v AS vc FROM {first}{joins}"


def prepare(folder: Path, rows: int) -> None:
    """Files of alike streams, DuckDB's join of them, and our query."""
    rng = np.random.default_rng(5)
    lines = ['name = "reordered"', f'sql = "{sql_of(FIRST)}"', "nodes = 2", "groups = 64"]
    lines += ['join_order = "((a b) c)"', 'checkpoint = "checkpoint"']
    for at, name in enumerate(NAMES):
        (folder / name).mkdir(parents=True)
        for number in range(FILES):
            columns = {
                "k": rng.integers(0, rows // 2, rows // FILES),
                "v": np.arange(rows // FILES) + 10_000_000 * at + number * (rows // FILES),
            }
            pq.write_table(pa.table(columns), folder / name / f"{number:04d}.parquet")
        lines += [f"[streams.{name}]", f'format = "parquet"\npath = "{name}"']
        lines += ['schema = "k long, v long"', 'options = { maxFilesPerTrigger = "1" }']
    lines += ['[sink]\nformat = "parquet"\npath = "out-spillway"', ""]
    (folder / "query.toml").write_text("\n".join(lines))
    order = f'[[at]]\ntick = {FILES // 2}\ndo = "migrate"\njoin_order = "((a c) b)"\n'
    (folder / "script.toml").write_text(order)
    (folder / "wanted").mkdir()
    with connect() as connection:
        for name in NAMES:
            connection.execute(
                f"CREATE VIEW {name} AS FROM read_parquet('{folder / name}/*.parquet')"
            )
        out = folder / "wanted" / "all.parquet"
        connection.execute(f"COPY ({sql_of(FIRST)}) TO '{out}' (FORMAT parquet)")


def with_spark(folder: Path, second: str) -> dict[str, Any]:
    """In a process of its own: half of the files in one order, then all of them in the other. `refused`: why not."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config(EVOLUTION, "true")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    live = folder / f"live-{second}"
    for name in NAMES:
        (live / name).mkdir(parents=True)
    try:
        for part, order in enumerate((FIRST, second)):
            for name in NAMES:
                files = sorted((folder / name).glob("*.parquet"))
                half = files[: FILES // 2] if part == 0 else files[FILES // 2 :]
                for file in half:
                    shutil.copy(file, live / name)
            _once(session, live, order, folder / f"out-{second}", folder / f"checkpoint-{second}")
    except (PySparkException, Py4JError, AttributeError) as error:
        return {"refused": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"}
    finally:
        session.stop()
    return {"refused": ""}


def _once(session: Any, live: Path, order: str, out: Path, checkpoint: Path) -> None:
    """One life of Spark's query: all files that are new."""
    for name in NAMES:
        reader = session.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1)
        reader.name(name).parquet(str(live / name)).createOrReplaceTempView(name)
    writer = session.sql(sql_of(order)).writeStream.format("parquet").outputMode("append")
    writer = writer.option("path", str(out)).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def with_spillway(folder: Path) -> dict[str, Any]:
    """Our migration, by the command line. `refused`: what became of it, unless it was done."""
    report = folder / "actions.json"
    asked = ["query", "run", str(folder / "query.toml"), "--once"]
    asked += ["--script", str(folder / "script.toml"), "--report", str(report)]
    supervised("spillway", [sys.executable, str(ROOT / "run.py"), *asked], folder)
    (action,) = json.loads(report.read_text())["actions"]
    return {"refused": "" if action["state"] == "done" else f"{action['state']}: {action['note']}"}


@dataclass(frozen=True)
class Line:
    """One way, and how right it is. `refused`: then nothing is known."""

    way: str
    refused: str
    found: Difference | None

    def row(self) -> str:
        if self.found is None:
            return f"| {self.way} | refused: {self.refused} | | | |"
        known = self.found
        figures = f"{known.rows:,} | {known.missing:,} | {known.extra:,}"
        return f"| {self.way} | {'exact' if known.exact else '**wrong**'} | {figures} |"


def compare(folder: Path, rows: int, ways: Sequence[str] = tuple(WAYS)) -> list[Line]:
    """Some ways over the same files."""
    prepare(folder, rows)
    out = []
    for second in ways:
        way = WAYS[second]
        if second == "spillway":
            said = with_spillway(folder)
        else:
            command = [sys.executable, "-m", "tests.bench.reordered", "--spark", second]
            said, _ = supervised("spark", [*command, "--folder", str(folder)], folder)
        output = folder / f"out-{second}"
        refused = str(said["refused"])
        out.append(Line(way, refused, None if refused else difference(output, folder / "wanted")))
    return out


def page(lines: list[Line], rows: int) -> str:
    import pyspark

    about = machine()
    return "\n".join(
        [
            "# A join in another order, half way through its input",
            "",
            f"Written by `python -m tests.bench.reordered`; Spark {pyspark.__version__}, commit {about['commit']}. Three "
            f"streams of {rows:,} rows, in {FILES} files each, joined on one key without windows; compared with DuckDB's "
            "join of all of them, as multisets.",
            "",
            "| way | | results | missing | spurious |",
            "|---|---|---|---|---|",
            *(line.row() for line in lines),
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.reordered")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--spark", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.spark:
        print(json.dumps(with_spark(options.folder, options.spark)))
        return 0
    scratch = BENCH_DIR / "reordered"
    shutil.rmtree(scratch, ignore_errors=True)
    lines = compare(scratch, options.rows)
    text = page(lines, options.rows)
    folder = ROOT / "docs" / "benchmarks" if options.rows == ROWS else BENCH_DIR / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reordered.md").write_text(text)
    forget(scratch)
    print(text)
    return 0 if lines[-1].found is not None and lines[-1].found.exact else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
