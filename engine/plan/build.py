"""From a checked query to the plan: one exchange and scan for each input, one join, one projection."""

from __future__ import annotations

from engine.plan.placement import even, weighted
from engine.plan.tree import Exchange, MultiJoin, Plan, Project, Scan
from engine.query.model import Field, JoinQuery, QuerySpec, key_id


def build_plan(spec: QuerySpec, query: JoinQuery) -> Plan:
    """The plan with its initial placement."""
    placement = weighted(spec.groups, spec.placement) if spec.placement \
        else even(spec.groups, spec.nodes)
    children = tuple(
        Exchange(f"exchange-{i.alias}", Scan(f"scan-{i.alias}", spec.streams[i.stream], i))
        for i in query.inputs)
    key = tuple(Field(key_id(n), kind) for n, kind in enumerate(query.key_types))
    join = MultiJoin("join-1", children, key, spec.groups, placement)
    return Plan(spec.name, Project("project-1", join, query.where, query.outputs), spec.sink,
                spec.nodes)
