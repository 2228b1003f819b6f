"""The one place where secrets are taken out of what people and files are shown.

Comes in: a text (a log line, an exception's words, a query file), or plain JSON, and the secret values that are
known. Goes out: the same without them. Known values are found in every spelling that programs give a text: as JSON,
TOML, Python, JAAS, SQL, URL, XML or base64 write it. What is not known is found by what stands before it: a name such
as `password`, or a URL's `//user:`. In doubt too much is taken out. Who may see what is not decided here.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from control.errors import TomlError
from control.toml import read_toml

MASK = "***"
KNOWN_LENGTH_MIN = 3  # shorter values would take half of every message away
LINE_LENGTH_MIN = 8  # of a secret with several lines, these are looked for one by one, too
REFERENCE = re.compile(r"\{secret:([^{}]*)\}")
_PLACEHOLDERS = re.compile(r"(?:\{(?:secret|env):[^{}]*\}|\*{3})+")

_NAMES = (
    r"(?:passw(?:or)?d|pwd|passphrase|secret|token|credential|jaas[._-]?config|authorization"
    r"|(?:api|access|private|account)[._-]?key|keystore[._-]key)"
)
_NAME = re.compile(rf"(?i){_NAMES}|jaas")
# What stands before a value: a name and what assigns, an option of a command, or a URL's user.
_ASSIGNED = re.compile(
    rf"(?i)(?<!unexpected ){_NAMES}[\w.\-]{{0,64}}"
    r"(?P<close>\\{0,16}[\"'])?\s{0,8}(?P<sign>=>|->|={1,2}|:)\s{0,8}"
)
_FLAG = re.compile(rf"(?i)--[\w-]{{0,40}}{_NAMES}[\w-]{{0,40}}\s{{1,8}}")
_SAID = re.compile(r"(?i)\bbearer\s{1,8}|\bsign in as \S{1,80}, password ")
_USER = re.compile(r"//[^\s/:@\"'<>]{0,200}:")
_PORT = re.compile(r"\d{1,5}(?:[\s/,;\"')?\]]|$)")
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,60}-----|\Z)"
    r"|\A[A-Za-z0-9+/=\s]+-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----",  # the beginning was cut off
    re.S,
)
# How a value may be written.
_QUOTED = (
    re.compile(r"(\"\"\"|''')(?P<value>.*?)\1", re.S),
    re.compile(r"[bruf]{0,2}\"(?P<value>(?:\\.|\"\"|[^\"\\\n])*)\"", re.I),
    re.compile(r"[bruf]{0,2}'(?P<value>(?:\\.|''|[^'\\\n])*)'", re.I),
    re.compile(r"(?P<escape>\\{1,16})(?P<quote>[\"'])(?P<value>[^\n]*?)(?<!\\)(?P=escape)(?P=quote)"),
    re.compile(r"(?P<value>\{(?:\}\}|[^}\n])*\})"),
)  # fmt: skip
_OPENED = re.compile(r"[bruf]{0,2}\\{0,16}[\"']", re.I)
_WORD = re.compile(r"[^\s;&]+")
_WORD_OF_LINE = re.compile(r"\S+")
# What TOML is made of: comments, names with a number of a secret kind, texts.
_TOML = re.compile(
    rf"(?i:(?P<name>[\"']?[\w.\-]{{0,64}}{_NAMES}[\w.\-]{{0,64}}[\"']?[ \t]*=[ \t]*)(?P<number>[\d+-][^\s,}}#]*))"
    r"|#[^\n]*|\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5}|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'",
    re.S,
)


def is_secret(name: str) -> bool:
    """Does an option, a setting or a field of this name hold a secret?"""
    return _NAME.search(name) is not None


def redacted(text: str, known: Iterable[str] = ()) -> str:
    """The text without the known secrets, and without everything that looks like one."""
    return _masked(without(text, known))


def without(text: str, known: Iterable[str]) -> str:
    """The text without the known secrets, however they are written in it."""
    return _left(text, _all_spellings(known))


def redacted_json(value: Any, known: Iterable[str] = ()) -> Any:
    """Plain JSON with every text in it redacted, and everything that has the name of a secret."""
    return _json(value, _all_spellings(known))


def _json(value: Any, spelled: Sequence[str]) -> Any:
    if isinstance(value, str):
        return _masked(_left(value, spelled))
    if isinstance(value, Mapping):
        return {
            _masked(_left(str(name), spelled)): _hidden(item)
            if is_secret(str(name)) and isinstance(item, str | int | float)
            else _json(item, spelled)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_json(item, spelled) for item in value]
    return value


def _left(text: str, spelled: Sequence[str]) -> str:
    for one in spelled:
        text = text.replace(one, MASK)
    return text


def _all_spellings(known: Iterable[str]) -> list[str]:
    found = {one for secret in known for one in spellings(secret)}
    return sorted(found, key=len, reverse=True)


def _hidden(item: Any) -> Any:
    return item if isinstance(item, bool) or _is_placeholder(str(item)) else MASK


def looks_secret(text: str) -> list[str]:
    """The parts of a text that look like secrets."""
    return [text[begin:end] for begin, end in _spans(text) if begin < end]


# -- query files -----------------------------------------------------------------------------------------


def secrets_in_file(text: str) -> list[str]:
    """The secret values that stand in a query file; none where it is not TOML."""
    return sorted({value for _, value in _in_file(text) or ()})


def places_in_file(text: str) -> list[str]:
    """Which options of a query file hold secrets in plain text."""
    return list(dict.fromkeys(place for place, _ in _in_file(text) or ()))


def references(text: str) -> frozenset[str]:
    """The names of the secrets that a query file refers to."""
    return frozenset(REFERENCE.findall(text))


def redacted_file(text: str) -> str:
    """A query file as those may see it who may not see its passwords: everything else stays as written."""
    pairs = _in_file(text)
    if pairs is None:
        return redacted(text)
    known = {value for _, value in pairs}

    def part(found: re.Match[str]) -> str:
        written = found[0]
        if found["number"] is not None:
            return f'{found["name"]}"{MASK}"'
        if written.startswith("#"):
            return redacted(written, known)
        value = read_toml(f"x = {written}")["x"]
        shown = MASK if value in known else without(value, known)
        if shown == value and without(written, known) == written:
            return written
        return json.dumps(shown, ensure_ascii=False)

    return _TOML.sub(part, text)


def _in_file(text: str) -> list[tuple[str, str]] | None:
    """Each secret in a query file: the option that holds it, and the value. None where it is not TOML."""
    try:
        leaves = list(_leaves(read_toml(text)))
    except TomlError:
        return None
    found = list[tuple[str, str]]()
    for place, name, value in leaves:
        if isinstance(value, bool) or not str(value):
            continue
        if is_secret(name):
            found += [] if _is_placeholder(str(value)) else [(place, str(value))]
        if isinstance(value, str) and (is_secret(name) or ".options." in f".{place}"):
            found += [(place, one) for one in looks_secret(value)]
    return found


def _leaves(table: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str, Any]]:
    """Each value with its place and its option's name; TOML reads a.b.c as tables within tables."""
    for key, value in table.items():
        at = f"{place}.{key}" if place else key
        if isinstance(value, dict):
            yield from _leaves(value, at)
        elif isinstance(value, list):
            for item in value:
                yield from _leaves(item if isinstance(item, dict) else {key: item}, place)
        else:
            yield at, at.partition(".options.")[2] or key, value


