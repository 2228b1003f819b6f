"""The traffic query of the D-CAPE thesis (Sutherland 2004, section 3.1) with its own data, figure and tables.

Its table 3.2 prints Road 2's speed after projecting R1.MPH; SOXFAN4's on Road 1 is 50 (table 3.1).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from engine.query.file import read_query
from engine.runner import QueryRun
from tests.engine.oracle import quiet

QUERY = """
name = "traffic"
nodes = 2
groups = 8
checkpoint = "state"
sql = '''
{select}
FROM Sensor2 as R2 [Range 2min], Sensor1 as R1 [Range 2min]
WHERE R1.carID = R2.carID{condition}
'''
[streams.Sensor1]
format = "json"
path = "sensor1"
schema = "T timestamp, carID string, type string, MPH int"
time = "T"
options = {{ maxFilesPerTrigger = "1" }}
[streams.Sensor2]
format = "json"
path = "sensor2"
schema = "T timestamp, carID string, type string, MPH int"
time = "T"
options = {{ maxFilesPerTrigger = "1" }}
[sink]
format = "parquet"
path = "out"
"""
SENSOR1 = [
    (0, "9034 TR", "Car", 55),
    (0, "FED 1", "Truck", 42),
    (1, "SOXFAN4", "Car", 50),
    (1, "8325 DL", "Car", 35),
    (1, "345 DGE", "Car", 65),
    (1, "UMASS1", "SUV", 45),
]
SENSOR2 = [
    (0, "1345 FD", "Car", 34),
    (1, "MV 1223", "Truck", 53),
    (2, "SOXFAN4", "Car", 65),
    (2, "1492 CC", "Car", 32),
    (3, "UMASS1", "SUV", 23),
    (4, "1353 DW", "SUV", 56),
    # not in the thesis: a car a second too late
    (3 + 1 / 60, "8325 DL", "Car", 30),
]
JOINED = "SELECT R1.carID, R1.type, R1.MPH, R2.carID AS carID2, R2.type AS type2, R2.MPH AS MPH2"


def write(folder: Path, rows: list[tuple[float, str, str, int]]) -> None:
    """A file for every minute, so that rows come as they would from the road."""
    folder.mkdir()
    for minute in range(5):
        lines = [
            json.dumps(
                {
                    "T": f"2004-05-01T12:{int(t):02}:{round(t % 1 * 60):02}Z",
                    "carID": car,
                    "type": kind,
                    "MPH": mph,
                }
            )
            for t, car, kind, mph in sorted(rows)
            if int(t) == minute
        ]
        path = folder / f"{minute}.json"
        path.write_text("".join(line + "\n" for line in lines))
        os.utime(path, (1_000_000_000 + minute,) * 2)  # Spark takes the oldest first


@pytest.mark.parametrize(
    ("select", "condition", "expected"),
    [
        ("SELECT R1.carID, R1.MPH", " AND R1.type = 'Car'", [("SOXFAN4", 50)]),
        (
            JOINED,
            "",
            [
                ("SOXFAN4", "Car", 50, "SOXFAN4", "Car", 65),
                ("UMASS1", "SUV", 45, "UMASS1", "SUV", 23),  # exactly two minutes apart
            ],
        ),
    ],
    ids=["the query", "its join"],
)
def test_the_thesis_example(
    spark: SparkSession,
    tmp_path: Path,
    select: str,
    condition: str,
    expected: list[tuple[object, ...]],
) -> None:
    write(tmp_path / "sensor1", SENSOR1)
    write(tmp_path / "sensor2", SENSOR2)
    file = tmp_path / "traffic.toml"
    file.write_text(QUERY.format(select=select, condition=condition))
    summary = QueryRun(read_query(file), quiet(), (), once=True).run(None)
    found = duckdb.sql(f"SELECT * FROM read_parquet('{tmp_path}/out/*.parquet') ORDER BY ALL")
    assert found.fetchall() == expected
    assert summary.late_rows == 0
