"""SQL text to sqlglot's tree, with every node's place in the text and our own errors.

Function calls stay as they were written (name and arguments), so that the allow-list sees the
user's own names and nothing is translated behind our back. Not here: what is allowed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from engine.errors import SqlError
from engine.query import mistakes

_SHORT_TEXTS = (
    TokenType.CHAR,
    TokenType.VARCHAR,
    TokenType.NCHAR,
    TokenType.NVARCHAR,
    TokenType.BPCHAR,
)
_BEFORE_TYPE = (TokenType.ALIAS, TokenType.DCOLON)
_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM")


class PlainSpark(Spark):
    """Spark's grammar, but `f(x)` stays a call of `f`."""

    class Parser(SparkParser):
        FUNCTIONS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name in _SPECIAL_SYNTAX
        }


QUOTED = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|/(?!\*)""", re.DOTALL
)


_CLOSING = re.compile(r"\s*\)")
_INTERVAL = re.compile(r"\s*[-+]?\s*INTERVAL\s+('[^']*'|-?\d+)\s+\w+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SqlText:
    """The SQL of a query file; makes errors that show where."""

    file: str
    sql: str

    def error(self, what: str, at: exp.Expr | int | None, hint: str = "") -> SqlError:
        offset = at if isinstance(at, int) else start_of(at)
        return SqlError(what, where=f"{self.file}: sql {self.place(offset)}", hint=hint)

    def place(self, offset: int) -> str:
        """Line and column, from 1."""
        line = self.sql.count("\n", 0, offset) + 1
        return f"line {line} column {offset - (self.sql.rfind(chr(10), 0, offset) + 1) + 1}"

    def source(self, node: exp.Expr) -> str:
        """The text of a node as the user wrote it, as nearly as tokens tell."""
        spans = [(n.meta["start"], n.meta["end"]) for n in node.walk() if "start" in n.meta]
        if not spans:
            return node.sql(dialect="spark")
        start, end = min(s for s, _ in spans), max(e for _, e in spans) + 1
        while node.find(exp.Interval) and (tail := _INTERVAL.match(self.sql, end)):
            end = tail.end()  # its parts carry no places of their own
        for _ in range(_open_parentheses(self.sql[start:end])):
            closing = _CLOSING.match(self.sql, end)
            end = closing.end() if closing else end
        return self.sql[start:end]

    def tokens(self) -> list[Token]:
        """The words and signs of the text, comments aside."""
        return PlainSpark().tokenize(self.sql)

    def keyword(self, words: tuple[str, ...], near: exp.Expr) -> int:
        """Where the last of these words before a node begins, else the first one after it, else the node."""
        offset = start_of(near)
        places = [t.start for t in self.tokens() if " ".join(t.text.upper().split()) in words]
        before = [place for place in places if place <= offset]
        return before[-1] if before else next(iter(places), offset)


def start_of(node: exp.Expr | None) -> int:
    """The offset of a node's first token; a node without one borrows its nearest ancestor's."""
    while node is not None:
        starts = [found.meta["start"] for found in node.walk() if "start" in found.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return 0


def parse(text: SqlText) -> exp.Expr:
    """The one statement in the text."""
    try:
        tokens = text.tokens()
        found = mistakes.before_parsing(tokens)
        if found:
            raise text.error(found.what, found.at, found.hint)
        _refuse_short_texts(text, tokens)
        statements = sqlglot.parse(text.sql, read=PlainSpark)
    except ParseError as error:
        raise _parse_error(text, error) from None
    except TokenError as error:
        raise _token_error(text, error) from None
    tree = next((s for s in statements if s and not isinstance(s, exp.Semicolon)), None)
    if tree is None:
        raise text.error("the SQL is empty", 0, "write a SELECT … FROM … JOIN … ON …")
    while isinstance(tree, exp.Subquery) and not any(
        v for k, v in tree.args.items() if k != "this"
    ):
        tree = tree.this  # the whole statement in parentheses
    return tree


def _token_error(text: SqlText, error: TokenError) -> SqlError:
    opened = _open_quote(text.sql)
    if opened is None:
        return text.error(f"the SQL cannot be read: {str(error).splitlines()[0]}", 0)
    sign = text.sql[opened]
    hint = "end the comment with */" if sign == "/" else f"end it with {sign}"
    if sign in "'\"":
        hint += f"; a {sign} inside a text is written \\{sign} or {sign}{sign}"
    return text.error(f"the SQL cannot be read: the quote {sign} is not closed", opened, hint)


def _refuse_short_texts(text: SqlText, tokens: list[Token]) -> None:
    """sqlglot reads VARCHAR(3) as STRING, and would drop the 3 without a word."""
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (
            token.token_type in _SHORT_TEXTS
            and before.token_type in _BEFORE_TYPE
            and after.token_type == TokenType.L_PAREN
        ):
            raise text.error(
                f"CAST to {token.text} is not supported",
                token.start,
                "CAST to string, and use left(…, n)",
            )


def _parse_error(text: SqlText, error: ParseError) -> SqlError:
    first = error.errors[0] if error.errors else {}
    offset = _offset(text.sql, first.get("line"), first.get("col"), first.get("highlight") or "")
    tokens = text.tokens()
    found = mistakes.at_token(tokens, mistakes.position(tokens, offset))
    if found:
        return text.error(f"the SQL cannot be parsed: {found.what}", found.at, found.hint)
    what = str(first.get("description") or error).split(" but got <Token")[0].rstrip(". ")
    if what.startswith("Required keyword"):
        what = "something is missing here"
    elif what.startswith("Invalid expression"):
        what = "this was not expected here"
    near = f" near `{first['highlight']}`" if first.get("highlight") else ""
    return text.error(f"the SQL cannot be parsed{near}: {what}", offset)


def _open_parentheses(sql: str) -> int:
    """How many parentheses the text opens and does not close, texts and comments aside."""
    plain = QUOTED.sub(" ", sql)
    return max(0, plain.count("(") - plain.count(")"))


def _open_quote(sql: str) -> int | None:
    """Where the quote or comment begins that the end of the text leaves open."""
    at = 0
    while at < len(sql):
        found = QUOTED.match(sql, at)
        if found is None and sql[at] in "'\"`/":
            return at
        at = found.end() if found else at + 1
    return None


def _offset(sql: str, line: int | None, column: int | None, highlight: str) -> int:
    """Where the token that sqlglot stopped at begins (its columns point at a token's end)."""
    if not line or column is None:
        return 0
    start = 0
    for _ in range(line - 1):
        start = sql.find("\n", start) + 1
    return max(0, start + column - max(1, len(highlight)))
