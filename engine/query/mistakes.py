"""What the author of a text that is no query probably meant, from the words around the place where reading
stopped: a missing comma, a misspelt or reserved word, another dialect's quotes and comments.

Here: words and signs in, one `Mistake` or None out. Clauses that are understood and refused are clauses.py's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import dropwhile, pairwise

from sqlglot.tokenizer_core import Token, TokenType

_TYPOGRAPHIC = re.compile("[“”„‘’‚«»]")
_BEGINNINGS = ("SELECT", "WITH", "VALUES", "(")
_READ_ONLY = "write one SELECT; its results go where [sink] in the query file says"
_STATEMENTS = {
    **dict.fromkeys(("EXPLAIN", "DESCRIBE", "DESC"), "`run.py query check FILE` shows the plan"),
    **dict.fromkeys(("INSERT", "CREATE", "MERGE", "UPDATE", "DELETE", "COPY"), _READ_ONLY),
    **dict.fromkeys(
        ("DROP", "ALTER", "TRUNCATE", "SET", "USE", "SHOW", "BEGIN", "START", "COMMIT", "ROLLBACK"),
        "write one SELECT",
    ),
    **dict.fromkeys(
        ("CALL", "PRAGMA", "GRANT", "REVOKE", "CACHE", "ANALYZE", "LOAD", "DECLARE", "LET"),
        "write one SELECT",
    ),
    "FROM": "begin with SELECT: SELECT … FROM a JOIN b ON a.k = b.k",
    "TABLE": "write SELECT * FROM …",
}
_KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "JOIN", "INNER", "USING", "UNION", "GROUP", "ORDER", "LIMIT"),
    *("HAVING", "BETWEEN", "DISTINCT", "PARTITION", "INTERVAL", "WITH"),
)
_JOIN_WORDS = ("INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "SEMI", "ANTI", "NATURAL")
_SIGNS = {
    "&&": "write AND",
    "=>": "write >=",
    "=<": "write <=",
    "~": "write RLIKE, for one stream's columns",
    "^=": "write <>",
    ":=": "write =",
    "{": "braces mean nothing here",
    "[": "names are quoted with `backticks`; a window is written [RANGE 2 MINUTES]",
}
_WINDOW_HINT = (
    'write [RANGE 2 MINUTES] behind a stream in FROM, or window = "2 minutes" in the query file'
)
_STREAMING = {
    **dict.fromkeys(("WITHIN", "TUMBLE", "TUMBLING", "HOP", "HOPPING", "SLIDING"), _WINDOW_HINT),
    "EMIT": "leave it out: results are written as soon as they are known",
    "STREAM": "leave it out: every query here runs over streams",
    "FINAL": "leave it out",
    "TOP": "a stream has no end; `run.py query tail FILE -n 10` shows the newest results",
}
_CLAUSES = ("SELECT", "FROM", "JOIN", "ON", "WHERE", "USING", "GROUP BY", "ORDER BY", "HAVING")
_OPERANDS = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING)
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_OPENS, _CLOSES = TokenType.L_PAREN, TokenType.R_PAREN


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong, at which offset of the text, and what to write."""

    what: str
    at: int
    hint: str = ""


def before_parsing(tokens: list[Token]) -> Mistake | None:
    """What would be misread, or read as something else, if the text were parsed."""
    given = list(dropwhile(lambda token: token.text == ";", tokens))
    looks = (_typographic, _beginning, _second_statement, _dangling_on)
    return next((found for look in looks if (found := look(given))), None)


def _typographic(tokens: list[Token]) -> Mistake | None:
    for token in tokens:
        odd = _TYPOGRAPHIC.search(token.text) if token.token_type in _NAMES[:1] else None
        if odd:
            what = f"`{odd.group()}` is a typographic quote"
            return Mistake(what, token.start, "texts are written 'text', names `name`")
    return None


