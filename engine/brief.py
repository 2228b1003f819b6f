"""What changes from tick to tick, on its way to the tasks.

The streaming query is planned once, with the functions that its tasks run; to plan a query of its own for
every tick cost 100 ms. So a tick's particulars cannot travel in those functions. They travel beside
them: as a local property of the Spark job, or, where they are large, as a file in the checkpoint that the
property names.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pickle
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import StateError
from engine.state.model import Runs, Segment
from engine.state.ranges import Ranges

if TYPE_CHECKING:
    from pyspark import SparkContext

    from engine.exchange import Route
    from engine.stage import Standing

PROPERTY = "spillway.brief"
INLINE_MAX = 400_000


@dataclass(frozen=True, slots=True)
class Release:
    """Held rows to take in now: these groups of this file."""

    side: int
    segment: Segment
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overflow:
    """When a node spills by its own decision: over `most` bytes, and then down to `target`, at least `share`
    of what it has."""

    most: int
    target: int
    share: float


@dataclass(frozen=True, slots=True)
class Settle:
    """State that comes back into memory: it meets what has come since, and is one with it from then on."""

    groups: Ranges
    runs: tuple[Runs, ...]  # of each side
    action: str = ""
    until: int | None = None  # of window functions: results before that time are out


@dataclass(frozen=True, slots=True)
class Brief:
    """One tick's particulars."""

    version: int
    routes: Mapping[int, Route]  # by operator number
    marks: Mapping[str, int]  # the watermark of each input that has one
    runs: Mapping[tuple[str, int], tuple[Runs, ...]]  # by operator and node
    releases: Mapping[tuple[str, int], tuple[Release, ...]] = field(default_factory=dict)
    slow: Mapping[int, float] = field(default_factory=dict)  # tests: seconds per 1000 rows
    warm: bool = False  # bring all state into memory: nothing else is asked for
    fronts: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # group_by: results due, since and until
    wake: bool = False  # every node has results due
    everyone: bool = False  # every node has something to do, input or not
    since: int | None = None  # files of this version or later may be a side job's: they stay
    frozen: Mapping[tuple[str, int], tuple[int, ...]] = field(
        default_factory=dict
    )  # of each side: how many of the oldest runs must stay as they are
    limits: Mapping[int, Overflow] = field(default_factory=dict)  # by node
    victims: Mapping[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # by node: groups of all operators in the order in which they spill, numbered through
    settle: Mapping[tuple[str, int], Settle] = field(default_factory=dict)
    work: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)  # side jobs, by node
    standing: Standing | None = None  # another plan than the one that Spark's query was begun with


def give(context: SparkContext, brief: Brief, folder: Path) -> None:
    """Hand the brief to the jobs that this thread starts from now on."""
    text = base64.b85encode(zlib.compress(pickle.dumps(brief), 1)).decode()
    if len(text) > INLINE_MAX:
        folder.mkdir(exist_ok=True)
        for old in folder.glob("brief-*"):
            old.unlink()
        # Named by its content: workers outlive a query's restart, and remember briefs by this name.
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        path = folder / f"brief-{brief.version}-{digest}"
        part = path.with_suffix(".tmp")
        part.write_text(text)
        os.replace(part, path)
        text = f"@{path}"
    context.setLocalProperty(PROPERTY, text)


def take() -> Brief:
    """In a task: the brief of its job."""
    from pyspark import TaskContext

    context = TaskContext.get()
    text = context.getLocalProperty(PROPERTY) if context is not None else None
    if text is None:
        raise StateError(
            "a task was started without its brief",
            where="brief",
            hint="This is a defect: please report it.",
        )
    return _read(text)


@lru_cache(maxsize=2)
def _read(text: str) -> Brief:
    if text.startswith("@"):
        text = Path(text[1:]).read_text()
    brief: Brief = pickle.loads(zlib.decompress(base64.b85decode(text)))
    return brief
