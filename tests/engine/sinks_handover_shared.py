"""What several tests of sinks handover need."""

from __future__ import annotations

from pathlib import Path

import duckdb


def write_query(folder: Path, sink: str, columns: str = "a.k, a.v") -> Path:
    for name in "ab":
        (folder / name).mkdir()
        for part in range(3):
            duckdb.sql(
                f"SELECT range AS k, '{name}' || range AS v FROM range({part * 20}, {part * 20 + 20})"
            ).write_parquet(f"{folder}/{name}/{part}.parquet")
    streams = "".join(
        f'[streams.{name}]\nformat = "parquet"\npath = "{name}"\nschema = "k long, v string"\n'
        "options = { maxFilesPerTrigger = 1 }\n"
        for name in "ab"
    )
    file = folder / "q.toml"
    file.write_text(
        f'sql = "SELECT {columns} FROM a JOIN b ON a.k = b.k"\ngroups = 8\ncheckpoint = "cp"\n'
        f"{streams}[sink]\n{sink}\n"
    )
    return file
