"""The store's benchmark in small: hours instead of days, every read finds something, no time judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.bench.store import BYTES_MOST, bars, measure, write
from tests.bench.store_fill import DEMO, FULL


def test_the_benchmark_in_small(tmp_path: Path) -> None:
    few = {"hours": 3, "raw_hours": 1, "actions": 20, "audit": 200}
    some = [
        measure(replace(DEMO, **few), tmp_path / "demo", lambda _: None),
        measure(replace(FULL, **few, nodes=8, groups=600), tmp_path / "full", lambda _: None),
    ]
    for one in some:
        got = {read.name: read.got for read in one.reads}
        assert one.whole, [name for name, count in got.items() if not count]
        assert got["query series, 15 min"] > 300, "raw ticks answer a short range"
        assert got["node series, 1 h"] >= 60
        assert got["history of a group, 1 h"] == 60
        assert got["snapshots, 1 h"] == 60
        assert one.checkpoint.got == 2
        assert 0 < one.metrics_bytes < BYTES_MOST["demo"]
    page = write(some, tmp_path / "out", {"cores": 1, "memory_gib": 1, "sqlite": "", "commit": ""})
    for name, measured, wanted, _ in bars(some):
        assert f"| {name} | {measured} | {wanted} |" in page.read_text()
    raw = json.loads((tmp_path / "out" / "store.json").read_text())
    assert [one["scale"]["name"] for one in raw["stores"]] == ["demo", "full"]
