"""The plan as a tree of text, for `query check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.plan.fingerprint import called, columns, scans, span
from engine.plan.tree import Exchange, GroupBy, Join, Plan, Project, Scan, Union, inputs_below
from engine.query.formats import place, promise
from engine.query.model import Bound, Field, JoinInput, OutputColumn, key_id, time_id

NODES_SHOWN_MAX = 8


def render(plan: Plan) -> str:
    """One line for each operator, with what it does below it."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    streams = {scan.stream.name: scan.stream for scan in scans(plan.root.child)}
    promised = promise(streams.values(), plan.sink)
    yield f"query {plan.name}: {_count(plan.nodes, 'node')}, {promised}"
    yield f"└─ sink {plan.sink.format} {place(plan.sink)}".rstrip()
    yield from _indent(_project(plan, plan.root), "   └─ ", "      ")
    if plan.beside is not None:
        yield "beside it, until no old row can be in a result to come"
        yield from _indent(_join(plan, plan.beside), "└─ ", "   ")


def _indent(lines: Iterator[str], first: str, rest: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield (rest if number else first) + line


def _project(plan: Plan, project: Project) -> Iterator[str]:
    yield f"project {project.id}"
    for output in project.outputs:
        yield f"│    {_output(plan, output)}"
    if isinstance(project.child, GroupBy):
        yield from _indent(_group(plan, project.child, project.where), "└─ ", "   ")
        return
    if project.where:
        yield f"│    where {_readable(plan, project.where)}"
    yield from _indent(_join(plan, project.child), "└─ ", "   ")


def _group(plan: Plan, group: GroupBy, where: str | None) -> Iterator[str]:
    """What is computed, over which rows, in which order."""
    key = ", ".join(key_name(plan, part.name) for part in group.key)
    time = key_name(plan, group.query.time)
    yield f"group_by {group.id} on {key}, ordered by {time}, then stream and offset"
    texts = {one.name: _readable(plan, one.expr or "") for one in group.query.arguments}
    names = {one.argument or "": one.argument or "" for one in group.query.aggregates}
    texts = {name: key_name(plan, text) for name, text in names.items()} | texts
    for one in group.query.aggregates:
        yield f"│    {one.id} {one.type} = {called(one, texts)}"
    if where:
        yield f"│    where {_readable(plan, where)}"
    yield f"│    {_count(group.groups, 'group')}: {_placement(group.placement)}"
    yield from _indent(_exchange(plan, group.child, group.key), "└─ ", "   ")


def _output(plan: Plan, output: OutputColumn) -> str:
    value = _readable(plan, output.expr) if output.expr else key_name(plan, output.source or "")
    return f"{output.name} {output.type} = {value}"


def _readable(plan: Plan, expression: str) -> str:
    """An expression with key classes and times named as the user knows them."""
    for given in plan.inputs:
        for name in (time_id(given.alias), *(key_id(part.number) for part in given.keys)):
            expression = expression.replace(f'"{name}"', f'"{key_name(plan, name)}"')
    return expression


def key_name(plan: Plan, column: str) -> str:
    """A column's id as the user knows it: a key class by its first member."""
    for given in plan.inputs:
        if given.time and column == time_id(given.alias):
            return f"{given.alias}.{given.time}"
        for part in given.keys:
            if column == key_id(part.number):
                return _key(given, column)
    return column


def _key(given: JoinInput, column: str) -> str:
    part = next(part for part in given.keys if key_id(part.number) == column)
    return f"{given.alias}.{part.column or part.expr}"


def _join(plan: Plan, join: Join) -> Iterator[str]:
    equalities = " and ".join(on_keys(join, part) for part in join.key)
    yield f"{join.kind} {join.id} on {equalities}"
    for line in within(plan, join.bounds):
        yield f"│    {line}"
    yield f"│    {_count(join.groups, 'group')}: {_placement(join.placement)}"
    if join.columns:
        yield f"│    columns {', '.join(f'{key_name(plan, f.name)} {f.type}' for f in join.columns)}"
    last = len(join.children) - 1
    for number, child in enumerate(join.children):
        start, rest = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
        yield from _indent(_exchange(plan, child, join.key), start, rest)


def on_keys(join: Join, part: Field) -> str:
    """A key class by its members below, each child's first."""
    members = [
        next(_key(i, part.name) for i in inputs_below(child.child) if _has(i, part))
        for child in join.children
        if any(_has(i, part) for i in inputs_below(child.child))
    ]
    return f"{' = '.join(members)} ({part.type})"


def _has(given: JoinInput, part: Field) -> bool:
    return any(key_id(own.number) == part.name for own in given.keys)


def within(plan: Plan, bounds: tuple[Bound, ...]) -> Iterator[str]:
    """One line for each pair that a window holds together."""
    found = {(b.early, b.late): b.us for b in bounds}
    for early, late in found:
        if early < late or (late, early) not in found:
            first, second = (key_name(plan, time_id(plan.inputs[n].alias)) for n in (early, late))
            back = found.get((late, early))
            least = "" if back is None else f"{span(-back)} ≤ "
            yield f"within {least}{second} − {first} ≤ {span(found[early, late])}"


def _placement(placement: tuple[int, ...]) -> str:
    counts = sorted(Counter(placement).items())
    shown = [f"node {node} has {count}" for node, count in counts[:NODES_SHOWN_MAX]]
    if len(counts) > NODES_SHOWN_MAX:
        shown.append(f"{len(counts) - NODES_SHOWN_MAX} more nodes")
    return ", ".join(shown)


def _exchange(plan: Plan, exchange: Exchange, key: tuple[Field, ...]) -> Iterator[str]:
    child = exchange.child
    if isinstance(child, Join):
        names = ", ".join(_first(child, part) for part in key)
        fused = ": fused, the rows are there already" if exchange.fused else ""
        yield f"exchange {exchange.id} by ({names}){fused}"
        yield from _indent(_join(plan, child), "└─ ", "   ")
        return
    wanted = {part.name for part in key}
    texts = [part.expr for part in child.input.keys if key_id(part.number) in wanted]
    yield f"exchange {exchange.id} by ({', '.join(texts)})"
    lines = _union(child) if isinstance(child, Union) else _scan(child)
    yield from _indent(lines, "└─ ", "   ")


def _first(join: Join, part: Field) -> str:
    return next((_key(i, part.name) for i in join.inputs if _has(i, part)), part.name)


def _union(union: Union) -> Iterator[str]:
    yield f"union {union.id}"
    last = len(union.children) - 1
    for number, scan in enumerate(union.children):
        start, rest = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
        yield from _indent(_scan(scan), start, rest)


def _scan(scan: Scan) -> Iterator[str]:
    stream, given = scan.stream, scan.input
    named = given.alias if given.alias == stream.name else f"{stream.name} as {given.alias}"
    messages = f", {stream.value_format} messages" if stream.value_format else ""
    yield f"scan {named}: {stream.format} {place(stream)}".rstrip() + messages
    yield f"     columns {_columns(given)}"
    if given.where:
        yield f"     filter {given.where}"
    if stream.time:
        idle = "" if stream.idle_after_s is None else f", idle after {stream.idle_after_s:g} s"
        yield f"     time {stream.time}, watermark {stream.watermark_s:g} s{idle}"


def _columns(given: JoinInput) -> str:
    if not given.exprs:
        return columns(given.payload) or "none but the key"
    pairs = zip(given.payload, given.exprs, strict=True)
    return ", ".join(f"{column.name} {column.type} = {text}" for column, text in pairs)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
