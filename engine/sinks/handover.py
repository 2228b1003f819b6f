"""Results for any other Spark format: tasks stage Parquet in the checkpoint, and after the commit
each version's files are handed to the Spark writer.

Exactly once for file formats (json, csv, orc …): Spark writes into a hidden folder, a journal
names the files, renames publish them; whatever a crash interrupts is redone or rolled forward.
At least once for the rest (kafka, jdbc, console …): Spark appends, and a crash just then makes it
append the same rows again. Staging and publishing of the Parquet files is parquet.py's.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from engine.connectors import look_up, naming
from engine.errors import SinkError
from engine.query.formats import EXACTLY_ONCE, sink_guarantee
from engine.query.model import SinkSpec
from engine.sinks import ledger
from engine.sinks.parquet import ParquetDirectory, show
from engine.sinks.staged import StagedFile, failure
from engine.spark_log import for_spark
from engine.table import aligned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Handover:
    """The sink for formats that Spark writes."""

    def __init__(self, spec: SinkSpec, checkpoint: Path, spark: SparkSession) -> None:
        self._spec, self._spark, self._owner = spec, spark, str(checkpoint)
        self._staging = ParquetDirectory(checkpoint / "results")
        self.guarantee = sink_guarantee(spec)
        self._to_files = self.guarantee == EXACTLY_ONCE
        self._target = Path(spec.path) if self._to_files else self._staging.path
        self.directory = self._staging.path
        self.compression = "none"

    def prepare(self) -> None:
        # before the first tick, not after it
        look_up(self._spark, self._spec.format, SinkError, self._spec.path or "[sink]")
        for_spark(self._spark, self._spec.options)  # a secret that is missing is missing now
        self._staging.prepare()
        if self._to_files:
            ParquetDirectory(self._target, umask=self._spec.umask).prepare()
            ledger.claim(self._target, self._owner)

    def publish(self, version: int, files: Sequence[StagedFile]) -> None:
        """Hand one version over, unless that was done before; then drop the staged files."""
        if version > self._delivered():
            if files:
                self._staging.publish(files)
                self._deliver(version, [str(self.directory / file.final) for file in files])
            self._mark(version)
        for file in files:
            (self.directory / file.final).unlink(missing_ok=True)

    def recover(
        self, commits: Sequence[tuple[int, Sequence[StagedFile]]], withheld: Set[str] = frozenset()
    ) -> None:
        if not commits and self._to_files:
            ledger.start_over(self._target)
        for journal in sorted(self._target.glob(".deliver-*.json")):
            self._show(int(journal.name.removeprefix(".deliver-").removesuffix(".json")))
        for version, files in commits:
            self.publish(version, files)
        for folder in self._target.glob(".deliver-*"):
            shutil.rmtree(folder, ignore_errors=True)
        self._staging.sweep(withheld)

    def maybe_compact(self) -> int:
        """Nothing to merge here: the files are Spark's."""
        return 0

    def _delivered(self) -> int:
        return (
            ledger.read(self._target).published
            if self._to_files
            else _Delivered(self.directory).read()
        )

    def _mark(self, version: int) -> None:
        if self._to_files:
            ledger.mark(self._target, version)
        else:
            _Delivered(self.directory).write(version)

    def _deliver(self, version: int, files: list[str]) -> None:
        if self._spec.format == "console":
            self._print(version, files)
            return
        rows = self._spark.read.parquet(*files)
        if not self._to_files:
            self._write(rows, self._spec.path or None)
            return
        self._write(rows, str(self._folder(version)), mode="overwrite")
        try:
            moves = self._moves(version)
            ledger.replace_text(self._journal(version), json.dumps(moves))
        except OSError as error:
            raise failure(error, self._target) from error
        self._show(version)

    def _print(self, version: int, files: list[str]) -> None:
        """Ours, since Spark's own words, its console sink's too, go to the log."""
        rows = pq.read_table(files)
        shown = rows.slice(0, int(self._spec.options.get("numRows", "20")))
        print(f"version {version}: {rows.num_rows} rows\n{aligned(shown)}", flush=True)

    def _write(self, rows: DataFrame, path: str | None, mode: str = "append") -> None:
        options = for_spark(self._spark, self._spec.options)
        writer = rows.write.format(self._spec.format).options(**options).mode(mode)
        doing = f"Spark cannot write {self._spec.format}"
        where = self._spec.path or "[sink]"
        with naming(self._spec.format, doing, SinkError, where, self._spec.options):
            writer.save(path) if path else writer.save()

    def _folder(self, version: int) -> Path:
        return self._target / f".deliver-{version:08d}"

    def _journal(self, version: int) -> Path:
        return self._target / f".deliver-{version:08d}.json"

    def _moves(self, version: int) -> list[tuple[str, str]]:
        """Spark's file names and ours: `part-00000-<uuid>.snappy.orc` → `part-<version>-0000…`."""
        written = sorted(path.name for path in self._folder(version).glob("part-*"))
        return [
            (name, f"part-{version:08d}-{i:04d}.{name.partition('.')[2]}")
            for i, name in enumerate(written)
        ]

    def _show(self, version: int) -> None:
        """Publish what the journal names; can be repeated from any point."""
        journal, folder = self._journal(version), self._folder(version)
        try:
            for name, final in json.loads(journal.read_text()):
                if (folder / name).exists():
                    show(folder / name, self._spec.umask)
                    os.rename(folder / name, self._target / final)
            ledger.mark(self._target, version)
            shutil.rmtree(folder, ignore_errors=True)
            journal.unlink()
        except OSError as error:
            raise failure(error, self._target) from error


class _Delivered:
    """The last version appended, for formats that have no directory to note it in."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / ".delivered.json"

    def read(self) -> int:
        try:
            return int(json.loads(self._path.read_text()))
        except FileNotFoundError:
            return -1

    def write(self, version: int) -> None:
        ledger.replace_text(self._path, json.dumps(version))
