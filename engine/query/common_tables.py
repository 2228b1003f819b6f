"""WITH: names for SELECTs, put where FROM uses them, as if each were written there as a subquery.

Here: which WITH there may be and what takes its place. What such a SELECT may hold is branches.py's.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from engine.query.parse import SqlText

_STREAMS_ONLY = "write each SELECT of WITH over streams, and join them in the last one"


def inline(text: SqlText, select: exp.Select, nodes: list[exp.Expr]) -> list[exp.Expr]:
    """The entries of FROM, with a subquery for each that names a SELECT of WITH."""
    named = dict(_named(text, select))
    used: set[str] = set()
    inlined = [_inlined(node, named, used) for node in nodes]
    for name, body in named.items():
        if name not in used:
            what = f"`{name}` of WITH is not used in FROM"
            raise text.error(what, body.parent, "read from it, or take it out")
    return inlined


def _named(text: SqlText, select: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    """Each SELECT of WITH by its name in small letters; none reads another."""
    given = select.args.get("with_")
    if given is None:
        return
    if given.args.get("recursive"):
        at = text.keyword(("RECURSIVE",), given)
        raise text.error("WITH RECURSIVE is not supported", at, _STREAMS_ONLY)
    earlier: set[str] = set()
    for one in given.expressions:
        name = one.alias.lower()
        if name in earlier:
            raise text.error(f"`{one.alias}` is there twice in WITH", one.args["alias"])
        if one.args["alias"].args.get("columns"):
            hint = "name columns in its SELECT: x AS name"
            raise text.error("names for columns in WITH are not supported", one, hint)
        for table in one.this.find_all(exp.Table):
            if table.name.lower() in earlier and not table.args.get("db"):
                what = f"`{one.alias}` reads `{table.name}`, which is of WITH too"
                raise text.error(f"{what}: that is not supported", table, _STREAMS_ONLY)
        earlier.add(name)
        yield name, one.this


def _inlined(node: exp.Expr, named: dict[str, exp.Expr], used: set[str]) -> exp.Expr:
    name = node.name.lower() if isinstance(node, exp.Table) and not node.args.get("db") else ""
    if name not in named:
        return node
    used.add(name)
    alias = node.args.get("alias") or exp.TableAlias(this=node.this)
    return exp.Subquery(this=named[name].copy(), alias=alias.copy())
