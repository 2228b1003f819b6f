"""A failure inside Spark as the error that a user can act on, where we know it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote

from control.redaction import redacted
from engine.errors import SourceError, SpillwayError, StateError, decode
from engine.query.secrets import known_in
from engine.sources.native import local_path

_UNREADABLE = r"(?:[Ee]rror while reading file|Could not read.*file) '?([^\s']+?)'?\.?(?:\s|$)"


def explain(
    error: Exception, checkpoint: Path, options: Iterable[Mapping[str, str]] = ()
) -> SpillwayError:
    """What went wrong, without the secrets in these options of sources and sink."""
    text = str(error)
    ours = decode(text)
    if ours is not None:
        return ours
    unreadable = re.search(_UNREADABLE, text)
    if unreadable:
        return SourceError(
            "this file of the source cannot be read",
            where=unquote(local_path(unreadable.group(1))),
            hint="Repair, replace or remove it, then start again: nothing is lost.",
        )
    if "No space left on device" in text:
        local = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
        return StateError(
            "no space left on device for Spark's own files",
            where=f"{checkpoint / 'spark'} or {local}",
            hint="Free some space, then start again: nothing is lost.",
        )
    return SpillwayError(
        "the query failed: " + redacted(text.strip(), known_in(*options)).split("\n")[0][:500],
        hint="Spark's own words are in the log; state is as it was at the last commit.",
    )


def jvm_gone(log_dir: Path) -> SpillwayError:
    """Spark's JVM ended under us."""
    return SpillwayError(
        "Spark's JVM has gone away",
        hint=f"Its last words are in {log_dir}/spark.log; if memory ran out, try another driver_memory "
        "(a setting). State is as it was at the last commit: start again to resume.",
    )
