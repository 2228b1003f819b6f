"""Where state is kept: private folders, and memory only where there is enough of it."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from engine.errors import SetupError, StateError
from engine.state import folders
from engine.state.folders import Folders, prepare

MB = 1_000_000
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory folder of 300 MB, whatever is really there."""
    (tmp_path / "shm").mkdir()

    def usage(path: Path) -> Usage:
        used = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
        return Usage(300 * MB, used, 300 * MB - used)

    monkeypatch.setattr(folders.shutil, "disk_usage", usage)
    return tmp_path / "shm"


def sparse_file(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_folders_are_private_and_the_same_again(tmp_path: Path, memory: Path) -> None:
    first = prepare(tmp_path / "cp", memory, 100 * MB)
    assert first == prepare(tmp_path / "cp", memory, 100 * MB) and first.warning == ""
    assert first.memory.parent == memory and first.durable == tmp_path / "cp" / "state"
    for path in (first.memory, tmp_path / "cp"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert prepare(tmp_path / "other", memory, 0).memory != first.memory


def test_too_little_memory_is_told_and_disk_used(tmp_path: Path, memory: Path) -> None:
    found = prepare(tmp_path / "cp", memory, 280 * MB)
    assert f"{memory} has 300 MB free, the nodes' budgets need 280 MB" in found.warning
    assert found.memory.is_relative_to(tmp_path / "cp") and not list(memory.iterdir())


def test_state_of_an_earlier_run_is_not_in_its_own_way(tmp_path: Path, memory: Path) -> None:
    """After a restart the query's own state fills the memory folder: that is what the space was for."""
    first = prepare(tmp_path / "cp", memory, 200 * MB)
    sparse_file(first.memory / "0000000001-0000-0123456789ab.arrow", 150 * MB)
    assert prepare(tmp_path / "cp", memory, 200 * MB) == first
    assert prepare(tmp_path / "cp2", memory, 200 * MB).warning, "somebody else's is in the way"


def test_what_was_in_memory_goes_when_disk_is_used(tmp_path: Path, memory: Path) -> None:
    first = prepare(tmp_path / "cp", memory, 100 * MB)
    sparse_file(first.memory / "0000000001-0000-0123456789ab.arrow", 10 * MB)
    sparse_file(memory / "stranger", 200 * MB)
    found = prepare(tmp_path / "cp", memory, 100 * MB)
    assert found.warning and found.memory != first.memory
    assert [path.name for path in memory.iterdir()] == ["stranger"]


@pytest.mark.parametrize("fault", ["open", "link", "file"])
def test_a_folder_that_others_can_read_is_refused(tmp_path: Path, memory: Path, fault: str) -> None:
    path = prepare(tmp_path / "cp", memory, 0).memory
    if fault == "open":
        path.chmod(0o755)
    else:
        shutil.rmtree(path)
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere") if fault == "link" else path.touch()
    with pytest.raises((SetupError, StateError)) as caught:
        prepare(tmp_path / "cp", memory, 0)
    assert caught.value.where == str(path)


def test_no_memory_folder_at_all(tmp_path: Path) -> None:
    found: Folders = prepare(tmp_path / "cp", tmp_path / "none", 0)
    assert "none cannot be written" in found.warning and found.memory.is_dir()
