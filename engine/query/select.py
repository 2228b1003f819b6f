"""The parts of one SELECT as terms: conditions, output columns, and what `*` stands for.

Here: one SELECT over a scope that is known. How FROM makes the scope is in sql.py and branches.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from engine.query.clauses import conjuncts
from engine.query.parse import SqlText
from engine.query.scope import Ref, Scope
from engine.query.terms import Term, build


@dataclass(slots=True)
class From:
    """FROM and ON as they are read: the scope so far, conditions, and the columns of `*`."""

    scope: Scope
    conditions: list[Term] = field(default_factory=list)
    star: list[Ref] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Output:
    """One column of SELECT."""

    name: str
    term: Term


def column(ref: Ref, node: exp.Expr) -> Term:
    """A column that the query does not spell out, as a term."""
    return Term("column", node, ref=ref, type=ref.field.type)


def conditions(scope: Scope, node: exp.Expr | None, clause: str) -> list[Term]:
    """The parts of an AND, checked."""
    found = []
    for part in conjuncts(node):
        term = build(part, scope)
        if term.type not in ("boolean", "void", ""):
            raise scope.text.error(
                f"{clause} needs a boolean, and `{scope.text.source(part)}` is {term.type}", part
            )
        if not (isinstance(part, exp.Boolean) and part.this):
            found.append(term)
    return found


def outputs(found: From, select: exp.Select, *, named: bool = True) -> list[Output]:
    """The columns of SELECT, `*` written out; if names matter, all have one and no two the same."""
    made = [output for node in select.expressions for output in _output(found, node, named)]
    if named:
        _check_names(found.scope.text, made)
    return made


def _output(found: From, node: exp.Expr, named: bool) -> Iterator[Output]:
    scope = found.scope
    star = node if isinstance(node, exp.Star) else node.this
    if isinstance(star, exp.Star) and isinstance(node, exp.Star | exp.Column):
        yield from _star(found, node, star)
        return
    inner = (node.this if isinstance(node, exp.Alias) else node).unnest()
    term = build(inner, scope)
    if named and not isinstance(node, exp.Alias) and not isinstance(inner, exp.Column):
        shown, hint = scope.text.source(node), "write: expression AS name"
        if shown.startswith('"'):
            hint = (
                f"in Spark's dialect it is a text; for a column write `{inner.name}` in backticks"
            )
        raise scope.text.error(f"`{shown}` needs a name", node, hint)
    yield Output(node.alias if isinstance(node, exp.Alias) else inner.name, term)


def _star(found: From, node: exp.Expr, star: exp.Star) -> Iterator[Output]:
    scope = found.scope
    if any(star.args.values()):
        raise scope.text.error("* EXCEPT or REPLACE is not supported", node, "list the columns")
    refs = found.star
    if isinstance(node, exp.Column):
        position = scope.find_source(node.table)
        if position is None:
            names = ", ".join(source.alias for source in scope.sources)
            what = f"there is no stream `{node.table}` in FROM"
            raise scope.text.error(what, node, f"in FROM are: {names}")
        refs = [Ref(position, own) for own in scope.sources[position].fields]
    for ref in refs:
        yield Output(ref.field.name, column(ref, node))


def _check_names(text: SqlText, made: list[Output]) -> None:
    seen: set[str] = set()
    for output in made:
        if output.name.lower() in seen:
            what = f"two output columns are named `{output.name}`"
            hint = f"give one another name: … AS {output.name}_2"
            if output.term.node.find(exp.Star):
                what += ", both from *"
                hint = f"list the columns: …, a.{output.name}, b.{output.name} AS {output.name}_2"
            raise text.error(what, output.term.node, hint)
        seen.add(output.name.lower())