def _beginning(tokens: list[Token]) -> Mistake | None:
    if not tokens:
        return None
    first = tokens[0]
    word = first.text.upper().split(" ")[0]
    if word in _BEGINNINGS:
        return None
    if word == "#" or _is_slashes(tokens, 0):
        return _comment(first.start)
    if word in _STATEMENTS:
        return Mistake(f"{word} is not supported", first.start, _STATEMENTS[word])
    meant = _keyword(first, ("SELECT", "WITH"))
    hint = f"did you mean {meant}?" if meant else "write SELECT … FROM a JOIN b ON a.k = b.k"
    return Mistake(f"the SQL begins with `{first.text}`, not with SELECT", first.start, hint)


def _second_statement(tokens: list[Token]) -> Mistake | None:
    for before, token in pairwise(tokens):
        if before.text == ";" and token.text != ";":
            hint = "write one SELECT; a second query goes into a file of its own"
            return Mistake("several statements are not supported", token.start, hint)
    return None


def _dangling_on(tokens: list[Token]) -> Mistake | None:
    words = [token for token in tokens if token.text != ";"]
    if words and words[-1].text.upper() == "ON":
        return _ends(words[-1])
    return None


def position(tokens: list[Token], offset: int) -> int:
    """The number of the token at an offset, or behind it; the last one at the end of the text."""
    return next((n for n, t in enumerate(tokens) if t.end >= offset), max(0, len(tokens) - 1))


def at_token(tokens: list[Token], at: int) -> Mistake | None:
    """What is probably meant where the parser stopped, at token number `at`."""
    return next((found for look in _LOOKS if (found := look(tokens, at))), None) if tokens else None


def _word(tokens: list[Token], at: int) -> str:
    return " ".join(tokens[at].text.upper().split()) if 0 <= at < len(tokens) else ""


def _kind(tokens: list[Token], at: int) -> TokenType | None:
    return tokens[at].token_type if 0 <= at < len(tokens) else None


def _comment_sign(tokens: list[Token], at: int) -> Mistake | None:
    for n in (at - 1, at):
        if _word(tokens, n) == "#" or _is_slashes(tokens, n):
            return _comment(tokens[n].start)
    return None


def _comment(at: int) -> Mistake:
    return Mistake("this does not begin a comment", at, "comments are -- … or /* … */")


def _is_slashes(tokens: list[Token], at: int) -> bool:
    return (
        _word(tokens, at) == _word(tokens, at + 1) == "/"
        and tokens[at].end + 1 == tokens[at + 1].start
    )


def _sign(tokens: list[Token], at: int) -> Mistake | None:
    for n in (at, at - 1):
        pair = _word(tokens, n) + _word(tokens, n + 1)
        sign = pair if pair in _SIGNS else _word(tokens, n)
        if sign in _SIGNS:
            return Mistake(f"`{sign}` is not known here", tokens[n].start, _SIGNS[sign])
    return None


def _parentheses(tokens: list[Token], at: int) -> Mistake | None:
    opened: list[Token] = []
    for token in tokens:
        if token.token_type == _OPENS:
            opened.append(token)
        elif token.token_type == _CLOSES and not opened:
            return Mistake("this `)` closes nothing", token.start, "take it out, or write its `(`")
        elif token.token_type == _CLOSES:
            opened.pop()
    return Mistake("this `(` is not closed", opened[-1].start, "write its `)`") if opened else None


def _misspelt(tokens: list[Token], at: int) -> Mistake | None:
    for n in (at, at - 1, at - 2, at + 1):
        named = (
            _word(tokens, n - 1) in ("FROM", "JOIN", "AS", ",", ".") or _word(tokens, n + 1) == "."
        )
        if named or _kind(tokens, n) != TokenType.VAR:
            continue
        meant = _keyword(tokens[n], _KEYWORDS)
        if meant:
            what = f"`{tokens[n].text}` is not known here"
            return Mistake(what, tokens[n].start, f"did you mean {meant}?")
    return None


def _keyword(token: Token, among: tuple[str, ...]) -> str:
    """The keyword that a word is almost."""
    word = token.text.upper()
    close = difflib.get_close_matches(word, among, n=1, cutoff=0.7)
    longer = any(word.startswith(keyword) for keyword in _KEYWORDS)  # as orders, groups
    return close[0] if close and len(word) > 3 and not longer else ""


