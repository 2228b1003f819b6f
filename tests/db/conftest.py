"""A store in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from db.open import Store
from tests.db.template import fresh_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = fresh_store(tmp_path / "data")
    yield found
    found.close()


@pytest.fixture
def fresh() -> Iterator[Callable[[], Store]]:
    """A new store at each call: one for each of Hypothesis's examples."""
    with TemporaryDirectory() as folder:
        stores: list[Store] = []

        def make() -> Store:
            stores.append(fresh_store(Path(folder) / str(len(stores))))
            return stores[-1]

        yield make
        for store in stores:
            store.close()
