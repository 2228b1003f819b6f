"""The two state folders of a query: memory (tmpfs) and checkpoint. Where they are, and that they may be used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from engine.errors import CheckpointError, SetupError
from engine.state.files import OWNER_NOTE, write_error

_HEADROOM = 64 << 20
_PREFIX = f"spillway-{os.getuid()}-"


@dataclass(frozen=True, slots=True)
class Folders:
    """`warning` says why the memory tier is not where it should be."""

    memory: Path
    durable: Path
    warning: str = ""


def prepare(checkpoint: Path, mem_dir: Path, need_bytes: int) -> Folders:
    """Make both folders, private to this user. Call under the checkpoint's lock."""
    durable = checkpoint / "state"
    try:
        durable.mkdir(parents=True, exist_ok=True)
        os.chmod(checkpoint, 0o700)
    except OSError as error:
        raise write_error(str(durable), error) from error
    if not os.access(durable, os.W_OK | os.X_OK):
        raise CheckpointError(
            "the checkpoint cannot be written",
            where=str(durable),
            hint="Give this user write permission, or choose another checkpoint.",
        )
    mine = mem_dir / name(str(checkpoint.resolve()))
    warning = shortage(mem_dir, max(0, need_bytes - _bytes_in(mine)))
    if warning:
        shutil.rmtree(mine, ignore_errors=True)  # an earlier run's, and short of space as it is
    base = checkpoint / "memory" if warning else mem_dir
    clear_orphans(mem_dir)
    return Folders(memory_folder(base, str(checkpoint.resolve())), durable, warning)


def memory_folder(base: Path, owner: str, host: str = "") -> Path:
    """The memory folder of the checkpoint `owner`, made private. `host` tells hosts apart that share `base`."""
    memory = private_folder(base / name(owner, host))
    (memory / OWNER_NOTE).write_text(owner)
    return memory


def name(owner: str, host: str = "") -> str:
    """What the memory folder of the checkpoint `owner` is called."""
    return _PREFIX + hashlib.sha256(owner.encode()).hexdigest()[:12] + (f"@{host}" if host else "")


def release(folders: Folders) -> None:
    """Give the memory back at an orderly end: the checkpoint has it all."""
    shutil.rmtree(folders.memory, ignore_errors=True)


def clear_orphans(mem_dir: Path) -> None:
    """Remove what killed queries left in memory, once their checkpoint is gone."""
    for folder in mem_dir.glob(f"{_PREFIX}*"):
        try:
            owner = Path((folder / OWNER_NOTE).read_text())
        except OSError:
            continue
        if not owner.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _bytes_in(folder: Path) -> int:
    """What an earlier run of this query left there: it counts towards what the query needs."""
    with contextlib.suppress(OSError):
        return sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder))
    return 0


def shortage(mem_dir: Path, need_bytes: int) -> str:
    """Why the memory directory will not do, or nothing."""
    if not mem_dir.is_dir() or not os.access(mem_dir, os.W_OK | os.X_OK):
        return f"{mem_dir} cannot be written: state is kept on local disk, which is slower"
    free = shutil.disk_usage(mem_dir).free
    if free < need_bytes + _HEADROOM:
        return (
            f"{mem_dir} has {free // 1_000_000} MB free, the nodes' budgets need {need_bytes // 1_000_000} MB: "
            "state is kept on local disk, which is slower"
        )
    return ""


def private_folder(path: Path) -> Path:
    """Make a folder that nobody else can look into; one that is there must be like that."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(str(path), error) from error
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise SetupError(
            "this folder belongs to somebody else or is open to others",
            where=str(path),
            hint="Remove it. Where it cannot be removed, choose another memory directory (the setting mem_dir) or "
            "another folder for temporary files (TMPDIR).",
        )
    return path
