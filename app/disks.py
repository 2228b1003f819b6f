"""How full the disks are that a data directory and state in memory lie on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable


def room(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Free and whole bytes by path; a path that is not there is left out."""
    found = {}
    for path in paths:
        if os.path.isdir(path):
            usage = shutil.disk_usage(path)
            found[path] = (usage.free, usage.total)
    return found
