"""Named secrets: keeping, replacing and dropping them. No answer and no audit line has a value."""

from __future__ import annotations

from collections.abc import Mapping

from control.errors import SecretError
from control.handling.base import Handler, Ports, missing
from control.kinds import Answer, Asked, Status
from control.ledger import SECRET_NAME, QueryRow
from control.redaction import references

LENGTH_MIN, BYTES_MAX = 4, 1 << 16


def users_of(name: str, queries: list[QueryRow]) -> list[str]:
    """The registered queries whose files refer to a secret."""
    return [row.name for row in queries if name in references(row.text)]


def value_fault(value: str) -> str:
    """What is wrong with a secret's value; empty when nothing is."""
    if len(value) < LENGTH_MIN:
        return f"a secret has at least {LENGTH_MIN} characters: a shorter one cannot be kept out of messages"
    if len(value.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        return f"a secret has at most {BYTES_MAX} bytes"
    if "\0" in value or any(0xD800 <= ord(character) < 0xE000 for character in value):
        return "a secret is text"
    return ""


def put(ports: Ports, asked: Asked) -> Answer:
    """Keep a value under a name, new or instead of another."""
    if ports.secrets is None:
        return Answer(Status.REFUSED, "secrets cannot be kept from here")
    name, value = asked.body["name"], asked.body["value"].removesuffix("\n").removesuffix("\r")
    if not SECRET_NAME.fullmatch(name):
        return Answer(Status.INVALID, "a secret's name has up to 64 letters, digits, -, _ and .")
    if fault := value_fault(value):
        return Answer(Status.INVALID, fault)
    try:
        there = name in {secret.name for secret in ports.secrets.names()}
        ports.secrets.put(name, value)
    except SecretError as error:
        return Answer(Status.REFUSED, str(error))
    users = users_of(name, ports.store.queries.all())
    later = f"; taken when started again: {', '.join(users)}" if there and users else ""
    return Answer(Status.ACCEPTED, f"{'replaced' if there else 'kept'}{later}", name)


def drop(ports: Ports, asked: Asked) -> Answer:
    """Forget a secret that no registered query refers to."""
    if ports.secrets is None:
        return Answer(Status.REFUSED, "secrets cannot be dropped from here")
    name = asked.body["name"]
    if not SECRET_NAME.fullmatch(name):
        return missing("secret", name)
    if users := users_of(name, ports.store.queries.all()):
        text = f"{', '.join(users)} could not start again without it: unregister first, or set another value"
        return Answer(Status.REFUSED, text)
    try:
        done = ports.secrets.drop(name)
    except SecretError as error:
        return Answer(Status.REFUSED, str(error))
    return Answer(Status.ACCEPTED, "dropped", name) if done else missing("secret", name)


HANDLERS: Mapping[str, Handler] = {"secret.set": put, "secret.drop": drop}
