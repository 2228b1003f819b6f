"""The memory tier on a cluster: each executor host has a folder of its own, made and tidied by tasks.

On one machine the driver makes the folder (folders.py) and nothing here does anything. Which files count
is the manifest's business; a file that is missing is fetched by files.py.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from engine.errors import StateError
from engine.state import files, folders
from engine.state.files import Tiers
from engine.state.model import Runs

SHARED = "On a cluster, checkpoint, sink and sources must be folders that the driver and all workers share."


class Live(Protocol):
    """What a tick's brief says about state."""

    @property
    def version(self) -> int: ...
    @property
    def since(self) -> int | None: ...
    @property
    def runs(self) -> Mapping[tuple[str, int], tuple[Runs, ...]]: ...


def host() -> str:
    """This host's name: Spark's for it if it was given one, so that hosts on one machine are told apart."""
    name = (
        os.environ.get("SPARK_LOCAL_HOSTNAME")
        or os.environ.get("SPARK_LOCAL_IP")
        or socket.gethostname()
    )
    return name.replace(os.sep, "_")


def executor() -> str:
    """The host and the process (Spark's executor, which started this worker's daemon) that run this task."""
    return f"{host()}/{_parent(os.getppid())}"


def executor_id() -> str:
    """Spark's name for the executor that runs this task; empty where that is the driver itself, or not known."""
    return _id_of(_parent(os.getppid()))


@lru_cache(maxsize=8)
def _id_of(pid: int) -> str:
    """From the command line of an executor's process, which every cluster manager of Spark's starts alike."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    return next((b for a, b in pairwise(words) if a == "--executor-id"), "")


def _parent(pid: int) -> int:
    """The parent of a process; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def here(tiers: Tiers) -> Tiers:
    """The tiers with this host's memory folder, which is made if need be."""
    if not tiers.owner:
        return tiers
    mine = _mine(tiers, host())
    if not os.path.isdir(mine.memory):
        if not os.access(tiers.durable, os.W_OK | os.X_OK):
            raise StateError(
                f"the checkpoint cannot be written on host {host()}",
                where=tiers.durable,
                hint=SHARED,
            )
        base = Path(mine.memory).parent
        folders.clear_orphans(base)
        folders.memory_folder(base, tiers.owner, host())
    return mine


@lru_cache(maxsize=64)
def _mine(tiers: Tiers, name: str) -> Tiers:
    base = Path(tiers.memory)
    if folders.shortage(base, 0):
        base = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    return replace(tiers, memory=str(base / folders.name(tiers.owner, name)), owner="")


@dataclass(frozen=True, slots=True)
class Release:
    """Gives the memory of the host that it runs on back, at an orderly end: the checkpoint has it all.
    A function for Spark to map over each node's partition."""

    tiers: Tiers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            shutil.rmtree(_mine(self.tiers, host()).memory, ignore_errors=True)
            yield batch.select(["node"])


def tidy(tiers: Tiers, live: Live) -> int:
    """Delete the files in this host's folder that no node needs: dropped by commits, or left by attempts
    that did not count. Files of the running tick stay, whoever writes them; so do copies being made."""
    if not tiers.owner:
        return 0
    keep = {
        s.file for sides in live.runs.values() for runs in sides for run in runs for s in run.memory
    }
    last = live.version - 1 if live.since is None else min(live.version, live.since) - 1
    return files.sweep(Path(here(tiers).memory), keep, version=last, parts=False)
