"""The shape of a SELECT: which clauses there may be, and what each refused one is called.

Not here: expressions (terms.py) and names (scope.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from engine.query.parse import SqlText, start_of

_ALLOWED = {"expressions", "from_", "joins", "where"}
_LATER = "results are written as they come; do it when you read them"
_GROUPS = (
    "a stream has no end, so that no group is ever final: use a window function, as in "
    "sum(v) OVER (PARTITION BY k ORDER BY ts ROWS 9 PRECEDING), or group the results when you read them"
)
_NEWEST = "a stream has no end; `run.py query tail FILE -n 10` shows the newest results"
_SORTED = "results are written as they come; sort them when you read them"
_ARRAYS = "unnest arrays before they enter the stream, or when you read the results"


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause that is refused: its name, the words that it begins with, and what to do without it."""

    name: str
    hint: str
    words: tuple[str, ...] = ()

    @property
    def keywords(self) -> tuple[str, ...]:
        return self.words or (self.name,)


_CLAUSES = {
    "with_": _Clause("WITH within a subquery", "write one WITH, in front of SELECT", ("WITH",)),
    "distinct": _Clause(
        "DISTINCT", "results are only ever added; drop repeated rows when you read them"
    ),
    "group": _Clause("GROUP BY", _GROUPS),
    "having": _Clause("HAVING", _GROUPS),
    "order": _Clause("ORDER BY", _SORTED),
    "sort": _Clause("SORT BY", _SORTED),
    "cluster": _Clause("CLUSTER BY", _SORTED),
    "distribute": _Clause("DISTRIBUTE BY", _SORTED),
    "limit": _Clause("LIMIT", _NEWEST, ("LIMIT", "FETCH")),
    "offset": _Clause("OFFSET", _NEWEST),
    "qualify": _Clause("QUALIFY", "filter on the column when you read the results"),
    "laterals": _Clause("LATERAL VIEW", _ARRAYS, ("LATERAL",)),
    "hint": _Clause(
        "a hint (/*+ … */)", "leave it out; `join_order` in the query file chooses the order"
    ),
    "windows": _Clause("WINDOW", "name windows in the outermost SELECT"),
    "into": _Clause("SELECT INTO", "results go where [sink] in the query file says", ("INTO",)),
    "locks": _Clause("FOR UPDATE", "leave it out", ("FOR",)),
    "sample": _Clause("TABLESAMPLE", "choose rows in WHERE", ("TABLE_SAMPLE", "TABLESAMPLE")),
    "pivots": _Clause("PIVOT", _LATER),
    "kind": _Clause("SELECT AS", "name columns: SELECT x AS name", ("SELECT",)),
    "connect": _Clause("CONNECT BY", "write each join of a stream with itself", ("CONNECT",)),
    "operation_modifiers": _Clause("a modifier of SELECT", "leave it out", ("SELECT",)),
}
_PARTNERS = "inner joins are; a row that has no partner yet may get one while its streams go on"
_JOINS = {
    "SEMI": "an inner join is; it gives a row once for each partner",
    "ANTI": _PARTNERS,
    "ASOF": "bound the times in ON: a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 10 SECONDS AND b.ts",
    "STRAIGHT_JOIN": "write JOIN; `join_order` in the query file chooses the order",
    **dict.fromkeys(("LEFT", "RIGHT", "FULL", "OUTER"), _PARTNERS),
}
_JOIN_WORDS = (
    *("JOIN", "INNER", "OUTER", "CROSS", "SEMI", "ANTI", "LEFT", "RIGHT", "FULL", "NATURAL"),
    *("ASOF", "STRAIGHT_JOIN"),
)
_FLAT = "write all joins in a row: FROM a JOIN b ON … JOIN c ON …; `join_order` chooses the tree"
_TABLE = {
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "version": "FOR VERSION AS OF",
    "when": "FOR TIMESTAMP AS OF",
    "laterals": "LATERAL VIEW",
    "hints": "a hint",
    "joins": "a join in parentheses",
    "system_time": "FOR SYSTEM_TIME",
}
_STATEMENTS: dict[type[exp.Expr], str] = {
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
    exp.Values: "VALUES",
    exp.Subquery: "a statement in parentheses",
}
_TABLES: dict[type[exp.Expr], str] = {
    exp.Subquery: "a join in parentheses",
    exp.Values: "VALUES",
    exp.Lateral: "LATERAL",
    exp.Unnest: "UNNEST",
    exp.TableFromRows: "a table function",
    exp.Paren: "a join in parentheses",
}
_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery)


