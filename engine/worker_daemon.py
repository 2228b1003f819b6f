"""Spark's Python worker daemon with our libraries imported before it forks, so that a worker's first
task does not wait for them. It imports only: no thread pool is started
and nothing is opened before the fork. What tasks do is stage.py's.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os

PRELOAD = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "duckdb",
    "pyspark.worker",
    "engine.exchange",
    "engine.stage",
)


def preload() -> list[str]:
    """Import what is there; a worker without one of them says so itself when it needs it."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # or NumPy starts threads, which a fork would lose
    loaded = []
    for name in PRELOAD:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
            loaded.append(name)
    return loaded


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    # A worker collects garbage after every task: let it not look through the libraries (10 ms).
    gc.freeze()
    atexit.register(gc.unfreeze)  # or DuckDB's binding reports leaks when the daemon ends
    manager()
