"""The commit log as a state machine: whatever is appended, snapshotted and cut short, recovery gives what a
plain model says; damaged, missing and foreign files are refused by name."""

from __future__ import annotations

import builtins
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.errors import CheckpointError, StateError
from engine.state import commits
from engine.state.commits import Commit, CommitLog
from engine.state.model import FORMAT_VERSION, Change, Hold, Manifest, Place, Run, Segment

SEGMENTS = st.builds(
    Segment,
    file=st.from_regex(r"[0-9]{10}-[0-9]{4}-[0-9a-f]{12}\.arrow", fullmatch=True),
    start=st.integers(0, 9),
    rows=st.integers(1, 10**12),
    bytes=st.integers(1, 2**40),
    checksum=st.just("0123456789abcdef"),
    lo=st.integers(0, 2**64 - 1),
    hi=st.integers(0, 2**64 - 1),
)
TUPLE = st.lists(SEGMENTS, max_size=2).map(tuple)
RUNS = st.builds(Run, id=st.just("r"), rows=st.integers(1, 10**12), memory=TUPLE, durable=TUPLE)
PLACES = st.builds(
    Place,
    operator=st.sampled_from(["join-1", "a/b"]),
    node=st.integers(0, 2),
    input=st.integers(0, 1),
)
CHANGES = st.builds(Change, kept=st.integers(0, 2), added=st.lists(RUNS, max_size=2).map(tuple))
HOLDS = st.builds(
    Hold,
    operator=st.just("join-1"),
    input=st.integers(0, 1),
    segment=SEGMENTS,
    groups=st.just((1, 5)),
    rows=st.just((10, 2)),
)
COMMIT_PARTS = st.fixed_dictionaries(
    {
        "changes": st.dictionaries(PLACES, CHANGES, max_size=3),
        "holds": st.lists(HOLDS, max_size=2).map(tuple),
        "staged": st.dictionaries(st.just("results"), st.just([[".a.tmp", "a", 1, 2]]), max_size=1),
        "stats": st.dictionaries(st.just("rows_in"), st.integers(0, 2**50), max_size=1),
        "placement": st.dictionaries(st.just("join-1"), st.just((0, 1, 0)), max_size=1),
        "nodes": st.integers(0, 3),
    }
)


class Crash(BaseException):
    """The process dies here."""


class Torn:
    """A file of which only the first half of a write arrives."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __enter__(self) -> Torn:
        return self

    def __exit__(self, *_: object) -> None:
        self.inner.close()

    def write(self, data: bytes) -> None:
        self.inner.write(data[: len(data) // 2])
        raise Crash("write")


@contextmanager
def crash_at(step: int) -> Iterator[list[str]]:
    """Die at the `step`-th file operation; a write is torn in the middle."""
    done: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(done) == step:
                if name == "open":
                    return Torn(real(*args, **kwargs))
                raise Crash(name)
            result = real(*args, **kwargs)
            done.append(name)
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "replace", "unlink"):
            patch.setattr(os, name, wrap(name, getattr(os, name)))
        patch.setattr(commits, "open", wrap("open", builtins.open), raising=False)
        yield done


class Log(RuleBasedStateMachine):
    """Commits and snapshots that may be cut short anywhere, against a list of manifests."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="log-"))
        self.log = CommitLog(self.folder)
        assert self.log.open({"a": "b"}) is None
        self.manifest = Manifest()
        self.commits: list[Commit] = []
        self.stats: tuple[int, Any] = (0, None)  # version of the last snapshot, its stats

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(parts=COMMIT_PARTS, step=st.none() | st.integers(0, 4))
    def append(self, parts: dict[str, Any], step: int | None) -> None:
        commit = Commit(self.manifest.version + 1, self.manifest.tick + 1, **parts)
        happened = self.attempt(step, lambda: self.log.append(commit))
        if happened:
            self.manifest = commit.apply(self.manifest)
            self.commits.append(commit)

    @rule(step=st.none() | st.integers(0, 8))
    def snapshot(self, step: int | None) -> None:
        stats = {"made": self.manifest.version}
        if self.attempt(step, lambda: self.log.snapshot(self.manifest, stats)):
            self.stats = (self.manifest.version, stats)

    def attempt(self, step: int | None, work: Callable[[], None]) -> bool:
        """Whether the file came into place, which is what counts, crash or not."""
        if step is None:
            work()
            return True
        with crash_at(step) as done:
            try:
                work()
            except Crash:
                pass
        self.log = CommitLog(self.folder)
        assert self.log.open({"c": "d"}) == {"a": "b"}
        return "replace" in done

    @invariant()
    def recovers(self) -> None:
        found = CommitLog(self.folder).recover()
        assert found.manifest == self.manifest
        version, stats = self.stats
        assert found.stats == stats
        since = [c for c in self.commits if c.version > version]
        assert [c for c in found.tail if c.version > version] == since
        if self.commits and version == self.manifest.version:
            assert found.tail[-1] == self.commits[-1], "what has to be published must not be lost"


