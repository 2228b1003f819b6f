"""Deleting state files that no version needs: what a commit let go of, and what attempts left behind."""

from __future__ import annotations

from pathlib import Path

from engine.state import files
from engine.state.files import Tiers
from engine.state.model import Manifest


def drop(folders: Tiers, before: Manifest, after: Manifest, pins: frozenset[str]) -> None:
    """What only the version before needed, but for what somebody still reads."""
    memory = [(folders.memory, before.memory_files(), after.memory_files())]
    for folder, old, new in (
        *(memory if not folders.owner else []),
        (folders.durable, before.durable_files(), after.durable_files()),
    ):
        for name in old - new - pins:
            Path(folder, name).unlink(missing_ok=True)


def sweep(
    folders: Tiers, manifest: Manifest, version: int | None, pins: frozenset[str] = frozenset()
) -> None:
    """What is left of attempts that did not count, up to a version, but for what somebody still reads. None:
    nothing runs yet."""
    if not folders.owner:  # or tasks tidy up where they run
        files.sweep(Path(folders.memory), manifest.memory_files() | pins, version=version)
    files.sweep(Path(folders.durable), manifest.durable_files() | pins, version=version)
