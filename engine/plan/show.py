"""The plan as a tree of text, for `query check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.plan.fingerprint import columns
from engine.plan.tree import Exchange, MultiJoin, Plan, Project, Scan
from engine.query.model import JoinInput, OutputColumn

NODES_SHOWN_MAX = 8


def render(plan: Plan) -> str:
    """One line for each operator, with what it does below it."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    yield f"query {plan.name}: {_count(plan.nodes, 'node')}"
    yield f"└─ sink {plan.sink.format} {plan.sink.path}".rstrip()
    yield from _indent(_project(plan.root), "   └─ ", "      ")


def _indent(lines: Iterator[str], first: str, rest: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield (rest if number else first) + line


def _project(project: Project) -> Iterator[str]:
    yield f"project {project.id}"
    for output in project.outputs:
        yield f"│    {_output(project.child, output)}"
    if project.where:
        yield f"│    where {_readable(project.child, project.where)}"
    yield from _indent(_join(project.child), "└─ ", "   ")


def _output(join: MultiJoin, output: OutputColumn) -> str:
    value = _readable(join, output.expr) if output.expr else _column(join, output.source or "")
    return f"{output.name} {output.type} = {value}"


def _readable(join: MultiJoin, expression: str) -> str:
    """An expression with key parts named as the user knows them."""
    for part in join.key:
        expression = expression.replace(f'"{part.name}"', f'"{_column(join, part.name)}"')
    return expression


def _column(join: MultiJoin, source: str) -> str:
    numbers = [n for n, part in enumerate(join.key) if part.name == source]
    return _key(join.inputs[0], numbers[0]) if numbers else source


def _join(join: MultiJoin) -> Iterator[str]:
    equalities = " and ".join(
        " = ".join(_key(i, n) for i in join.inputs) + f" ({part.type})"
        for n, part in enumerate(join.key))
    yield f"multi_join {join.id} on {equalities}"
    yield f"│    {_count(join.groups, 'group')}: {_placement(join.placement)}"
    last = len(join.children) - 1
    for number, child in enumerate(join.children):
        start, rest = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
        yield from _indent(_exchange(child), start, rest)


def _key(given: JoinInput, part: int) -> str:
    key = given.keys[part]
    return f"{given.alias}.{key.column or key.expr}"


def _placement(placement: tuple[int, ...]) -> str:
    counts = sorted(Counter(placement).items())
    shown = [f"node {node} has {count}" for node, count in counts[:NODES_SHOWN_MAX]]
    if len(counts) > NODES_SHOWN_MAX:
        shown.append(f"{len(counts) - NODES_SHOWN_MAX} more nodes")
    return ", ".join(shown)


def _exchange(exchange: Exchange) -> Iterator[str]:
    yield f"exchange {exchange.id} by ({', '.join(k.expr for k in exchange.child.input.keys)})"
    yield from _indent(_scan(exchange.child), "└─ ", "   ")


def _scan(scan: Scan) -> Iterator[str]:
    stream, given = scan.stream, scan.input
    named = given.alias if given.alias == stream.name else f"{stream.name} as {given.alias}"
    yield f"scan {named}: {stream.format} {stream.path}".rstrip()
    yield f"     columns {columns(given.payload) or 'none but the key'}"
    if given.where:
        yield f"     filter {given.where}"
    if stream.time:
        yield f"     time {stream.time}, watermark {stream.watermark_s:g} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
