"""Whoever else has an account on the machine sees nothing of a data folder, of Spark's own files or of a backup; results
that were put elsewhere on purpose are for whom their owner lets read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import run
from app import locks
from control.ledger import QueryRow, Wanted
from db.upgrade import upgrade
from engine.errors import SetupError
from engine.query.model import SinkSpec
from engine.query.paths import Roots
from engine.registry import folder_of, spec_of, with_umask
from engine.session import _scratch, _umask
from engine.sinks import ParquetDirectory, open_sink
from tests.app.made import START_S
from tests.before import unpack
from tests.engine.service_shared import FEED
from tests.engine.sinks_shared import stage

OTHERS = 0o077


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Most people's umask, whatever runs the tests."""
    before = os.umask(0o022)
    yield
    assert os.umask(before) == 0o022, "what a command did to the umask ended with it"


def open_to_others(folder: Path) -> set[str]:
    """What in a folder others may do anything with."""
    return {
        str(p)
        for p in (folder, *folder.rglob("*"))
        if p.lstat().st_mode & OTHERS and not p.is_symlink()
    }


def test_a_backup_what_it_gives_back_and_a_bundle_are_their_owners(tmp_path: Path) -> None:
    before = unpack(tmp_path / "before")
    for what, arguments in (
        ("backup", ["backup", "--data", str(before.data), str(tmp_path / "saved")]),
        ("restore", ["restore", "--data", str(tmp_path / "anew"), str(tmp_path / "saved")]),
        ("diagnose", ["diagnose", "--data", str(before.data), "--out", str(tmp_path / "bundle")]),
    ):
        upgrade(before.data)
        assert run.main(arguments) == 0, what
    for name in ("saved", "anew", "bundle"):
        assert open_to_others(tmp_path / name) == set(), name


def test_a_data_folder_of_before_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with locks.hold(tmp_path, "up"):
        assert open_to_others(tmp_path) == {str(tmp_path / "up.lock")}, "which nobody can get at"
    assert tmp_path.stat().st_mode & OTHERS == 0


def test_the_folder_of_sparks_own_files_is_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _scratch(tmp_path / "data" / "spark")
    assert given == tmp_path / "data" / "spark"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    usual = _scratch(None)
    assert usual.parent == tmp_path
    assert given.stat().st_mode & OTHERS == usual.stat().st_mode & OTHERS == 0
    usual.chmod(0o755)
    with pytest.raises(SetupError, match="open to others"):
        _scratch(None)


def test_what_hadoop_makes_goes_by_the_umask_too() -> None:
    for bits in (0o022, 0o077, 0o027):
        with run.umask(bits):
            assert int(_umask(), 8) == bits


def test_results_outside_the_data_folder_keep_the_users_umask(tmp_path: Path) -> None:
    row = QueryRow("feed", FEED.replace('"out"', f'"{tmp_path}/theirs/out"'), "", None, Wanted.STOPPED, False, START_S)  # fmt: skip
    with run.umask(OTHERS):
        (tmp_path / "data").mkdir()
        spec = spec_of(row, tmp_path / "data", Roots([], [tmp_path / "theirs"]))
        sink = open_sink(with_umask(spec, tmp_path / "data", 0o027).sink, spec.checkpoint, None)  # type: ignore[arg-type]
        sink.prepare()
        sink.recover([])
        for version in range(3):
            sink.publish(version, [stage(sink.directory, version, version)])
        folder = tmp_path / "theirs" / "out"
        assert {p.stat().st_mode & 0o777 for p in folder.glob("part-*")} == {0o640}
        assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o750
        assert ParquetDirectory(folder, small_files=2, umask=0o027).maybe_compact() == 2
        assert [p.stat().st_mode & 0o777 for p in folder.glob("part-*")] == [0o640] * 2


def test_results_in_the_data_folder_are_its_owners(tmp_path: Path) -> None:
    row = QueryRow("feed", FEED, "", None, Wanted.STOPPED, False, START_S)
    spec = spec_of(row, tmp_path, Roots([], []))
    assert with_umask(spec, tmp_path, 0o022).sink == spec.sink
    assert Path(spec.sink.path).is_relative_to(folder_of(tmp_path, "feed"))
    none = SinkSpec("kafka", "", {})
    assert with_umask(spec, tmp_path, 0o022).sink.umask is None is none.umask
