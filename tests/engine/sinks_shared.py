"""What several tests of sinks need."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from engine.sinks import ResultWriter, StagedFile

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "s": [f"row {key}" for key in keys]}, schema=SCHEMA)


def stage(directory: Path, version: int, *keys: int, node: int = 0) -> StagedFile:
    writer = ResultWriter(str(directory), version, node, SCHEMA)
    writer.write(rows(*keys))
    file = writer.close()
    assert file is not None
    return file
