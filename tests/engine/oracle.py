"""Whole queries on Spark, compared with DuckDB's batch join over the same files, as multisets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from engine.adapt.policy import Policy
from engine.progress import RunSummary
from engine.query.file import read_query
from engine.reports import ReportPort, TickReport
from engine.runner import QueryRun
from engine.settings import Settings


class Kept:
    """A port that keeps the reports."""

    def __init__(self) -> None:
        self.reports: list[TickReport] = []

    def publish(self, report: TickReport) -> None:
        self.reports.append(report)


@dataclass(frozen=True)
class Case:
    """A query over Parquet streams in one folder: data/<stream>/NNN.parquet, one file per tick."""

    root: Path
    sql: str
    schemas: Mapping[str, str]  # stream -> Spark DDL
    nodes: int = 2
    groups: int = 16
    extra: str = ""
    stream_extra: str = ""

    @property
    def file(self) -> Path:
        return self.root / "q.toml"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def checkpoint(self) -> Path:
        return self.root / "cp"

    def write(self) -> Path:
        """The query file, and an empty folder for each stream."""
        text = [
            f'name = "case"\nsql = """{self.sql}"""\nnodes = {self.nodes}\ngroups = {self.groups}',
            f'checkpoint = "cp"\n{self.extra}\n[sink]\nformat = "parquet"\npath = "out"',
        ]
        for name, ddl in self.schemas.items():
            (self.root / "data" / name).mkdir(parents=True, exist_ok=True)
            text.append(
                f'[streams.{name}]\nformat = "parquet"\npath = "data/{name}"\nschema = "{ddl}"\n'
                f'options = {{ maxFilesPerTrigger = "1" }}\n{self.stream_extra}'
            )
        self.file.write_text("\n".join(text))
        return self.file

    def feed(self, stream: str, number: int, table: pa.Table) -> None:
        path = self.root / "data" / stream / f"{number:03d}.parquet"
        part = path.with_name(f".{path.name}.tmp")  # a name that Spark does not list
        pq.write_table(table, part)
        moment = 1_700_000_000 + number  # Spark takes the oldest first
        os.utime(part, (moment, moment))
        os.rename(part, path)

    def run(
        self,
        *ports: ReportPort,
        mask: int = (1 << 64) - 1,
        settings: Settings | None = None,
        adaptation: Policy | None = None,
        owed: str = "cleanup",
    ) -> RunSummary:
        run = QueryRun(read_query(self.file), settings or quiet(), ports, once=True, hash_mask=mask)
        run.adaptation, run.owed = adaptation or run.adaptation, owed
        run.report_path = self.report
        return run.run(None)

    @property
    def report(self) -> Path:
        return self.root / "actions.json"

    def adapted(self) -> dict[str, Any]:
        """What the report of the last run says."""
        found: dict[str, Any] = json.loads(self.report.read_text())
        return found

    def expected(self, sql: str | None = None) -> str:
        """The batch query over the files, as DuckDB reads them."""
        views = "".join(
            f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet('{self.root}/data/{name}/*.parquet');"
            for name in self.schemas
        )
        return views + (sql or self.sql)

    def check(self, sql: str | None = None) -> int:
        """Assert that the published results are the batch join, both ways; the number of rows."""
        con = duckdb.connect()
        con.execute("SET TimeZone = 'UTC'")
        con.execute(self.expected(f"CREATE TABLE want AS {sql or self.sql}"))
        files = sorted(self.out.glob("*.parquet"))
        if not files:
            con.execute("CREATE TABLE got AS SELECT * FROM want LIMIT 0")
        else:
            con.execute(f"CREATE TABLE got AS SELECT * FROM read_parquet('{self.out}/*.parquet')")
        # EXCEPT ALL both ways in one pass, a fifth of its time: +1 for each row wanted, −1 for each row found.
        sides = 'SELECT *, 1 AS "$side" FROM want UNION ALL SELECT *, -1 FROM got'
        wrong = con.execute(
            f'SELECT * EXCLUDE ("$side"), sum("$side") AS "$times" FROM ({sides}) GROUP BY ALL HAVING "$times" <> 0'
        ).fetchall()
        missing = [row[:-1] for row in wrong if row[-1] > 0]
        spurious = [row[:-1] for row in wrong if row[-1] < 0]
        assert not wrong, (
            f"missing {missing[:5]} ({len(missing)}), spurious {spurious[:5]} ({len(spurious)})"
        )
        return int(con.execute("SELECT count(*) FROM got").fetchall()[0][0])


def quiet() -> Settings:
    return Settings.load({})


def rows(schema: Sequence[tuple[str, pa.DataType]], data: Sequence[Sequence[object]]) -> pa.Table:
    columns = [pa.array([r[i] for r in data], kind) for i, (_, kind) in enumerate(schema)]
    return pa.Table.from_arrays(columns, names=[name for name, _ in schema])
