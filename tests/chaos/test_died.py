"""The process ends at each step of a commit, as far as files go, without a JVM of its own for each time: an exception, after which
nothing more can be written, and then a new start from the same folders. Exactly the batch join, or DuckDB's window functions.

test_kill*.py do the same with kill −9."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.chaos.kills import make
from tests.chaos.kills_groups import make as groups
from tests.chaos.kills_windows import make as windows
from tests.chaos.kills_windows import wanted
from tests.chaos.victim import arm
from tests.engine.chains import chain
from tests.engine.group_by import FINAL, ONE, same

POINTS = ("step", "commit", "part", "publish")
ORDER = "((a b) (c d))"


class Died(Exception):
    """The process is gone."""


@contextmanager
def dying(point: str, version: int) -> Iterator[None]:
    """It dies there, and from then on it changes no file."""
    dead = False

    def die() -> None:
        nonlocal dead
        dead = True
        raise Died(point)

    def after_all(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if dead:
                raise Died(point)
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        arm(point, version, die, patch.setattr)
        for name in ("fsync", "replace", "rename", "unlink"):
            patch.setattr(os, name, after_all(getattr(os, name)))
        with pytest.raises(Died):
            yield


@pytest.mark.parametrize("point", POINTS)
def test_within_a_commit(spark: SparkSession, tmp_path: Path, point: str) -> None:
    case = make(tmp_path, 1)
    with dying(point, 3):
        case.run()
    case.run()
    assert case.check() > 1000
    assert not list(case.out.glob(".part*")), "staged files are left"


def test_with_window_functions(spark: SparkSession, tmp_path: Path) -> None:
    case = groups(tmp_path, 1)
    with dying("commit", 4):
        case.run()
    case.run()
    assert same(case, ONE, FINAL) > 400


def test_in_a_tree_and_then_with_more_nodes(spark: SparkSession, tmp_path: Path) -> None:
    case = windows(tmp_path, 1, ORDER)
    with dying("part", 4):
        case.run()
    chain(tmp_path, ORDER, nodes=3)
    case.run()
    assert case.check(wanted(case)) > 1000
