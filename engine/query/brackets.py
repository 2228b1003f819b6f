"""CQL's windows behind streams, `a [RANGE 2 MINUTES] x`: cut out before parsing, bound to their streams
after it. sqlglot does not know them; spaces stand in their place, so that every position stays true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from engine.query.bounds import US_PER_S
from engine.query.parse import QUOTED, SqlText
from engine.query.values import duration_s

_BRACKET = re.compile(
    r"\[\s*(?P<kind>RANGE|ROWS|NOW|UNBOUNDED|PARTITION)\b(?P<rest>[^\[\]]*)\]", re.I
)
_ADVICE = "write for example [RANGE 2 MINUTES], [RANGE UNBOUNDED] or [NOW]"


@dataclass(frozen=True, slots=True)
class Cut:
    """One window in brackets: where it stood, and its length (None: unbounded)."""

    start: int
    end: int
    shown: str
    us: int | None


def cut(text: SqlText) -> tuple[SqlText, tuple[Cut, ...]]:
    """The text without its windows in brackets, and those."""
    sql, cuts, at = text.sql, [], 0
    while at < len(sql):
        quoted = QUOTED.match(sql, at)
        found = None if quoted else _BRACKET.match(sql, at)
        if found:
            cuts.append(Cut(at, found.end(), found.group(), _length(text, found)))
            sql = sql[:at] + re.sub(r"[^\n]", " ", found.group()) + sql[found.end() :]
        at = (quoted or found).end() if quoted or found else at + 1  # type: ignore[union-attr]
    return replace(text, sql=sql), tuple(cuts)


def _length(text: SqlText, found: re.Match[str]) -> int | None:
    kind, rest = found.group("kind").upper(), found.group("rest").strip()
    if kind in ("ROWS", "PARTITION"):
        name = "[ROWS …]" if kind == "ROWS" else "[PARTITION BY …]"
        hint = "windows are lengths of time: [RANGE 2 MINUTES]"
        raise text.error(f"{name} is not supported", found.start(), hint)
    if re.search(r"\bSLIDE\b", rest, re.I):
        raise text.error("SLIDE in a window is not supported", found.start(), _ADVICE)
    if kind in ("NOW", "UNBOUNDED"):
        kind, rest = "RANGE", f"{kind} {rest}".strip()
    if rest.upper() == "UNBOUNDED":
        return None
    seconds = 0.0 if rest.upper() == "NOW" else duration_s(re.sub(r"(?i)^INTERVAL\b|'", " ", rest))
    if seconds is None:
        raise text.error(f"`{found.group()}` is not a window", found.start(), _ADVICE)
    return round(seconds * US_PER_S)


def bind(text: SqlText, cuts: Sequence[Cut], entries: Sequence[exp.Expr]) -> dict[int, Cut]:
    """The window of each entry of FROM that has one."""
    found: dict[int, Cut] = {}
    for given in cuts:
        owner = next((n for n, node in enumerate(entries) if _behind(text.sql, node, given)), None)
        if owner is None:
            raise text.error(
                f"`{given.shown}` does not stand behind a stream in FROM",
                given.start,
                "write FROM a [RANGE 2 MINUTES] x, b [RANGE 2 MINUTES] y",
            )
        if owner in found:
            raise text.error(
                f"`{given.shown}` is a second window of one stream",
                given.start,
                "give each stream one",
            )
        found[owner] = given
    return found


def _behind(sql: str, node: exp.Expr, given: Cut) -> bool:
    """Whether the window follows the entry's name, or its alias."""
    alias = node.args.get("alias")
    marked = [part.this for part in (node, alias) if part and "start" in part.this.meta]
    for n, part in enumerate(marked):
        follows = (
            part.meta["end"] < given.start and not sql[part.meta["end"] + 1 : given.start].strip()
        )
        last = n == len(marked) - 1
        if follows and (last or _joined(sql[given.end : marked[n + 1].meta["start"]])):
            return True
    return isinstance(node, exp.Subquery) and _before_alias(sql, alias, given)


def _before_alias(sql: str, alias: exp.Expr | None, given: Cut) -> bool:
    """`(SELECT …) [RANGE …] x`."""
    start = alias.this.meta.get("start", -1) if alias is not None else -1
    return (
        sql[: given.start].rstrip().endswith(")")
        and given.end <= start
        and _joined(sql[given.end : start])
    )


def _joined(between: str) -> bool:
    """Whether nothing but AS stands there."""
    return between.strip().upper() in ("", "AS")
