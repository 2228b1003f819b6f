"""A rule's text, and a running query whose joins are known."""

from __future__ import annotations

from dataclasses import replace

from control.migration.trees import Tree
from tests.app.made import QUERY, Console
from tests.control.migration.made import joins_of
from tests.control.migration.outlooks import skewed

RULE = """
name = "balance"
mode = "propose"
every = "15s"
[policy]
name = "relocate"
"""


def joined(console: Console, tree: Tree) -> None:
    """The query runs this tree of a chain, and its ticks have told so."""
    console.clock.pause(1)
    sample = console.store.metrics.newest(QUERY)
    assert sample is not None
    now_s = console.clock()
    told = replace(sample.snapshot, joins=joins_of(skewed(5.0), tree), time_s=now_s)
    console.store.metrics.write([replace(sample, snapshot=told, time_s=now_s)])
