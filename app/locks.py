"""One process of each kind for a data folder: advisory locks that the kernel drops when their holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import AppError


@contextmanager
def hold(data: Path, what: str) -> Iterator[None]:
    """Hold `<data>/<what>.lock` for the length of the block; refused while another process does."""
    path = data / f"{what}.lock"
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        data.chmod(0o700)  # one of before may be open to others
        file = path.open("a+")
    except OSError as error:
        raise AppError(
            f"the data folder cannot be written: {error.strerror}",
            where=str(path),
            hint="Give this user write permission, or choose another folder with --data.",
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise AppError(
                f"another {what} works on this data folder: process {holder}",
                where=str(data),
                hint="Stop it, or give this one a folder of its own with --data.",
            ) from None
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), str(os.getpid()).encode())
        yield
