"""A console for each test, over a real store in its own folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.made import Console, begin, with_query


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    made = begin(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def running(console: Console) -> Console:
    """With a demo query that runs."""
    with_query(console)
    return console
