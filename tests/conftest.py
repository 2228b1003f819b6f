"""Shared fixtures: the environment Spark needs, one session for the whole run, and Hypothesis profiles.

Environment variables:
  HYPOTHESIS_PROFILE       default | fresh | long (default: default); see docs/decisions/0013
  HYPOTHESIS_MAX_EXAMPLES  examples per property, whatever the profile
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
OURS = "spillway-tests-"
DEMO = ("tests/browser/test_live.py", "tests/test_story.py")
WAITING = ("demo", "tests/test_story_order.py")

# Before anything imports pyspark: its worker processes inherit these from the JVM.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
_paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if str(ROOT) not in _paths:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, _paths)])
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _own_memory_folder() -> None:
    """State of killed and forgotten queries goes with the test run instead of filling /dev/shm. Each process of pytest-xdist
    has a folder of its own in that of the process that started it."""
    given, above = os.environ.get("SPILLWAY_MEM_DIR"), "/dev/shm"
    if given and "PYTEST_XDIST_WORKER" in os.environ and OURS in given:
        above = given
    elif given or not os.access(above, os.W_OK):
        return
    folder = tempfile.mkdtemp(prefix=OURS, dir=above)
    os.environ["SPILLWAY_MEM_DIR"] = folder
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)


_own_memory_folder()

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.up import Up


def _register_profiles() -> None:
    """No deadline (Spark's first call is slow), blobs printed so that a failure can be replayed."""
    override = os.environ.get("HYPOTHESIS_MAX_EXAMPLES")
    for name, examples in (("default", 50), ("fresh", 50), ("long", 2000)):
        settings.register_profile(
            name,
            deadline=None,
            derandomize=name == "default",
            print_blob=True,
            max_examples=int(override) if override else examples,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        )
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


_register_profiles()


def group_of(nodeid: str) -> str:
    """What runs in one process of pytest-xdist, in its order: a module, and all that uses the one demo."""
    module = nodeid.partition("::")[0]
    return "demo" if module in DEMO else module


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits most begins first, so that nobody waits for it alone at the end."""
    items.sort(key=lambda item: group_of(item.nodeid) not in WAITING)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of `--dist loadscope`. (`loadgroup` would do it by marks, but they do not reach it with pytest 9.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test run, set up as the engine sets up its own: local[3,4], UTC."""
    from engine.session import start_session

    place = tmp_path_factory.mktemp("spark")
    session = start_session(master="local[3,4]", nodes=2, app_name="spillway-tests", log_dir=place)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The one `run.py up` with the demo: first for the live tests of the browser, then for the story, which ends it."""
    from tests.up import Up

    made = Up(tmp_path_factory.mktemp("demo") / "data")
    try:
        yield made.start()
    finally:
        made.stop()
