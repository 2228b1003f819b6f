"""The engine's one error tree. Every error says what happened, where, and what to do next.

A task that fails on a Spark worker reaches the driver as text inside a Java exception;
`SpillwayError.encode` and `decode` carry our own errors through it unharmed.
"""

from __future__ import annotations

import json
import re

_MARK = "SPILLWAY-ERROR:"


class SpillwayError(Exception):
    """A failure that a user can act on: `what` happened, `where`, and the `hint` on what to do."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what, where, hint)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.what}{advice}"

    def encode(self) -> str:
        """One line that survives being quoted inside another exception's text."""
        body = [type(self).__name__, self.what, self.where, self.hint]
        return _MARK + json.dumps(body).encode().hex() + ";"


class QueryFileError(SpillwayError):
    """The query file (TOML) is not as it should be."""


class SqlError(SpillwayError):
    """The SQL text is refused; `where` carries line and column."""


class SettingError(SpillwayError):
    """A setting or command-line option is out of range."""


class SetupError(SpillwayError):
    """The machine lacks something: Java, shared memory, permission."""


class SourceError(SpillwayError):
    """A source cannot be read."""


class SinkError(SpillwayError):
    """Results cannot be written."""


class StateError(SpillwayError):
    """State cannot be written, read back, or does not match its checksum."""


class CheckpointError(SpillwayError):
    """The checkpoint is of another query or format, in use, or damaged."""


class HostError(SpillwayError):
    """What was asked of the engine's queries cannot be: an impossible transition, an overlap, too many."""


_KINDS: dict[str, type[SpillwayError]] = {
    kind.__name__: kind
    for kind in (
        SpillwayError,
        QueryFileError,
        SqlError,
        SettingError,
        SetupError,
        SourceError,
        SinkError,
        StateError,
        CheckpointError,
    )
}


def decode(text: str) -> SpillwayError | None:
    """The SpillwayError hidden in an exception's text by `encode`, if there is one."""
    found = re.search(_MARK + r"([0-9a-f]+);", text)
    if not found:
        return None
    kind, what, where, hint = json.loads(bytes.fromhex(found.group(1)))
    return _KINDS[kind](what, where=where, hint=hint)
