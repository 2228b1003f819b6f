"""Deleting state files that no version needs: what a commit let go of, and what attempts left behind.

The system gives memory back page by page. So much as another plan may let go of is deleted beside what comes next, rather than while results wait; what a crash keeps from being deleted is an attempt's, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from engine.state import files
from engine.state.files import Tiers
from engine.state.model import Manifest

MUCH_BYTES = 32_000_000  # from so much on nobody waits for it

_aside = ThreadPoolExecutor(1, "tidy")


def drop(folders: Tiers, before: Manifest, after: Manifest, pins: frozenset[str]) -> None:
    """What only the version before needed, but for what somebody still reads."""
    memory = [(folders.memory, before.memory_files(), after.memory_files())]
    gone = [
        Path(folder, name)
        for folder, old, new in (
            *(memory if not folders.owner else []),
            (folders.durable, before.durable_files(), after.durable_files()),
        )
        for name in old - new - pins
    ]
    if _size(gone) < MUCH_BYTES:
        _delete(gone)
    else:
        _aside.submit(_delete, gone)


def _size(paths: Sequence[Path]) -> int:
    size = 0
    for path in paths:
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def sweep(
    folders: Tiers, manifest: Manifest, version: int | None, pins: frozenset[str] = frozenset()
) -> None:
    """What is left of attempts that did not count, up to a version, but for what somebody still reads. None:
    nothing runs yet."""
    if not folders.owner:  # or tasks tidy up where they run
        files.sweep(Path(folders.memory), manifest.memory_files() | pins, version=version)
    files.sweep(Path(folders.durable), manifest.durable_files() | pins, version=version)
