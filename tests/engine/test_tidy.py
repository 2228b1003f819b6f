"""State files that a commit lets go of: little is deleted at once, much beside what comes next."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from engine import tidy


def needing(*names: str) -> Any:
    """A manifest as far as its files go."""
    return SimpleNamespace(memory_files=lambda: set(names), durable_files=lambda: {"kept"})


def folders(place: Path, size: int) -> Any:
    for name in ("memory", "durable"):
        (place / name).mkdir()
    for name in ("gone", "read", "stays"):
        (place / "memory" / name).write_bytes(b"x" * size)
    (place / "durable" / "kept").write_bytes(b"x")
    return SimpleNamespace(
        memory=str(place / "memory"), durable=str(place / "durable"), owner=False
    )


def left(place: Path) -> set[str]:
    return {path.name for path in place.glob("*/*")}


@pytest.mark.parametrize("much", [10**9, 100])
def test_what_only_the_version_before_needed_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, much: int
) -> None:
    """Where it is much, nobody waits for it: here somebody else is in the way as long as the commit lasts."""
    monkeypatch.setattr(tidy, "MUCH_BYTES", much)
    where, free = folders(tmp_path, 100), Event()
    busy = tidy._aside.submit(free.wait, 10)
    before, after = needing("gone", "read", "stays", "never made"), needing("stays")
    tidy.drop(where, before, after, frozenset({"read"}))
    assert ("gone" in left(tmp_path)) == (much == 100)
    free.set()
    busy.result()
    tidy._aside.submit(bool).result()  # after what came before
    assert left(tmp_path) == {"read", "stays", "kept"}
