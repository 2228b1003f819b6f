"""A failure inside Spark as the error that a user can act on, where we know it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from engine.errors import SinkError, SourceError, SpillwayError, decode
from engine.query.secrets import redacted


def explain(error: Exception, options: Iterable[Mapping[str, str]] = ()) -> SpillwayError:
    """A failure inside Spark as the error that a user can act on, where we know it; without the secrets
    in these options of sources and sink."""
    text = str(error)
    ours = decode(text)
    if ours is not None:
        return ours
    unreadable = re.search(
        r"(?:error while reading file|Could not read.*file) '?([^\s']+?)'?[\s.]", text
    )
    if unreadable:
        return SourceError(
            "this file of the source cannot be read",
            where=unreadable.group(1),
            hint="Repair or remove it, then start again: nothing is lost.",
        )
    if "No space left on device" in text:
        return SinkError(
            "no space left on device", hint="Free some space, then start again: nothing is lost."
        )
    return SpillwayError(
        "the query failed: " + redacted(text.strip().split("\n")[0], *options)[:500],
        hint="Spark's own words are in the log; state is as it was at the last commit.",
    )