def _streaming_word(tokens: list[Token], at: int) -> Mistake | None:
    for n in (at, at - 1, at - 2, at - 3):
        if _word(tokens, n) in _STREAMING and _word(tokens, n - 1) != "AS":
            word = _word(tokens, n)
            return Mistake(f"{word} is not supported", tokens[n].start, _STREAMING[word])
    return None


def _join_word(tokens: list[Token], at: int) -> Mistake | None:
    if _word(tokens, at) not in _JOIN_WORDS:
        return None
    hint = "write JOIN b ON a.k = b.k"
    return Mistake(f"JOIN is missing after {_word(tokens, at)}", tokens[at].start, hint)


def _reserved_name(tokens: list[Token], at: int) -> Mistake | None:
    word = tokens[at].text
    if _word(tokens, at - 1) not in ("AS", ".") or not word.isidentifier():
        return None
    what = f"`{word}` is a word of SQL"
    return Mistake(what, tokens[at].start, f"as a name it needs backticks: `{word}`")


def _name_of_two_words(tokens: list[Token], at: int) -> Mistake | None:
    two = _kind(tokens, at) in _NAMES and _kind(tokens, at - 1) in _NAMES
    if not two or _word(tokens, at - 2) != "AS" or _word(tokens, at + 1) == ".":
        return None
    both = f"{tokens[at - 1].text} {tokens[at].text}"
    what = f"`{both}` is two words"
    hint = f"a name of several words needs backticks: AS `{both}`; or a comma is missing"
    return Mistake(what, tokens[at - 1].start, hint)


def _missing_comma(tokens: list[Token], at: int) -> Mistake | None:
    """Two columns of SELECT with nothing between them."""
    first = at - 1 if _word(tokens, at) == "." else at
    follows = _kind(tokens, first) in _OPERANDS and _kind(tokens, first - 1) in (
        *_OPERANDS,
        _CLOSES,
    )
    if not follows or _clause(tokens, first) != "SELECT":
        return None
    shown = "".join(_qualified(tokens, first))
    return Mistake(
        f"a comma is missing before `{shown}`",
        tokens[first].start,
        "columns of SELECT are written x, y",
    )


def _qualified(tokens: list[Token], at: int) -> Iterator[str]:
    yield tokens[at].text
    if _word(tokens, at + 1) == "." and at + 2 < len(tokens):
        yield "." + tokens[at + 2].text


def _clause(tokens: list[Token], at: int) -> str:
    """The clause in which a token stands."""
    before = (_word(tokens, n) for n in range(at - 1, -1, -1))
    return next((word for word in before if word in _CLAUSES), "")


def _missing_on(tokens: list[Token], at: int) -> Mistake | None:
    if _clause(tokens, at) != "JOIN" or _kind(tokens, at) not in (*_NAMES, TokenType.DOT):
        return None
    first = at - 1 if _word(tokens, at) == "." else at
    shown = "".join(_qualified(tokens, first))
    return Mistake(
        f"ON is missing before `{shown}`", tokens[first].start, "write JOIN b ON a.k = b.k"
    )


def _end_of_case(tokens: list[Token], at: int) -> Mistake | None:
    starts = [token for token in tokens if token.token_type == TokenType.CASE]
    ends = sum(token.token_type == TokenType.END for token in tokens)
    if len(starts) <= ends:
        return None
    hint = "write CASE WHEN … THEN … ELSE … END"
    return Mistake("this CASE has no END", starts[-1].start, hint)


def _end(tokens: list[Token], at: int) -> Mistake | None:
    return (
        _ends(tokens[at]) if at == len(tokens) - 1 and tokens[at].token_type not in _NAMES else None
    )


def _ends(last: Token) -> Mistake:
    return Mistake(f"the SQL ends after `{last.text}`", last.start, "something has to follow it")


_LOOKS: tuple[Callable[[list[Token], int], Mistake | None], ...] = (
    _comment_sign,
    _sign,
    _parentheses,
    _streaming_word,
    _join_word,
    _end_of_case,
    _misspelt,
    _reserved_name,
    _name_of_two_words,
    _missing_comma,
    _missing_on,
    _end,
)
