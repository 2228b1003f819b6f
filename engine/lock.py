"""One process per checkpoint: an advisory lock that the kernel drops when its holder dies.

Here: the lock and nothing else. What a checkpoint contains is engine/state's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engine.errors import CheckpointError


@contextmanager
def hold(checkpoint: Path) -> Iterator[Path]:
    """Hold `<checkpoint>/lock` for the length of the block; refused while another holds it."""
    path = checkpoint / "lock"
    file = _open(path)
    try:
        _take(file, checkpoint)
        yield path
    finally:
        file.close()


def _open(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint cannot be written: {error.strerror}",
            where=str(path.parent),
            hint="Give this user write permission, or choose another checkpoint.",
        ) from error


def _take(file: IO[str], checkpoint: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        raise CheckpointError(
            f"checkpoint {checkpoint} is in use by process {holder}",
            hint="Stop it or use another checkpoint.",
        ) from None
    with contextlib.suppress(OSError):  # only who holds it; a full disk is met, and told, later
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), str(os.getpid()).encode())
