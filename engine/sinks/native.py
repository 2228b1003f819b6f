"""Choosing and opening the query's sink, and the native one: Parquet into a flat directory."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.errors import SinkError
from engine.query.model import SinkSpec
from engine.sinks import ledger
from engine.sinks.handover import Handover
from engine.sinks.parquet import ParquetDirectory
from engine.sinks.staged import COMPRESSIONS, StagedFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sink(Protocol):
    """Where results go. Tasks stage into `directory` with `compression`; the driver publishes
    each version after its commit. At start: prepare, then recover, before the first tick."""

    directory: Path
    compression: str
    guarantee: str

    def prepare(self) -> None: ...
    def publish(self, version: int, files: Sequence[StagedFile]) -> None: ...
    def recover(
        self, commits: Sequence[tuple[int, Sequence[StagedFile]]], withheld: Set[str] = frozenset()
    ) -> None:
        """`commits`: the last ones, oldest first, with their files (which may be none); empty
        only for a query that never committed. `withheld`: staged files that stay as they are."""

    def maybe_compact(self) -> int: ...


class ParquetSink:
    """The native sink."""

    def __init__(self, spec: SinkSpec, checkpoint: Path) -> None:
        self._files = ParquetDirectory(spec.path, umask=spec.umask)
        self._owner = str(checkpoint)
        self.directory = self._files.path
        self.compression = _compression(spec)
        self.guarantee = "exactly once"

    def prepare(self) -> None:
        self._files.prepare()
        ledger.claim(self.directory, self._owner)

    def publish(self, version: int, files: Sequence[StagedFile]) -> None:
        self._files.publish(files)

    def recover(
        self, commits: Sequence[tuple[int, Sequence[StagedFile]]], withheld: Set[str] = frozenset()
    ) -> None:
        if not commits:
            ledger.start_over(self.directory)
        self._files.recover(commits, withheld)

    def maybe_compact(self) -> int:
        return self._files.maybe_compact()


def open_sink(spec: SinkSpec, checkpoint: Path, spark: SparkSession) -> Sink:
    """The sink that the query file asks for."""
    if "://" in spec.path:
        raise SinkError(
            "only local and mounted paths are supported as yet",
            where=spec.path,
            hint="Mount it, or write locally and copy.",
        )
    return (
        ParquetSink(spec, checkpoint)
        if spec.format == "parquet"
        else Handover(spec, checkpoint, spark)
    )


def side_directory(checkpoint: Path, kind: str, name: str) -> ParquetDirectory:
    """Where rows go that the join does not take: `kind` is why (null_keys, late)."""
    return ParquetDirectory(checkpoint / "side" / kind / name)


def _compression(spec: SinkSpec) -> str:
    unknown = sorted(set(spec.options) - {"compression"})
    if unknown:
        raise SinkError(
            f"unknown option {unknown[0]!r} of the parquet sink",
            where="[sink]",
            hint="It has one option: compression.",
        )
    name = spec.options.get("compression", "none")
    if name not in COMPRESSIONS:
        raise SinkError(
            f"unknown compression {name!r}",
            where="[sink]",
            hint=f"Choose one of {', '.join(COMPRESSIONS)}.",
        )
    return name
