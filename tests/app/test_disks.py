"""How full disks are."""

from __future__ import annotations

from pathlib import Path

from app.disks import room


def test_room_is_of_folders_that_are_there(tmp_path: Path) -> None:
    found = room((str(tmp_path), str(tmp_path / "nowhere")))
    assert list(found) == [str(tmp_path)]
    free, whole = found[str(tmp_path)]
    assert 0 < free <= whole
