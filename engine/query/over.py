"""Window functions in SELECT: `avg(v) OVER (PARTITION BY k ORDER BY ts ROWS 9 PRECEDING)`.

Here: which functions, frames and orders there may be, what each refused one is called, and the types that
Spark gives the results. What they need from the streams is grouping.py's, how they are computed
operators/group_by.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from engine.query.bounds import US_MAX
from engine.query.model import Frame
from engine.query.parse import SqlText
from engine.query.scope import Ref, Scope
from engine.query.terms import Term, build
from engine.query.types import INTEGERS, decimal_of, duck_type, key_refusal
from engine.query.windows import interval_us, time_column

ROWS_MAX = 1_000_000
_SPREADS = ("stddev_samp", "stddev_pop", "var_samp", "var_pop")
_FUNCTIONS = ("count", "sum", "min", "max", "avg", *_SPREADS)
_ALIASES = {
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
}
_WRAPPED: dict[type[exp.Expr], str] = {
    exp.Filter: "FILTER (WHERE …)",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
    exp.WithinGroup: "WITHIN GROUP",
}
_EXAMPLE = "write for example (PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
_FRAME = (
    "write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW, "
    "or RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW"
)
_PARTS = {"this", "alias", "over", "partition_by", "order", "spec"}


@dataclass(frozen=True, slots=True)
class Call:
    """One window function; its value is the column `id`."""

    id: str
    function: str
    argument: Term | None
    frame: Frame
    type: str


@dataclass(slots=True)
class Over:
    """The window functions of one SELECT as they are read: all over one key and one order."""

    text: SqlText
    named: dict[str, exp.Window]
    calls: list[Call] = field(default_factory=list)
    key: tuple[Ref, ...] = ()
    time: Ref | None = None
    order_at: exp.Expr | None = None

    def read(self, node: exp.Window, scope: Scope) -> Term:
        """The function as a column of the row that it belongs to."""
        over = self._resolved(node)
        call, where = node.this, replace(scope, over=None)
        name, argument = self._function(call, where)
        frame = self._frame(over, where)
        self._partition(over, where)
        self._order(over, where)
        kind = _type(self.text, name, argument, call)
        made = Call(f"~{len(self.calls)}", name, argument, frame, kind)
        self.calls.append(made)
        return Term("window", node, value=made.id, type=kind)

    def _resolved(self, node: exp.Window) -> exp.Window:
        """The window itself, where it is named in WINDOW."""
        self._check_parts(node)
        alias = node.args.get("alias")
        if alias is None:
            return node
        if any(node.args.get(part) for part in ("partition_by", "order", "spec")):
            hint = "name the whole window, or write all of it here"
            raise self.text.error(f"a window that extends window `{alias.name}`", alias, hint)
        found = self.named.get(alias.name.lower())
        if found is None:
            names = ", ".join(self.named) or "none"
            what = f"there is no window `{alias.name}`"
            raise self.text.error(what, alias, f"in WINDOW are: {names}")
        self._check_parts(found)
        if found.args.get("alias") is not None:
            what = f"window `{alias.name}` extends another one, which is not supported"
            raise self.text.error(what, found, _EXAMPLE)
        return found

    def _check_parts(self, node: exp.Window) -> None:
        for part, value in node.args.items():
            if value and part not in _PARTS:
                raise self.text.error(f"{part.upper()} in a window is not supported", node)
        if node.args.get("over") not in (None, "OVER"):
            raise self.text.error(f"{node.args['over']} is not supported", node, _EXAMPLE)

    def _function(self, call: exp.Expr, scope: Scope) -> tuple[str, Term | None]:
        for kind, shown in _WRAPPED.items():
            if isinstance(call, kind):
                raise self.text.error(f"{shown} is not supported over a window", call)
        written = call.name.lower() if isinstance(call, exp.Anonymous) else call.key
        name = _ALIASES.get(written, written)
        if name not in _FUNCTIONS or not isinstance(call, exp.Anonymous):
            what = f"function {written} is not supported over a window"
            raise self.text.error(what, call, f"there are: {', '.join(_FUNCTIONS)}")
        given = call.expressions
        if name == "count" and len(given) == 1 and isinstance(given[0], exp.Star):
            return name, None
        if len(given) != 1:
            raise self.text.error(f"{written} takes one argument, not {len(given)}", call)
        if isinstance(given[0], exp.Distinct):
            raise self.text.error(f"{written}(DISTINCT …) is not supported over a window", call)
        return name, build(given[0], scope)

    # -- frame -----------------------------------------------------------------------------------

    def _frame(self, over: exp.Window, scope: Scope) -> Frame:
        spec = over.args.get("spec")
        if spec is None:
            what = "a window without a frame is not supported (it looks back without end)"
            raise self.text.error(what, over, _FRAME)
        known = {"kind", "start", "start_side", "end", "end_side"}
        for part, value in spec.args.items():
            if value and part not in known:
                raise self.text.error(f"{part.upper()} in a frame is not supported", over, _FRAME)
        kind = str(spec.args.get("kind") or "").upper()
        if kind not in ("ROWS", "RANGE"):
            raise self.text.error(f"a frame in {kind} is not supported", over, _FRAME)
        end = spec.args.get("end")
        if end is not None and end != "CURRENT ROW":
            shown = _bound_text(end, spec.args.get("end_side"))
            raise self.text.error(f"a frame that ends at {shown} is not supported", over, _FRAME)
        start, side = spec.args.get("start"), spec.args.get("start_side")
        if start == "CURRENT ROW":
            return Frame(rows=0) if kind == "ROWS" else Frame(us=0)
        if not isinstance(start, exp.Expr) or side != "PRECEDING":
            shown = _bound_text(start, side)
            raise self.text.error(f"a frame that starts at {shown} is not supported", over, _FRAME)
        if kind == "ROWS":
            return Frame(rows=self._count(start))
        return Frame(us=self._span(start, scope))

    def _count(self, start: exp.Expr) -> int:
        good = isinstance(start, exp.Literal) and not start.is_string and start.name.isdigit()
        if not good or len(start.name) > 9 or int(start.name) > ROWS_MAX:
            what = f"ROWS needs a whole number up to {ROWS_MAX}, not `{self.text.source(start)}`"
            raise self.text.error(what, start, _FRAME)
        return int(start.name)

    def _span(self, start: exp.Expr, scope: Scope) -> int:
        term = build(start, scope) if isinstance(start, exp.Interval) else None
        if term is None:
            what = f"RANGE needs an interval, not `{self.text.source(start)}`"
            raise self.text.error(what, start, _FRAME)
        us = interval_us(term)
        if not 0 <= us <= US_MAX:
            what = f"`{self.text.source(start)}` is not between 0 and 10000 years"
            raise self.text.error(what, start, _FRAME)
        return us

    # -- key and order ---------------------------------------------------------------------------

    def _partition(self, over: exp.Window, scope: Scope) -> None:
        parts = over.args.get("partition_by") or []
        if not parts:
            raise self.text.error("a window needs PARTITION BY", over, _EXAMPLE)
        refs: list[Ref] = []
        for part in parts:
            if not isinstance(part, exp.Column):
                what = f"PARTITION BY `{self.text.source(part)}`: only columns are supported"
                hint = "compute it in FROM: (SELECT …, expression AS name FROM a) x"
                raise self.text.error(what, part, hint)
            ref = scope.resolve(part)
            why = key_refusal(ref.field.type)
            if why:
                shown = self.text.source(part)
                why = why.replace("join key", "key").replace("join on", "partition by")
                raise self.text.error(f"PARTITION BY `{shown}`: {why}", part)
            if ref not in refs:
                refs.append(ref)
        if self.key and set(self.key) != set(refs):
            what = "all windows of a query need the same PARTITION BY"
            raise self.text.error(what, parts[0], "write another query for the other key")
        self.key = self.key or tuple(refs)

    def _order(self, over: exp.Window, scope: Scope) -> None:
        order = over.args.get("order")
        parts = order.expressions if order is not None else []
        if len(parts) != 1:
            what = "a window needs ORDER BY one column, the event time of a stream"
            raise self.text.error(what, parts[1] if parts else over, _EXAMPLE)
        part = parts[0]
        if part.args.get("desc"):
            raise self.text.error("ORDER BY … DESC is not supported in a window", part.this)
        self._time(part.this, scope)

    def _time(self, node: exp.Expr, scope: Scope) -> None:
        """ORDER BY must name the event time of a stream, which alone says when a row is final."""
        shown = self.text.source(node)
        if not isinstance(node, exp.Column):
            raise self.text.error(f"ORDER BY `{shown}`: only a column is supported", node)
        ref = scope.resolve(node)
        source = scope.sources[ref.input]
        time = time_column(source)
        if time != ref.field.name:
            what = f"ORDER BY `{shown}`: a window's order must be the event time of a stream"
            stream = source.branches[0].stream.name
            hint = f"ORDER BY {time}" if time else f'name its `time = "…"` under [streams.{stream}]'
            raise self.text.error(what, node, hint)
        if self.time is not None and self.time != ref:
            raise self.text.error("all windows of a query need the same ORDER BY", node)
        self.time, self.order_at = ref, node


def over_of(text: SqlText, select: exp.Select) -> Over | None:
    """A reader, if SELECT has window functions at all."""
    if not any(column.find(exp.Window) for column in select.expressions):
        return None
    named: dict[str, exp.Window] = {}
    for window in select.args.get("windows") or []:
        if window.name.lower() in named:
            raise text.error(f"window `{window.name}` is defined twice", window)
        named[window.name.lower()] = window
    return Over(text, named)


def _bound_text(bound: object, side: object) -> str:
    shown = bound.sql(dialect="spark") if isinstance(bound, exp.Expr) else str(bound or "nothing")
    return f"{shown} {side or ''}".strip()


def _type(text: SqlText, name: str, argument: Term | None, at: exp.Expr) -> str:
    """The type of the result in Spark."""
    if name == "count":
        return "bigint"
    assert argument is not None
    kind = argument.type
    if name in ("min", "max"):
        if duck_type(kind) is None:
            raise text.error(f"{name} of {kind or 'an unknown type'} is not supported", at)
        return kind
    if kind in (*INTEGERS, "float", "double"):
        return "bigint" if name == "sum" and kind in INTEGERS else "double"
    digits = decimal_of(kind) if kind.startswith("decimal") else None
    if name == "sum" and digits:
        return f"decimal({min(38, digits[0] + 10)},{digits[1]})"
    hint = "CAST it to double" if digits else "CAST it to a number"
    raise text.error(f"{name} of {kind or 'an unknown type'} is not supported yet", at, hint)
