"""The `format`, `options` and `value_format` of a query file's tables, checked against formats.py."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from control.ports import Secrets
from control.redaction import REFERENCE
from engine.errors import QueryFileError
from engine.query import jaas
from engine.query.addresses import is_link_local
from engine.query.formats import MESSAGES, REFUSED, VALUE_FORMATS, Format
from engine.query.scope import closest
from engine.query.secrets import Options, check_references, substituted
from engine.query.values import Table, is_number

_RUNS_CODE = ("jdbc",)  # drivers take scripts and class names in their URL


def read_format(table: Table, formats: Mapping[str, Format], *, trusted: bool = True) -> str:
    """The `format` key, if it is one of the allowed, as Spark spells it."""
    names = list(formats)
    given = table.text("format", hint=f"allowed are: {', '.join(names)}")
    name = next((known for known in names if known.lower() == given.lower()), None)
    if name is None:
        hint = closest(given.lower(), names) or f"allowed are: {', '.join(names)}"
        raise table.error(f"format `{given.lower()}` is not allowed", "format", hint)
    if name in _RUNS_CODE and not trusted:
        raise table.error(
            f"format `{name}` is not allowed here",
            "format",
            "its URL can run code: it is for the command line's queries only",
        )
    return name


def read_value_format(table: Table, kind: str) -> str:
    """How the messages in the column `value` are written; "" where they are taken as they are."""
    if kind not in ("kafka", "socket"):
        return ""
    if not table.has("value_format"):
        table.allow("value_format")
        return ""
    found = table.text("value_format")
    if found not in VALUE_FORMATS:
        hint = f"allowed are: {', '.join(VALUE_FORMATS)}; without it `value` is a column"
        raise table.error(f"`{found}` is not known", "value_format", hint)
    return found


def read_options(
    table: Table,
    form: Format,
    folder: Path = Path(),
    *,
    value_format: str = "",
    trusted: bool = True,
    secrets: Secrets | None = None,
) -> Options:
    """The `options` table as Spark wants it: texts, and names as Spark spells them. With `secrets`, the named
    ones must be there and fit; their values do not become part of the options."""
    if not table.has("options"):
        table.allow("options")
        _check_needs(table, form, {})
        return Options()
    allowed = form.options
    if allowed is not None:
        allowed += MESSAGES.get(value_format, ())
    found: dict[str, str] = {}
    hidden: list[str] = []
    options = table.table("options")
    for name, value in _flat(options.values):
        spelled = name if allowed is None else _spelled(options, name, allowed)
        if spelled in found:
            raise options.error("is given twice", name)
        text, secret = substituted(options, name, _text(options, name, value), trusted=trusted)
        check_references(options, spelled, text)
        found[spelled] = _checked(options, spelled, text, folder)
        if spelled == "compression":
            _check_compression(options, text, form)
        if not trusted:
            _check_hosts(options, spelled, text)
        hidden += [spelled] if secret else []
    _check_needs(table, form, found)
    known = Options(found, hidden, secrets)
    if secrets is not None:
        _check_secrets(options, known)
    return known


def _check_compression(table: Table, text: str, form: Format) -> None:
    if text.lower() not in form.compressions:
        hint = f"allowed are: {', '.join(form.compressions)}"
        raise table.error(f"`{text}` is not a known compression", "compression", hint)


def _check_hosts(table: Table, name: str, text: str) -> None:
    """A query that was registered over the network names no link-local address."""
    hosts = {"host": [text], "kafka.bootstrap.servers": text.split(",")}.get(name, [])
    for host in hosts:
        place = host if name == "host" else host.rpartition(":")[0] or host
        if is_link_local(place):
            raise table.error(f"`{place}` is a link-local address", name, "name another host")


def _check_secrets(table: Table, options: Options) -> None:
    for name in options:
        try:
            options.reveal(name)
        except QueryFileError as error:
            raise table.error(error.what, name, error.hint) from None


def option_paths(prefix: str, options: Mapping[str, str]) -> dict[str, Path]:
    """The files that options name."""
    return {
        f"{prefix}.options.{name}": Path(text)
        for name, text in options.items()
        if name.endswith(".location")
    }


def _check_needs(table: Table, form: Format, options: Mapping[str, str]) -> None:
    for group in form.needs:
        given = [name for name in group if name in options]
        names = " or ".join(group)
        if not given:
            raise table.error(
                f"needs {names}", "options", f'write options = {{ "{group[0]}" = … }}'
            )
        if len(given) > 1:
            raise table.error(f"has both {' and '.join(given)}", "options", "give one of them")


def _spelled(options: Table, name: str, allowed: tuple[str, ...]) -> str:
    spelled = next((known for known in allowed if known.lower() == name.lower()), None)
    if spelled is None:
        reason = REFUSED.get(name.lower())
        hint = reason or closest(name, list(allowed)) or _list(allowed)
        raise options.error("is not an allowed option", name, hint)
    return spelled


def _list(allowed: tuple[str, ...]) -> str:
    return f"allowed are: {', '.join(allowed) or 'none'}"


def _checked(options: Table, name: str, text: str, folder: Path) -> str:
    """Values that need a look: files made absolute, and no login module but Kafka's own."""
    if name.endswith(".location"):
        return os.path.normpath(folder / os.path.expanduser(text))
    if name == jaas.OPTION and not jaas.is_allowed(text) and not REFERENCE.fullmatch(text):
        raise options.error(
            "names a login module that is not allowed",
            name,
            f'write for example "{jaas.MODULES[0]} required username=… password=…;"',
        )
    if name == "port" and not (is_number(text) and 0 < int(text) < 65536):
        raise options.error("must be a port, 1 to 65535", name)
    return text


def _text(options: Table, name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise options.error("must be a text, a number or a boolean", name)


def _flat(values: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """TOML reads kafka.bootstrap.servers without quotes as tables within tables."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value
