"""What clusters need, part by part, without Spark: settings, secrets, memory folders of hosts, fetching, homes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from engine import cluster
from engine.affinity import crowded
from engine.errors import StateError
from engine.operators.multi_join import HASH
from engine.state import files, folders, hosts
from engine.state.files import Fresh, Tiers
from engine.state.model import Change, Runs


@pytest.mark.parametrize(
    ("master", "cluster_"),
    [
        ("local", False),
        ("local[*]", False),
        ("local[3,4]", False),
        ("local-cluster[3,1,1024]", True),
        ("spark://h:7077", True),
        ("yarn", True),
        ("k8s://https://h", True),
    ],
)
def test_what_is_a_cluster(master: str, cluster_: bool) -> None:
    assert cluster.is_cluster(master) is cluster_


def test_the_users_own_settings_go_before_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert cluster.conf()["spark.network.timeout"] == "60s"
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.locality.wait 1s\nspark.network.timeout=5s\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "spark.network.timeout" not in cluster.conf()
    assert "spark.locality.wait" in cluster.conf()


def test_what_is_shipped_is_all_that_tasks_import(tmp_path: Path) -> None:
    file = cluster.packed(tmp_path)
    tasks = ["stage", "exchange", "rehome", "affinity", "adapt.tasks", "state.hosts"]
    code = "; ".join(f"import engine.{name}" for name in tasks) + "; print(engine.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(str(file))


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 6))
def test_crowded_means_that_an_even_spread_is_better(homes: list[int], count: int) -> None:
    named = {node: str(home) for node, home in enumerate(homes)}
    even = -(-len(homes) // count)
    assert crowded(named, count) == any(homes.count(h) > even for h in homes)


@dataclass
class Live:
    version: int
    runs: dict[tuple[str, int], tuple[Runs, ...]] = field(default_factory=dict)
    since: int | None = None


@pytest.fixture
def tiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiers:
    """A cluster's: `mem` is a host's tmpfs, `cp` the shared checkpoint."""
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "one")
    (tmp_path / "mem").mkdir()
    (tmp_path / "cp" / "state").mkdir(parents=True)
    return Tiers(
        str(tmp_path / "mem"), str(tmp_path / "cp" / "state"), 8, owner=str(tmp_path / "cp")
    )


def insert(runs: Runs, tiers: Tiers, version: int, rows: int) -> Change:
    marks = np.sort(np.random.default_rng(version).integers(0, 1 << 63, rows).astype("u8"))
    batch = pa.RecordBatch.from_arrays([pa.array(marks), pa.array(range(rows))], names=[HASH, "v"])
    return files.insert(runs, batch, hosts.here(tiers), Fresh(version, 0))


def test_another_host_fetches_what_the_first_one_wrote(
    tiers: Tiers, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = insert((), tiers, 1, 100).apply(())
    runs = insert(runs, tiers, 2, 80).apply(runs)  # merged: its durable files are two
    assert len(runs[0].durable) == 2
    assert not files.ensure(runs[0], hosts.here(tiers))
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "two")
    there = hosts.here(tiers)
    assert there.memory.endswith("@two") and os.stat(there.memory).st_mode & 0o077 == 0
    assert files.ensure(runs[0], there)
    assert not files.ensure(runs[0], there)
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "one")
    (name,) = [s.file for s in runs[0].memory]
    assert (
        Path(there.memory, name).read_bytes() == Path(hosts.here(tiers).memory, name).read_bytes()
    )


def test_a_host_is_tidied_by_what_lives_and_no_more(tiers: Tiers) -> None:
    before = insert((), tiers, 1, 100).apply(())
    after = insert(before, tiers, 2, 80).apply(before)
    here = Path(hosts.here(tiers).memory)
    insert((), tiers, 3, 10)  # an attempt of the running tick
    part = here / ".0000000001-0000-abc.arrow.1234"  # a copy that another task is making
    part.touch()
    assert hosts.tidy(tiers, Live(3, {("j", 0): (after,)})) == 1
    left = {path.name for path in here.iterdir()}
    assert {s.file for s in after[0].memory} < left and part.name in left
    assert not {s.file for s in before[0].memory} & left
    assert hosts.tidy(tiers, Live(4, {("j", 0): (after,)})) == 1, "the attempt did not count"


def test_memory_folders_of_gone_checkpoints_go(tiers: Tiers, tmp_path: Path) -> None:
    orphan = folders.memory_folder(tmp_path / "mem", str(tmp_path / "gone"), "one")
    hosts.here(tiers)
    assert not orphan.exists()


def test_released_memory_is_made_again_when_needed(tiers: Tiers) -> None:
    first = hosts.here(tiers)
    batch = pa.RecordBatch.from_arrays([pa.array([0], pa.int32())], names=["node"])
    assert list(hosts.Release(tiers)(iter([batch]))) == [batch]
    assert not Path(first.memory).exists()
    assert Path(hosts.here(tiers).memory).is_dir()


def test_a_checkpoint_that_a_host_does_not_see_is_told(tiers: Tiers) -> None:
    Path(tiers.durable).rmdir()
    with pytest.raises(StateError, match="cannot be written on host one") as caught:
        hosts.here(tiers)
    assert "share" in caught.value.hint


def test_files_that_the_driver_does_not_see_are_told(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"123")
    cluster.check_seen([(str(tmp_path / "there"), 3)])
    with pytest.raises(StateError, match="is not there on the driver's host"):
        cluster.check_seen([(str(tmp_path / "missing"), 3)])
    with pytest.raises(StateError, match="has 3 bytes instead of 4"):
        cluster.check_seen([(str(tmp_path / "there"), 4)])