def check_select(text: SqlText, tree: exp.Expr, *also: str) -> exp.Select:
    """The tree, if it is a SELECT of nothing but columns, FROM, JOIN and WHERE, and `also` these."""
    if isinstance(tree, exp.Union):
        raise text.error(
            "UNION of whole queries is not supported",
            text.keyword(("UNION",), tree.expression),
            "unite streams in FROM: (SELECT … FROM a UNION ALL SELECT … FROM b) x",
        )
    if not isinstance(tree, exp.Select):
        name = _STATEMENTS.get(type(tree)) or type(tree).__name__.upper()
        raise text.error(f"{name} is not supported", tree, "write one SELECT")
    for clause, value in tree.args.items():
        if value and clause not in _ALLOWED and clause not in also:
            found = _CLAUSES.get(clause) or _Clause(clause.strip("_").upper(), "leave it out")
            first = value[0] if isinstance(value, list) else value
            if isinstance(first, exp.Fetch):
                found = replace(found, name="FETCH")
            at = text.keyword(found.keywords, first if isinstance(first, exp.Expr) else tree)
            raise text.error(f"{found.name} is not supported yet", at, found.hint)
    if not tree.args.get("from_"):
        raise text.error("there is no FROM", tree, "write SELECT … FROM a JOIN b ON a.k = b.k")
    if not tree.expressions:
        at = text.keyword(("SELECT",), tree)
        raise text.error("SELECT has no columns", at, "name columns, or write *")
    return tree


def tables(text: SqlText, select: exp.Select) -> Iterator[tuple[exp.Expr, exp.Join | None]]:
    """The entries of FROM in order, each with its JOIN (the first has none)."""
    yield _table(text, select.args["from_"].this), None
    for join in select.args.get("joins") or []:
        _check_join(text, join)
        yield _table(text, join.this), join


def _table(text: SqlText, node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Subquery) and isinstance(node.this, _QUERIES):
        _check_parts(text, node)
        return node
    if not isinstance(node, exp.Table):
        name = _TABLES.get(type(node), type(node).__name__.upper())
        hint = _FLAT if "parentheses" in name else "name a stream"
        raise text.error(f"{name} is not supported yet", node, hint)
    if not isinstance(node.this, exp.Identifier):
        name = str(node.this.this) if isinstance(node.this, exp.Anonymous) else node.this.sql()
        hint = "name a stream; files are named by `path` in [streams.NAME]"
        raise text.error(f"function {name} is not allowed in FROM", node, hint)
    _check_parts(text, node)
    return node


def _check_parts(text: SqlText, node: exp.Expr) -> None:
    """An entry of FROM is a name or a subquery, and an alias."""
    for part, value in node.args.items():
        if value and part not in ("this", "alias", "db", "catalog"):
            hint = _FLAT if part == "joins" else "write the stream's name and an alias only"
            raise text.error(f"{_TABLE.get(part, part.upper())} is not supported yet", node, hint)
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise text.error(
            "aliases for columns, as in t(x, y), are not supported", node, "name columns in SELECT"
        )


def _check_join(text: SqlText, join: exp.Join) -> None:
    kind = str(join.args.get("kind") or "").upper()
    side = str(join.args.get("side") or "").upper()
    method = str(join.args.get("method") or "").upper()
    name = " ".join(word for word in (method, side, kind) if word)
    if name not in ("", "INNER", "CROSS", "NATURAL", "NATURAL INNER"):
        shown = name if name.endswith("JOIN") else f"{name} JOIN"
        hint = next((_JOINS[word] for word in reversed(name.split()) if word in _JOINS), _PARTNERS)
        raise text.error(f"{shown} is not supported yet", _join_start(text, join), hint)
    for part, value in join.args.items():
        if value and part not in ("this", "on", "using", "kind", "side", "method"):
            shown = _TABLE.get(part, part.strip("_").upper())
            raise text.error(f"{shown} in a JOIN is not supported", join.this, "leave it out")


def _join_start(text: SqlText, join: exp.Join) -> int:
    """Where the words of a JOIN begin: LEFT in LEFT OUTER JOIN b."""
    offset = start_of(join.this)
    for token in reversed([token for token in text.tokens() if token.start < offset]):
        if token.text.upper() not in _JOIN_WORDS:
            break
        offset = token.start
    return offset


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of an AND, in order."""
    if node is None:
        return
    if isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node
