"""The one error tree of control/: what, where, limit and next action.

Refusals are not errors: they are values (arbiter.py).
"""

from __future__ import annotations


class Explained(Exception):
    """An error that says what to do about it: `what`, `where`, and the `hint`."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what, where, hint)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.what}{advice}"


class ControlError(Explained):
    """Something control/ was given is wrong."""


class SnapshotError(ControlError):
    """A snapshot's columns do not fit together."""


class PolicyError(ControlError):
    """A policy's table (TOML) is not as it should be."""


class PlanError(ControlError):
    """A plan is not well formed, or its JSON is not one."""


class ImpossibleTransition(ControlError):
    """An action was told to do what its state does not allow; the message ends with its history."""


class TomlError(ControlError):
    """A text or a file is not TOML, or says what no person writes."""


class RuleError(ControlError):
    """A rule's text (TOML) is not as it should be."""


class SecretError(ControlError):
    """A named secret is not there, or its file cannot be read or written."""


class StoreError(ControlError):
    """The store cannot be read or written. `again`: trying again later may help (locked, disk full)."""

    def __init__(self, what: str, *, where: str = "", hint: str = "", again: bool = True) -> None:
        super().__init__(what, where=where, hint=hint)
        self.again = again


class StoreInvalid(StoreError):
    """What is to be kept cannot be: a number too large, text that is none. The store itself is well."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where=where, hint=hint, again=False)


class StoreConflict(StoreError):
    """What is to be added is there already, or was changed by somebody else meanwhile."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where=where, hint=hint, again=False)
