"""The shape of a SELECT: which clauses there may be, and what each refused one is called.

Not here: expressions (terms.py) and names (scope.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from engine.query.parse import SqlText

_ALLOWED = {"expressions", "from_", "joins", "where"}
_CLAUSES = {
    "with_": "WITH (common table expressions)",
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "having": "HAVING",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "laterals": "LATERAL VIEW",
    "hint": "a hint (/*+ … */)",
    "windows": "WINDOW",
    "into": "SELECT INTO",
    "locks": "FOR UPDATE",
    "sample": "_TABLESAMPLE",
    "pivots": "PIVOT",
    "kind": "SELECT AS",
    "connect": "CONNECT BY",
}
_TABLE = {
    "sample": "_TABLESAMPLE",
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
            tree.expression,
            "unite streams in FROM: (SELECT … FROM a UNION ALL SELECT … FROM b) x",
        )
    if not isinstance(tree, exp.Select):
        name = _STATEMENTS.get(type(tree)) or type(tree).__name__.upper()
        raise text.error(f"{name} is not supported", tree, "write one SELECT")
    for clause, value in tree.args.items():
        if value and clause not in _ALLOWED and clause not in also:
            name = _CLAUSES.get(clause, clause.strip("_").upper())
            first = value[0] if isinstance(value, list) else value
            raise text.error(
                f"{name} is not supported yet", first if isinstance(first, exp.Expr) else tree
            )
    if not tree.args.get("from_"):
        raise text.error("there is no FROM", tree, "write SELECT … FROM a JOIN b ON a.k = b.k")
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
        raise text.error(f"{name} is not supported yet", node, "name a stream")
    if not isinstance(node.this, exp.Identifier):
        name = str(node.this.this) if isinstance(node.this, exp.Anonymous) else node.this.sql()
        raise text.error(f"function {name} is not allowed in FROM", node, "name a stream")
    _check_parts(text, node)
    return node


def _check_parts(text: SqlText, node: exp.Expr) -> None:
    """An entry of FROM is a name or a subquery, and an alias."""
    for part, value in node.args.items():
        if value and part not in ("this", "alias", "db", "catalog"):
            raise text.error(f"{_TABLE.get(part, part.upper())} is not supported yet", node)
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
    if name not in ("", "INNER", "CROSS"):
        raise text.error(f"{name} JOIN is not supported yet", join.this, "inner joins are")
    for part, value in join.args.items():
        if value and part not in ("this", "on", "using", "kind", "side", "method"):
            raise text.error(f"{part.strip('_').upper()} in a JOIN is not supported", join.this)


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
