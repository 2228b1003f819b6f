"""Spark's schema DDL, parsed: "k long, ts timestamp, tags array<string>" to columns and types.

Here: the grammar of type names and their one canonical spelling (Spark's simpleString).
Not here: what a type may be used for (types.py) and any Spark session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.query.model import Field

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<sign>[<>(),:]))"
)
_PLAIN_NAME = re.compile(r"\w+\Z")
_SPELLINGS = {
    "boolean": "boolean",
    "bool": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "variant": "variant",
    "void": "void",
}
_REFUSED = {
    "char": "string",
    "character": "string",
    "varchar": "string",
    "text": "string",
    "datetime": "timestamp",
    "number": "decimal(p,s)",
    "uint": "bigint",
}


DEPTH_MAX = 32


class DdlError(ValueError):
    """The schema text is not DDL that we read; the message says where and what to write."""


@dataclass(frozen=True, slots=True)
class DataType:
    """One Spark type. `params` are a decimal's precision and scale; a struct's `names` go with
    its `children`; `collation` is a string's, where it is not the binary one."""

    name: str
    params: tuple[int, ...] = ()
    children: tuple[DataType, ...] = ()
    names: tuple[str, ...] = ()
    collation: str = ""

    def __str__(self) -> str:
        if self.name == "struct":
            pairs = zip(self.names, self.children, strict=True)
            return "struct<" + ",".join(f"{quoted(n)}:{t}" for n, t in pairs) + ">"
        if self.children:
            return f"{self.name}<{','.join(map(str, self.children))}>"
        if self.params:
            return f"{self.name}({','.join(map(str, self.params))})"
        return f"{self.name} collate {self.collation}" if self.collation else self.name


def parse_schema(text: str) -> tuple[Field, ...]:
    """The columns of a schema, in order, with canonical types."""
    tokens = _Tokens(text)
    columns = [_column(tokens)]
    while tokens.skip(","):
        columns.append(_column(tokens))
    tokens.end()
    return tuple(Field(name, str(kind)) for name, kind in columns)


def parse_type(text: str) -> DataType:
    """One type, for example `decimal(10,2)` or `array<struct<a:int>>`."""
    tokens = _Tokens(text)
    found = _type(tokens)
    tokens.end()
    return found


class _Tokens:
    """The words and signs of a schema, read one after the other."""

    def __init__(self, text: str) -> None:
        self.items = list(_split(text))
        self.at = 0
        self.depth = 0

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """While the types inside another one are read."""
        if self.depth >= DEPTH_MAX:
            raise DdlError(f"types are nested more than {DEPTH_MAX} deep")
        self.depth += 1
        yield
        self.depth -= 1

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def take(self) -> str:
        found = self.peek()
        self.at += 1
        return found

    def skip(self, word: str) -> bool:
        if self.peek().lower() != word:
            return False
        self.at += 1
        return True

    def expect(self, word: str, after: str) -> None:
        if not self.skip(word):
            raise DdlError(f"expected `{word}` after `{after}`, got {_shown(self.peek())}")

    def end(self) -> None:
        if self.peek():
            raise DdlError(f"expected `,` or the end, got {_shown(self.peek())}")


def _split(text: str) -> Iterator[str]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if not found:
            raise DdlError(f"cannot read {text[at:].strip()[:20]!r}")
        yield found.group().strip()
        at = found.end()


def _column(tokens: _Tokens) -> tuple[str, DataType]:
    name = _name(tokens, "a column name")
    tokens.skip(":")
    if tokens.peek() in ("", ","):
        raise DdlError(f"column `{name}` has no type; write for example `{name} long`")
    kind = _type(tokens)
    if tokens.skip("not"):
        tokens.expect("null", "NOT")
    if tokens.skip("comment") and not tokens.take().startswith("'"):
        raise DdlError(f"COMMENT of column `{name}` needs a quoted text")
    return name, kind


def _name(tokens: _Tokens, what: str) -> str:
    word = tokens.take()
    if word.startswith("`"):
        return word[1:-1].replace("``", "`")
    if not _PLAIN_NAME.match(word):
        raise DdlError(f"expected {what}, got {_shown(word)}")
    return word


def _type(tokens: _Tokens) -> DataType:
    word = tokens.take().lower()
    if word in ("decimal", "dec", "numeric"):
        return _decimal(tokens)
    if word == "array":
        return DataType("array", children=_children(tokens, word, 1))
    if word == "map":
        return DataType("map", children=_children(tokens, word, 2))
    if word == "struct":
        return _struct(tokens)
    if word == "string" and tokens.skip("collate"):
        collation = _name(tokens, "a collation").upper()
        return DataType("string", collation="" if collation == "UTF8_BINARY" else collation)
    if word in _SPELLINGS:
        return DataType(_SPELLINGS[word])
    advice = f"; write {_REFUSED[word]}" if word in _REFUSED else ""
    raise DdlError(f"unknown type {_shown(word)}{advice}")


def _decimal(tokens: _Tokens) -> DataType:
    precision, scale = 10, 0
    if tokens.skip("("):
        precision = _number(tokens)
        scale = _number(tokens) if tokens.skip(",") else 0
        tokens.expect(")", "decimal(…")
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise DdlError(
            f"decimal({precision},{scale}) is out of range; precision is 1 to 38, "
            "scale 0 to precision"
        )
    return DataType("decimal", params=(precision, scale))


def _number(tokens: _Tokens) -> int:
    word = tokens.take()
    if not word.isdecimal() or len(word) > 9:
        raise DdlError(f"expected a number, got {_shown(word)}")
    return int(word)


def _children(tokens: _Tokens, word: str, count: int) -> tuple[DataType, ...]:
    tokens.expect("<", word)
    with tokens.deeper():
        found = [_type(tokens)]
        for _ in range(count - 1):
            tokens.expect(",", word)
            found.append(_type(tokens))
    tokens.expect(">", f"{word}<…")
    return tuple(found)


def _struct(tokens: _Tokens) -> DataType:
    tokens.expect("<", "struct")
    with tokens.deeper():
        columns = [_column(tokens)]
        while tokens.skip(","):
            columns.append(_column(tokens))
    tokens.expect(">", "struct<…")
    names, kinds = zip(*columns, strict=True)
    return DataType("struct", children=kinds, names=names)


def quoted(name: str) -> str:
    """A name as a schema has it: in backticks where it needs them."""
    return name if _PLAIN_NAME.match(name) else "`" + name.replace("`", "``") + "`"


def _shown(word: str) -> str:
    return f"`{word}`" if word else "the end"
