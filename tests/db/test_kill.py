"""kill -9 of a process that writes: what it said was written is there, whole, once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.maintenance import backup
from db.open import open_store

WRITER = """
import sys
from pathlib import Path
from db.open import open_store
from db.maintenance import checkpoint
from db.retention import tidy
from tests.db.made import START_S, command, sample

store = open_store(Path(sys.argv[1]), create=True)
first = len(store.commands.page(most=10_000))
for number in range(first, first + 100_000):
    with store.together():
        store.commands.add(command(f"c{number}", body={"text": "x" * (number * 997 % 9000)}))
        store.kept.put("last", number)
    store.metrics.write([sample(START_S + 20 * number)])
    print(number, flush=True)
    if number % 7 == 0:
        checkpoint(store)
        tidy(store, START_S + 20 * number)
"""


@pytest.mark.chaos
@settings(max_examples=4)
@given(lines=st.lists(st.integers(1, 40), min_size=1, max_size=3))
def test_what_was_told_as_written_is_there_after_a_kill(
    tmp_path_factory: pytest.TempPathFactory, lines: list[int]
) -> None:
    """Killed again and again after some lines, in the middle of whatever it does then."""
    folder = tmp_path_factory.mktemp("killed")
    root = Path(__file__).resolve().parents[2]
    for count in lines:
        command = [sys.executable, "-c", WRITER, str(folder)]
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            told = [int(writer.stdout.readline()) for _ in range(count)]
            writer.send_signal(signal.SIGKILL)
            told += [int(line) for line in writer.stdout.read().split("\n") if line.strip()]
        store = open_store(folder)
        ids = [one.id for one in reversed(store.commands.page(most=10_000))]
        assert ids == [f"c{number}" for number in range(len(ids))]
        assert len(ids) > told[-1]
        assert store.kept.get("last") == len(ids) - 1, "both parts of a transaction, or none"
        newest = store.metrics.newest("q")
        assert newest is not None
        assert newest.version >= 20 * told[-1]
        store.close()
    backup(folder, folder / "checked")
