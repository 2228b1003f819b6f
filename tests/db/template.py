"""New stores for tests: copies of one that this process has made once, which takes a tenth of the time.

How `open_store` itself makes a store is what tests/db/test_maintenance.py and test_faults.py are about.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from db.open import LEDGER_FILE, METRICS_FILE, Store, open_store


def nothing(_: Store) -> None:
    """Leaves the store empty."""


def fresh_store(
    folder: Path, fill: Callable[[Store], None] = nothing, busy_s: float = 5.0
) -> Store:
    """The store in this folder; where there is none, a new one with what `fill` writes into it."""
    if not (folder / LEDGER_FILE.name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        for kind in (LEDGER_FILE, METRICS_FILE):
            shutil.copyfile(_template(fill) / kind.name, folder / kind.name)
            (folder / kind.name).chmod(0o600)
    return open_store(folder, busy_s=busy_s)


@cache
def _template(fill: Callable[[Store], None]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="spillway-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    store = open_store(folder, create=True)
    try:
        fill(store)
    finally:
        store.close()
    return folder
