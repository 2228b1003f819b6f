"""Secrets in options: where they come from, and how they are kept out of everything that is printed.

`{env:NAME}` in an option's value stands for the environment variable NAME and is put in when the file is read.
`{secret:NAME}` stands for a named secret, and stays as it is: `revealed` puts the value in when Spark is given the
options, and nothing else ever has it. `Options` shows no value that may be a secret. How texts are redacted is
control/redaction.py's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from control.errors import SecretError
from control.ports import Secrets
from control.redaction import MASK, REFERENCE, is_secret, looks_secret, redacted, references
from engine.errors import QueryFileError
from engine.query import jaas
from engine.query.values import Table

_VARIABLE = re.compile(r"\{env:([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Options(dict[str, str]):
    """A source's or sink's options: a mapping that does not show secrets when it is printed.

    `hidden`: names of options whose values came from the environment. `keeper`: who has the named secrets."""

    def __init__(
        self,
        values: Mapping[str, str] = {},
        hidden: Iterable[str] = (),
        keeper: Secrets | None = None,
    ) -> None:
        super().__init__(values)
        self.hidden, self.keeper = frozenset(hidden), keeper
        self._known: set[str] = set()  # values of named secrets that were put in

    def revealed(self) -> dict[str, str]:
        """With the values of the named secrets, as Spark is to have them."""
        return {name: self.reveal(name) for name in self}

    @property
    def put_in(self) -> frozenset[str]:
        """The values of named secrets that Spark has been given by now."""
        return frozenset(self._known)

    def known(self) -> list[str]:
        """The values that nobody may see."""
        found = set(self._known)
        for name, text in self.items():
            found |= {*looks_secret(text), *([text] if self._is_hidden(name) else [])}
        return sorted(found)

    def shown(self) -> dict[str, str]:
        """As everybody may see them."""
        return {
            name: MASK if self._is_hidden(name) else redacted(text) for name, text in self.items()
        }

    def _is_hidden(self, name: str) -> bool:
        if name in self.hidden:
            return True
        return is_secret(name) and REFERENCE.fullmatch(self[name]) is None

    def reveal(self, name: str) -> str:
        """One option's value with the named secrets in it."""
        text, parts, at = self[name], list[str](), 0
        for found in REFERENCE.finditer(text):
            value = self._value(name, found[1])
            self._known.add(value)
            parts.append(text[at : found.start()])
            if name == jaas.OPTION and found[0] != text:
                value = jaas.written(value, "".join(parts))
            parts.append(value)
            at = found.end()
        whole = "".join([*parts, text[at:]])
        if parts and name == jaas.OPTION:
            self._known.add(whole)
            if not jaas.is_allowed(whole):
                raise QueryFileError(
                    "with its secrets it names a login module that is not allowed",
                    where=f"options.{name}",
                    hint=f"allowed are: {', '.join(jaas.MODULES)}",
                )
        return whole

    def _value(self, name: str, secret: str) -> str:
        if self.keeper is None:
            raise QueryFileError(
                f"there is no folder with the secret `{secret}` here", where=f"options.{name}"
            )
        try:
            return self.keeper.value(secret)
        except SecretError as error:
            what = f"{error.what} ({error.where})" if error.where else error.what
            raise QueryFileError(what, where=f"options.{name}", hint=error.hint) from None

    def __repr__(self) -> str:
        return repr(self.shown())

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return (Options, (dict(self), self.hidden))


def known_in(*options: Mapping[str, str]) -> list[str]:
    """The secrets of several sources and sinks."""
    each = (given if isinstance(given, Options) else Options(given) for given in options)
    return [secret for one in each for secret in one.known()]


def check_references(table: Table, name: str, text: str) -> None:
    """Refuses references to secrets where the value must be known to be checked or shown."""
    for secret in sorted(references(text)):
        if not may_refer(name):
            raise table.error(
                f"may not be the secret `{secret}`: its value is checked and shown",
                name,
                "secrets are for passwords, keys, certificates, `user` and `url`",
            )


def may_refer(name: str) -> bool:
    """May this option's value be a named secret?"""
    if name.endswith(".location"):
        return False
    return is_secret(name) or "certificate" in name or name in ("user", "url")


def substituted(table: Table, name: str, text: str, *, trusted: bool) -> tuple[str, bool]:
    """An option's value with environment variables put in, and whether there were any."""
    if not _VARIABLE.search(text):
        return text, False
    if not trusted:
        raise table.error(
            "may not use {env:…} here",
            name,
            "the environment is open to the command line's queries only; write {secret:NAME}",
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
