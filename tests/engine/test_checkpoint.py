"""A checkpoint that is in use, another query's, damaged, incomplete or too old: refused by name, nothing deleted;
on other nodes it goes on."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine import lock
from engine.state import commits
from engine.state.model import FORMAT_VERSION
from tests.engine.faulty import SCHEMAS, Shell, feed, make, manifest


@pytest.fixture
def shell(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# -- the checkpoint ----------------------------------------------------------------------------------


def test_a_checkpoint_in_use(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path)
    with lock.hold(case.checkpoint):
        shell.refused(
            case, f"checkpoint {case.checkpoint} is in use by process {os.getpid()}", "Stop it"
        )
    shell.goes_on(case)


def test_another_query_schema_or_format_is_refused(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, ticks=1)
    shell.goes_on(case)
    other = replace(case, sql="SELECT a.k, a.v AS va FROM a JOIN b ON a.k = b.k")
    other.write()
    shell.refused(other, "belongs to another query", "outputs changed: 4 → 2", str(case.checkpoint))
    other = replace(case, schemas=SCHEMAS | {"b": "k long, t long, v string"})
    other.write()
    shell.refused(
        other,
        "stream b: schema changed: k bigint, t bigint, v bigint → k bigint, t bigint, v string",
    )
    replace(case, groups=32).write()
    shell.refused(case, "groups changed: 16 → 32")
    case.write()
    meta = case.checkpoint / "commits" / "meta.json"
    kept = meta.read_bytes()
    commits._write(meta, commits._read(meta) | {"format": FORMAT_VERSION + 1})
    shell.refused(
        case, f"has format {FORMAT_VERSION + 1}, this version reads {FORMAT_VERSION}", str(meta)
    )
    meta.write_bytes(kept)
    feed(case, range(1, 2))
    shell.goes_on(case)


@pytest.mark.parametrize("ticks", [1, 3])
def test_a_part_of_the_checkpoint_is_gone(shell: Shell, tmp_path: Path, ticks: int) -> None:
    """Spark's part or ours: refused before a row is read or a file deleted, with new input and without."""
    case = make(tmp_path, ticks)
    shell.goes_on(case)
    for part, words in (
        ("spark", f"Spark's part of the checkpoint is missing, ours ends with batch {ticks - 1}"),
        ("commits", f"our part of the checkpoint is missing, Spark's ends with batch {ticks - 1}"),
    ):
        (case.checkpoint / part).rename(tmp_path / "away")
        state = sorted(os.listdir(case.checkpoint / "state"))
        shell.refused(case, words, "restore it from a copy")
        feed(case, range(ticks, ticks + 1))
        shell.refused(case, words)
        assert sorted(os.listdir(case.checkpoint / "state")) == state
        shutil.rmtree(case.checkpoint / part, ignore_errors=True)
        (tmp_path / "away").rename(case.checkpoint / part)
    shell.goes_on(case)


def test_an_older_copy_of_a_part_is_refused(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, 1)
    shell.goes_on(case)
    for part in ("spark", "commits"):
        shutil.copytree(case.checkpoint / part, tmp_path / part)
    feed(case, range(1, 4))
    shell.goes_on(case)
    for part, ends in (("spark", (0, 3)), ("commits", (3, 0))):
        (case.checkpoint / part).rename(tmp_path / "away")
        shutil.copytree(tmp_path / part, case.checkpoint / part)
        shell.refused(
            case,
            "Spark's part of the checkpoint ends with batch {}, ours with batch {}".format(*ends),
        )
        shutil.rmtree(case.checkpoint / part)
        (tmp_path / "away").rename(case.checkpoint / part)
    feed(case, range(4, 5))
    shell.goes_on(case)


def test_damaged_state_files(shell: Shell, tmp_path: Path) -> None:
    """A short memory file heals; a short or missing durable one is named; a commit that does not fit its sum too."""
    case = make(tmp_path, 2)
    shell.goes_on(case)
    (run, *_), *_ = (runs for runs in manifest(case).runs.values() if runs)
    for copy in Path(os.environ["SPILLWAY_MEM_DIR"]).glob(f"*/{run.memory[0].file}"):
        copy.write_bytes(copy.read_bytes()[:100])
    feed(case, range(2, 3))
    shell.goes_on(case)
    (run, *_), *_ = (runs for runs in manifest(case).runs.values() if runs)
    durable = case.checkpoint / "state" / run.durable[0].file
    kept = durable.read_bytes()
    durable.write_bytes(kept[:50])
    shell.refused(case, f"{durable}: state file has 50 bytes instead of {len(kept)}", "copy")
    durable.unlink()
    shell.refused(case, f"{durable}: state file is missing", "copy")
    middle = len(kept) // 2
    durable.write_bytes(kept[:middle] + bytes([kept[middle] ^ 1]) + kept[middle + 1 :])
    for folder in Path(os.environ["SPILLWAY_MEM_DIR"]).glob("spillway-*"):
        shutil.rmtree(folder)
    shell.refused(case, f"{durable}: state file does not match its checksum")
    shell.refused(
        case, f"{durable}: state file does not match its checksum", options=("--nodes", "3")
    )
    durable.write_bytes(kept)
    commit = sorted((case.checkpoint / "commits").glob("commit-*"))[-1]
    kept = commit.read_bytes()
    commit.write_bytes(kept[:-1])
    code, err = shell(case)
    assert code == 2 and f"{commit}: does not match its checksum" in err
    commit.write_bytes(kept)
    feed(case, range(3, 4))
    shell.goes_on(case)


def test_another_number_of_nodes_on_restart(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, 2)
    shell.goes_on(case)
    for tick, nodes in enumerate((3, 1, 4, 4, 2), 2):
        feed(case, range(tick, tick + 1))
        for folder in Path(os.environ["SPILLWAY_MEM_DIR"]).glob("spillway-*"):
            shutil.rmtree(folder)
        shell.goes_on(case, "--nodes", str(nodes))
        now = manifest(case)
        assert now.nodes == nodes and {p.node for p, runs in now.runs.items() if runs} == set(
            range(nodes)
        )
        assert set(os.listdir(case.checkpoint / "state")) == now.durable_files()


def test_nodes_that_do_not_fit_the_placement(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, 1, extra="placement = {0 = 0.5, 1 = 0.5}")
    shell.refused(case, "--nodes 1 does not fit", "names node 1", options=("--nodes", "1"))
    shell.goes_on(case)
    feed(case, range(1, 2))
    shell.goes_on(case, "--nodes", "3")


def test_an_earlier_life_leaves_nothing_behind(shell: Shell, tmp_path: Path) -> None:
    """The checkpoint was deleted and made anew: what the old one had in memory goes."""
    case = make(tmp_path, 3)
    shell.goes_on(case)
    shutil.rmtree(case.checkpoint)
    shutil.rmtree(case.out)
    shell.goes_on(case)
    now = manifest(case)
    memory = Path(os.environ["SPILLWAY_MEM_DIR"])
    left = {path.name for path in memory.glob("spillway-*/*.arrow")}
    assert now.memory_files() and not left & now.memory_files()