TestLog = Log.TestCase
TestLog.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def commit(version: int) -> Commit:
    run = Run(f"r{version}", 5, (), ())
    return Commit(version, version - 1, {Place("j", 0, 0): Change(9, (run,))}, (), {}, nodes=1)


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    """Snapshot at 2, commits 2 to 5."""
    made = CommitLog(tmp_path / "commits")
    made.open({})
    manifest = Manifest()
    for version in range(1, 6):
        made.append(commit(version))
        manifest = commit(version).apply(manifest)
        if version == 2:
            made.snapshot(manifest, {})
    assert made.recover().manifest == manifest
    return made


@pytest.mark.parametrize("number", [3, 4])
def test_a_missing_commit_is_named(log: CommitLog, number: int) -> None:
    (log.folder / f"commit-{number:010d}.json").unlink()
    with pytest.raises(
        CheckpointError, match=f"commit {number} is missing, {number + 1} is there"
    ) as caught:
        log.recover()
    assert caught.value.where == str(log.folder) and "copy" in caught.value.hint


def test_a_missing_snapshot_is_noticed(log: CommitLog) -> None:
    next(log.folder.glob("snapshot-*")).unlink()
    with pytest.raises(CheckpointError, match="commit 1 is missing, 2 is there"):
        log.recover()


@pytest.mark.parametrize("name", ["snapshot-0000000002", "commit-0000000003", "commit-0000000005"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_file_is_named(log: CommitLog, name: str, damage: str) -> None:
    path = log.folder / f"{name}.json"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    path.write_bytes({"flip": data, "truncate": data[:-3], "empty": b""}[damage])
    with pytest.raises(CheckpointError, match="does not match its checksum") as caught:
        log.recover()
    assert caught.value.where == str(path)


@pytest.mark.parametrize("damage", ["flip", "empty"])
def test_a_damaged_description_is_named(log: CommitLog, damage: str) -> None:
    path = log.folder / "meta.json"
    path.write_bytes(b"" if damage == "empty" else path.read_bytes().replace(b"{", b"[", 1))
    with pytest.raises(CheckpointError, match="does not match its checksum") as caught:
        log.open({})
    assert caught.value.where == str(path)


def test_a_checkpoint_of_another_format_is_refused(log: CommitLog) -> None:
    commits._write(log.folder / "meta.json", {"format": FORMAT_VERSION + 1, "query": {}})
    with pytest.raises(CheckpointError) as caught:
        log.open({})
    expected = f"checkpoint has format {FORMAT_VERSION + 1}, this version reads {FORMAT_VERSION}"
    assert caught.value.what == expected and caught.value.where.endswith("meta.json")


def test_commits_without_a_description_are_not_taken_over(log: CommitLog) -> None:
    """meta.json gone: whose commits these are is not known, so no query may go on with them."""
    (log.folder / "meta.json").unlink()
    with pytest.raises(CheckpointError, match=r"meta\.json is missing"):
        log.open({})


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="state cannot be written") as caught:
        CommitLog(tmp_path / "file" / "commits").open({})
    assert caught.value.where == str(tmp_path / "file" / "commits")


def test_a_full_disk_leaves_the_log_as_it_was(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = log.recover()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StateError, match="no space left for state; the last commit stands"
    ) as caught:
        log.append(commit(6))
    assert caught.value.where.endswith("commit-0000000006.json")
    monkeypatch.undo()
    assert log.recover() == before
    assert not list(log.folder.glob(".*.tmp")), "a file that did not come about takes up space"
