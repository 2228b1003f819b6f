"""Expressions as a small checked tree: names resolved, types inferred where we can prove them.

Deny by default: a node of sqlglot's tree that is not listed here is refused by name, with its
place. Rendering as Spark SQL and DuckDB SQL is in spark_text.py and duck_text.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from engine.query import infer
from engine.query.ddl import DdlError, parse_type
from engine.query.functions import ALIASES, POST, PRE, advice, refused_function
from engine.query.parse import start_of
from engine.query.scope import Ref, Scope


@dataclass(frozen=True, slots=True)
class Term:
    """One checked expression. `op` is an operator's sign, "call", "cast", "column", "literal" or "window";
    `value` is a literal's value, a call's name, a cast's target or the id of a window function's result.

    `type` is what Spark gives, "" if we do not know. `why` says why we cannot evaluate the term
    exactly as Spark does; it may still be evaluated by Spark itself, before the exchange.
    """

    op: str
    node: exp.Expr
    args: tuple[Term, ...] = ()
    value: str = ""
    ref: Ref | None = None
    type: str = ""
    why: str = ""

    def walk(self) -> Iterator[Term]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    @property
    def inputs(self) -> frozenset[int]:
        """The inputs whose columns are used."""
        return frozenset(term.ref.input for term in self.walk() if term.ref)


_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "||",
    exp.Like: "like",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.RegexpLike: "rlike",
    exp.ILike: "ilike",
}
_UNARY: dict[type[exp.Expr], str] = {exp.Not: "not", exp.Neg: "neg", exp.BitwiseNot: "~"}
_NAMES: dict[type[exp.Expr], str] = {
    exp.Select: "a subquery",
    exp.Subquery: "a subquery",
    exp.Exists: "EXISTS with a subquery",
    exp.Concat: "texts of several kinds side by side",
    exp.Window: "a window function (OVER)",
    exp.Star: "* inside an expression",
    exp.Bracket: "an element of an array or map (x[…])",
    exp.Collate: "COLLATE",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a variable",
    exp.JSONExtract: "a lambda or JSON path (->)",
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Tuple: "a tuple (x, y)",
    exp.Lambda: "a lambda",
    exp.QueryTransform: "TRANSFORM by a script",
    exp.Any: "ANY",
    exp.All: "ALL",
}


_WORDS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Exists: ("EXISTS",),
    exp.Select: ("SELECT",),
    exp.Subquery: ("SELECT",),
}
_APART = "take arrays and maps apart before they enter the stream, or when you read the results"
_CLOCK = (
    "it would be another at a restart; compare with a stream's event time, or filter the results"
)
_HINTS: dict[type[exp.Expr], str] = {
    exp.Bracket: _APART,
    exp.Array: _APART,
    exp.Collate: "compare lower(x) with lower(y), in WHERE on one stream",
    exp.Placeholder: "write the value itself",
    exp.Parameter: "write the value itself",
    exp.CurrentDate: _CLOCK,
    exp.CurrentTimestamp: _CLOCK,
    exp.CurrentUser: "write the value itself",
    exp.Tuple: "compare column by column: a.x = b.x AND a.y = b.y",
    exp.Any: "list the values: x IN (1, 2)",
    exp.All: "compare with each value",
    exp.SimilarTo: "write RLIKE, for one stream's columns",
    exp.Glob: "write LIKE",
    exp.AtTimeZone: "timestamps are instants; write to_timestamp(…) or a zone when you read the results",
    exp.Dot: "columns are written stream.column, functions by one name",
    exp.HexString: "write the number in decimal",
}


# What each node may carry beside its operands; anything else would change its meaning unseen.
_OPERANDS = {"this", "expression", "expressions"}
_EXTRAS: dict[type[exp.Expr], set[str]] = {
    exp.Div: {"typed", "safe"},
    exp.DPipe: {"safe"},
    exp.Column: {"table", "db", "catalog"},
    exp.Literal: {"is_string"},
    exp.Case: {"ifs", "default"},
    exp.If: {"true", "false"},
    exp.Cast: {"to"},
    exp.TryCast: {"to", "safe"},
    exp.Between: {"low", "high"},
    exp.Trim: {"position"},
    exp.Like: {"negate"},
    exp.ILike: {"negate"},
    exp.In: {"query", "field"},
    exp.Concat: {"safe", "coalesce"},
    exp.Interval: {"unit"},
    exp.Window: {"partition_by", "order", "spec", "alias", "over", "first"},
}


def build(node: exp.Expr, scope: Scope) -> Term:
    """The checked tree of one expression."""
    _check_extras(node, scope)
    if isinstance(node, exp.Like | exp.ILike) and node.args.get("negate"):
        inner = _made(scope, _BINARY[type(node)], node, (node.this, node.expression))
        return typed(Term("not", node, (inner,)))
    if type(node) in _BINARY:
        return _made(scope, _BINARY[type(node)], node, (node.this, node.expression))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.is_number:
        return _literal(node.this, scope, "-")
    if type(node) in _UNARY:
        return _made(scope, _UNARY[type(node)], node, (node.this,))
    builder = _BUILDERS.get(type(node))
    if builder is None:
        what, words = f"{_shown(node, scope)} is not supported", _WORDS.get(type(node))
        at = scope.text.keyword(words, node) if words else node
        raise scope.text.error(what, at, _hint(node))
    return builder(node, scope)


def _check_extras(node: exp.Expr, scope: Scope) -> None:
    known = type(node) in _BUILDERS or type(node) in _BINARY or type(node) in _UNARY
    allowed = _OPERANDS | _EXTRAS.get(type(node), set())
    extra = [name for name, value in node.args.items() if value and name not in allowed]
    if known and extra:
        raise scope.text.error(
            f"{extra[0].upper().strip('_')} in {_shown(node, scope)} is not supported", node
        )


def _made(
    scope: Scope, op: str, node: exp.Expr, parts: tuple[exp.Expr, ...], value: str = ""
) -> Term:
    """A term over built parts, with its type where it can be inferred."""
    return typed(Term(op, node, tuple(build(part, scope) for part in parts), value))


def typed(term: Term) -> Term:
    """The term with its type, or with the reason why it has none."""
    known = term.value if term.op in ("cast", "try_cast") else ""
    if any(not arg.type for arg in term.args):
        return replace(term, type=known)
    try:
        kinds = tuple(infer.Kind(a.type, a.value if a.op == "literal" else None) for a in term.args)
        return replace(term, type=infer.type_of(term.op, term.value, kinds))
    except infer.NotProven as reason:
        return replace(term, type=known, why=str(reason))


def refusal(term: Term) -> Term | None:
    """The innermost part that cannot be evaluated after the exchange (its `why` says why)."""
    for arg in term.args:
        found = refusal(arg)
        if found:
            return found
    return term if term.why else None


def _column(node: exp.Expr, scope: Scope) -> Term:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        raise scope.text.error("* inside an expression is not supported", node)
    ref = scope.resolve(node)
    return Term("column", node, ref=ref, type=ref.field.type)


def _literal(node: exp.Expr, scope: Scope, sign: str = "") -> Term:
    value = sign + str(node.this)
    if isinstance(node, exp.RawString) or node.is_string:
        if "\0" in value:
            raise scope.text.error("a string with a NUL character is not supported", node)
        return Term("literal", node, value=value, type="string")
    found = infer.number_type(value)
    if not found:
        raise scope.text.error(f"number {value} has more than 38 digits", node)
    return Term("literal", node, value=value, type=found)


def _constant(node: exp.Expr, scope: Scope) -> Term:
    if isinstance(node, exp.Null):
        return Term("literal", node, value="null", type="void")
    return Term("literal", node, value=str(bool(node.this)).lower(), type="boolean")


def _cast(node: exp.Expr, scope: Scope) -> Term:
    spelled = node.args["to"].sql(dialect="spark")
    try:
        target = str(parse_type(spelled))
    except DdlError as reason:
        raise scope.text.error(f"CAST to {spelled} is not supported: {reason}", node) from None
    op = "try_cast" if node.args.get("safe") else "cast"
    return _made(scope, op, node, (node.this,), target)


def _case(node: exp.Expr, scope: Scope) -> Term:
    parts: list[exp.Expr] = []
    for branch in node.args["ifs"]:
        test = branch.this
        if node.this is not None:
            test = exp.EQ(this=node.this.copy(), expression=test.copy())
        parts += [test, branch.args["true"]]
    if node.args.get("default") is not None:
        parts.append(node.args["default"])
    return _made(scope, "case", node, tuple(parts))


def _if(node: exp.Expr, scope: Scope) -> Term:
    parts = [node.this, node.args["true"]]
    if node.args.get("false") is not None:
        parts.append(node.args["false"])
    return _made(scope, "case", node, tuple(parts))


def _is(node: exp.Expr, scope: Scope) -> Term:
    what = node.expression
    if isinstance(what, exp.Null):
        return _made(scope, "is null", node, (node.this,))
    if isinstance(what, exp.Boolean):
        value = str(bool(what.this)).lower()
        return _made(scope, "is", node, (node.this,), value)
    raise scope.text.error(f"IS {what.sql(dialect='spark')} is not supported", node)


def _in(node: exp.Expr, scope: Scope) -> Term:
    if node.args.get("query") or node.args.get("field"):
        what = "a subquery" if node.args.get("query") else "a column"
        hint = _hint(node) if node.args.get("query") else "list the values: IN (1, 2)"
        raise scope.text.error(f"{_negated(node)}IN with {what} is not supported", node, hint)
    return _made(scope, "in", node, (node.this, *node.expressions))


def _between(node: exp.Expr, scope: Scope) -> Term:
    low = typed(Term(">=", node, (build(node.this, scope), build(node.args["low"], scope))))
    high = typed(Term("<=", node, (build(node.this, scope), build(node.args["high"], scope))))
    return typed(Term("and", node, (low, high)))


def _call(node: exp.Expr, scope: Scope) -> Term:
    name = node.name.lower()
    name = ALIASES.get(name, name)
    if name not in PRE and name not in POST:
        raise scope.text.error(refused_function(name), node, advice(name))
    return _made(scope, "call", node, tuple(node.expressions), name)


def _trim(node: exp.Expr, scope: Scope) -> Term:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    if node.args.get("expression") is not None:
        raise scope.text.error("TRIM of other characters than spaces is not supported", node)
    return _made(scope, "call", node, (node.this,), side)


def _extract(node: exp.Expr, scope: Scope) -> Term:
    name = str(node.this.name).lower()
    if name not in ("year", "quarter", "month", "day", "hour", "minute", "dayofweek", "doy"):
        raise scope.text.error(f"EXTRACT({name.upper()} …) is not supported", node)
    name = {"doy": "dayofyear"}.get(name, name)
    return _made(scope, "call", node, (node.expression,), name)


def _interval(node: exp.Expr, scope: Scope) -> Term:
    """INTERVAL 10 MINUTES and the like: one whole number, and a unit of fixed length."""
    amount, unit = node.this, node.args.get("unit")
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    good = isinstance(amount, exp.Literal) and re.fullmatch(r"-?\d{1,9}", amount.name)
    if not good or name not in ("DAY", "HOUR", "MINUTE", "SECOND"):
        raise scope.text.error(
            f"{node.sql(dialect='spark')} is not supported",
            node,
            "write for example INTERVAL 10 MINUTES",
        )
    return Term("interval", node, value=f"INTERVAL '{amount.name}' {name}", type="interval")


def _window(node: exp.Expr, scope: Scope) -> Term:
    assert isinstance(node, exp.Window)
    if scope.over is None:
        hint = "window functions go into SELECT, none inside another"
        raise scope.text.error("a window function (OVER) is not allowed here", node, hint)
    return scope.over(node, scope)


def _paren(node: exp.Expr, scope: Scope) -> Term:
    return build(node.this, scope)


def _adjacent(node: exp.Expr, scope: Scope) -> Term:
    """Texts side by side are one text: 'a' 'b' is ab; 'it''s' has the quote in it, as a text does whose
    pieces touch."""
    start = start_of(node)
    pieces = [token for token in scope.text.tokens() if token.start >= start]
    pieces = pieces[: len(node.expressions)]
    if any(token.token_type != TokenType.STRING for token in pieces):
        raise scope.text.error(f"{_NAMES[exp.Concat]} are not supported", node, "write one text")
    value = pieces[0].text
    for before, piece in pairwise(pieces):
        sign = scope.text.sql[piece.start]
        touching = before.end + 1 == piece.start and scope.text.sql[before.end] == sign
        value += (sign if touching else "") + piece.text
    return replace(_literal(exp.Literal.string(value), scope), node=node)


def _negated(node: exp.Expr) -> str:
    return "NOT " if isinstance(node.parent, exp.Not) else ""


def _hint(node: exp.Expr) -> str:
    """What to do without an expression that is not supported."""
    if isinstance(node, exp.Exists | exp.In) and isinstance(node.parent, exp.Not):
        return "a row that has no partner yet may get one while its streams go on; inner joins are supported"
    if isinstance(node, exp.Exists | exp.In | exp.Select | exp.Subquery):
        return (
            "join with it: FROM a JOIN b ON a.k = b.k; a row comes once for each partner"
            if isinstance(node, exp.Exists | exp.In)
            else "read its stream in FROM, and join: FROM a JOIN b ON a.k = b.k"
        )
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Literal):
        return 'in Spark\'s dialect "…" is a text; names are quoted with backticks: `a`.`k`'
    return _HINTS.get(type(node), "")


def _shown(node: exp.Expr, scope: Scope) -> str:
    if isinstance(node, exp.Exists):
        return f"{_negated(node)}{_NAMES[exp.Exists]}"
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    if isinstance(node, exp.Func):
        return f"function {node.sql_name().lower()}"
    return f"`{scope.text.source(node)}`"


_BUILDERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Term]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.RawString: _literal,
    exp.Null: _constant,
    exp.Boolean: _constant,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Anonymous: _call,
    exp.Trim: _trim,
    exp.Extract: _extract,
    exp.Paren: _paren,
    exp.Interval: _interval,
    exp.Window: _window,
    exp.Concat: _adjacent,
}