# -- how secrets look ------------------------------------------------------------------------------------


def _is_placeholder(text: str) -> bool:
    return _PLACEHOLDERS.fullmatch(text) is not None


def _masked(text: str) -> str:
    parts, at = list[str](), 0
    for begin, end in _spans(text):
        parts += [text[at:begin], MASK]
        at = end
    return "".join(parts) + text[at:]


def _spans(text: str) -> list[tuple[int, int]]:
    """Where something stands that looks like a secret, in order and apart from each other."""
    found = [*_assigned(text), *_flagged(text), *_of_users(text)]
    found += [match.span() for match in _PEM.finditer(text)]
    apart: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        if _is_placeholder(text[begin:end]):
            continue
        if apart and begin <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        elif begin < end:
            apart.append((begin, end))
    return apart


def _assigned(text: str) -> Iterator[tuple[int, int]]:
    """Each name is looked at by itself, so that a quote that is not closed hides no further name."""
    covered = 0  # up to here nothing is left anyway
    for name in _ASSIGNED.finditer(text):
        if name.end() < covered or REFERENCE.match(text, max(0, name.start() - 1)):
            continue  # a reference to a named secret is none itself
        whole_line = name["sign"] == "->" or (name["sign"] == ":" and not name["close"])
        begin, end = _value(text, name.end(), whole_line=whole_line)
        if end == _line_end(text, end):
            covered = end
        yield begin, end


def _flagged(text: str) -> Iterator[tuple[int, int]]:
    for pattern in (_FLAG, _SAID):
        for name in pattern.finditer(text):
            yield _value(text, name.end(), whole_line=False)


def _value(text: str, at: int, *, whole_line: bool) -> tuple[int, int]:
    """Where the value is that begins at a place: within its quotes, or as far as it may reach."""
    for pattern in _QUOTED:
        if found := pattern.match(text, at):
            return found.span("value")
    if opened := _OPENED.match(text, at):  # the other quote is missing
        return opened.end(), _line_end(text, at)
    if whole_line:
        return at, _line_end(text, at)
    word = _WORD.match(text, at)
    return (at, at + (len(word[0].rstrip("\"'),]}")) or len(word[0]))) if word else (at, at)


def _of_users(text: str) -> Iterator[tuple[int, int]]:
    """Passwords in URLs: from the user's colon to the last @ of the line, or of the word after a port."""
    covered = 0
    for user in _USER.finditer(text):
        begin = user.end()
        if begin < covered:
            continue
        line = _line_end(text, begin)
        end = text.rfind("@", begin, line)
        if end < 0:
            covered = line
            continue
        if _PORT.match(text, begin):
            word = _WORD_OF_LINE.match(text, begin)
            end = text.rfind("@", begin, word.end() if word else begin)
        else:
            covered = end
        if end > begin:
            yield begin, end


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def spellings(secret: str) -> Iterator[str]:
    """A known secret as programs write it; one of several lines also line by line."""
    lines = [line.strip() for line in secret.splitlines()]
    whole = {secret, secret.strip()} | {line for line in lines if len(line) >= LINE_LENGTH_MIN}
    for text in whole:
        if len(text) < KNOWN_LENGTH_MIN:
            continue
        once = {text, *_written(text)}
        yield from (one for one in once | {twice for one in once for twice in _written(one)} if one)


def _written(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield text.replace("\\", "\\\\").replace('"', '\\"')
    yield text.replace("'", "\\'")
    yield text.replace("'", "''")
    raw = text.encode("utf-8", "surrogatepass")
    yield from (quote(raw, safe=""), quote(raw), quote_plus(raw))
    yield from (html.escape(text), html.escape(text, quote=False))
    yield base64.b64encode(raw).decode()
