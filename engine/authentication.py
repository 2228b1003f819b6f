"""Who may speak to Spark's processes: only those that have the secret of this start.

Spark's driver and executors read Java objects from their ports; without authentication any process that reaches a port
could have them make any object. On this machine alone Spark makes the secret itself and keeps it in the JVM: it is in no
setting, no file and on no command line. For a local cluster it is made here and handed over in a file that only its owner
can read. A standalone cluster has one of its own, or Spark does not start there.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ON = "spark.authenticate"
SECRET = "spark.authenticate.secret"
SECRET_HINT = (
    "Give the cluster's master, its workers and this driver one secret: `spark.authenticate true` and "
    "`spark.authenticate.secret ...` in spark-defaults.conf in SPARK_CONF_DIR, mode 0600. On a network "
    "that you trust, `spark.authenticate false` there does without."
)
_LINE = re.compile(r"([^\s=:]+)(?:\s*[=:]\s*|\s+|$)(.*)")


def conf() -> dict[str, str]:
    """Spark's setting for any master, unless the user's own configuration has it."""
    return {} if ON in user_settings() else {ON: "true"}


def warning() -> str:
    """What is to be said where the user has switched it off; empty otherwise."""
    if user_settings().get(ON, "true").lower() != "false":
        return ""
    return (
        f"Spark runs without authentication, as {_defaults()} has `{ON} false`: whoever reaches its ports can run code "
        "in it. Take the line out unless everybody on this machine and network may."
    )


def user_settings() -> dict[str, str]:
    """What the user's spark-defaults.conf sets, by name."""
    path = _defaults()
    if path is None or not path.is_file():
        return {}
    lines = [line.strip() for line in path.read_text().splitlines()]
    found = [_LINE.fullmatch(line) for line in lines if line and line[0] != "#"]
    return {one[1]: one[2].strip() for one in found if one}


def _defaults() -> Path | None:
    folder = os.environ.get("SPARK_CONF_DIR")
    return Path(folder, "spark-defaults.conf") if folder else None


@contextmanager
def secret(master: str) -> Iterator[None]:
    """While Spark starts: a secret for a cluster that is ours alone, in a file, since everybody sees command lines."""
    if not master.startswith("local-cluster") or ON in user_settings():
        yield
        return
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with tempfile.NamedTemporaryFile("w", prefix="spillway-", suffix=".conf") as file:
        file.write(f"{SECRET} {secrets.token_hex(32)}\n")
        file.flush()
        given = before or "pyspark-shell"
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f"--properties-file {file.name} --load-spark-defaults {given}"
        )
        try:
            yield
        finally:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
            if before is not None:
                os.environ["PYSPARK_SUBMIT_ARGS"] = before
