"""`ctl secret`: named secrets. A value comes from stdin or from a prompt, never from the command line, where every
process of the machine could read it."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from typing import TextIO

from app.ctl_base import Ctl, Verb, option
from app.ctl_http import quoted
from app.ctl_show import clock
from app.errors import ClientError
from control.handling.secrets import BYTES_MAX


def secret_set(ctl: Ctl) -> int:
    value = given(ctl.arguments.name, sys.stdin, getpass.getpass)
    return ctl.done(ctl.client.post("/secrets", {"name": ctl.arguments.name, "value": value}))


def given(name: str, stdin: TextIO, ask: Callable[[str], str]) -> str:
    """The value: asked for twice at a terminal; otherwise all of stdin but its last newline."""
    if stdin.isatty():
        value = ask(f"Value of {name}: ")
        if ask("Again: ") != value:
            raise ClientError("the two values differ")
    else:
        value = stdin.read(BYTES_MAX + 3).removesuffix("\n").removesuffix("\r")
    if not value:
        hint = f"Type it at the prompt, or: ctl secret set {name} < FILE"
        raise ClientError("there is no value", hint=hint)
    return value


def secrets(ctl: Ctl) -> int:
    answer = ctl.client.get("/secrets")
    rows = (
        (one["name"], clock(one["changed_s"], ctl.now_s), ", ".join(one["queries"]))
        for one in answer["items"]
    )
    return ctl.table(answer, ("secret", "changed", "queries"), rows, "no secrets")


def secret_drop(ctl: Ctl) -> int:
    return ctl.done(ctl.client.delete(f"/secrets/{quoted(ctl.arguments.name)}"))


_NAME = option("name", metavar="NAME")
VERBS = (
    Verb("secret list", "named secrets, without their values", secrets),
    Verb("secret set", "keep or replace a secret; its value from stdin or a prompt", secret_set, (_NAME,)),
    Verb("secret drop", "forget a secret that no query refers to", secret_drop, (_NAME,)),
)  # fmt: skip
