"""Secrets in options: taken from the environment, and kept out of everything that is printed.

`{env:NAME}` in an option's value stands for the environment variable NAME. `Options` shows no value
that may be a secret; `redacted` takes them out of what Spark and its connectors say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from engine.query.values import Table

_VARIABLE = re.compile(r"\{env:([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SECRET = re.compile(r"(?i)passw|secret|token|credential|jaas|keystore\.key$")
_ASSIGNED = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|credential)[\w.]*\s*=\s*)"
    r"(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s;&,)\"]+)"
)
_USERINFO = re.compile(r"(//[^/@\s:]+):[^/@\s]+@")
_LEAST = 3  # shorter texts would take half of every message away


class Options(dict[str, str]):
    """A source's or sink's options: a mapping that does not show secrets when it is printed."""

    def __init__(self, values: Mapping[str, str] = {}, hidden: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.hidden = frozenset(hidden)  # names whose values came from the environment

    def secrets(self) -> list[str]:
        """The values that nobody may see, longest first."""
        found = {self[name] for name in self if name in self.hidden or _SECRET.search(name)}
        for text in self.values():
            found |= {value.strip("\"'") for _, value in _ASSIGNED.findall(text)}
        return sorted((text for text in found if len(text) >= _LEAST), key=len, reverse=True)

    def __repr__(self) -> str:
        shown = {
            name: "***" if name in self.hidden or _SECRET.search(name) else redacted(text)
            for name, text in self.items()
        }
        return repr(shown)

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return (Options, (dict(self), self.hidden))


def substituted(table: Table, name: str, text: str, *, trusted: bool) -> tuple[str, bool]:
    """An option's value with environment variables put in, and whether there were any."""
    if not _VARIABLE.search(text):
        return text, False
    if not trusted:
        raise table.error(
            "may not use {env:…} here",
            name,
            "the environment is open to the command line's queries only",
        )

    def value(found: re.Match[str]) -> str:
        variable = found[1]
        if not _NAME.match(variable):
            raise table.error(f"`{found[0]}` names no variable", name, "write {env:NAME}")
        if variable not in os.environ:
            raise table.error(
                f"the environment variable {variable} is not set", name, f"export {variable}=…"
            )
        return os.environ[variable]

    return _VARIABLE.sub(value, text), True


def redacted(text: str, *options: Mapping[str, str]) -> str:
    """What somebody else says, without these options' secrets, and without what looks like one."""
    for mapping in options:
        known = mapping if isinstance(mapping, Options) else Options(mapping)
        for secret in known.secrets():
            text = text.replace(secret, "***")
    return _USERINFO.sub(r"\1:***@", _ASSIGNED.sub(r"\1***", text))
