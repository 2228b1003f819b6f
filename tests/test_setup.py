"""Set-up's look at Java: what it accepts, and that what it refuses comes with the way out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def check_java(**env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    return subprocess.run(
        ["bash", str(ROOT / "tools/setup.sh"), "java"],
        env=clean | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "printed",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'openjdk version "21" 2023-09-19',
        'java version "26-ea" 2026-03-17',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.2" 2022-01-18',
    ],
)
def test_java_17_and_later_are_fine(tmp_path: Path, printed: str) -> None:
    script(tmp_path / "bin/java", f"printf '%s\\n' '{printed}' >&2")
    done = check_java(JAVA_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "found Java 11"),
        ('java version "1.8.0_392"', "found Java 8"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", "found none"),
    ],
)
def test_older_java_home_is_refused(tmp_path: Path, printed: str, found: str) -> None:
    script(
        tmp_path / "bin/java", f'printf "%s\\n" "{printed.replace(chr(34), chr(92) + chr(34))}" >&2'
    )
    done = check_java(JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    for part in ("Spark needs Java >= 17", found, f"JAVA_HOME={tmp_path}", "apt-get install"):
        assert part in done.stderr


def test_java_home_without_java_is_refused(tmp_path: Path) -> None:
    done = check_java(JAVA_HOME=str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "found none" in done.stderr


def test_without_rights_the_message_says_how(tmp_path: Path) -> None:
    script(tmp_path / "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    script(tmp_path / "id", "echo 1000")
    script(tmp_path / "apt-get", "echo must not be called >&2; exit 9")
    done = check_java(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert "apt-get install openjdk-17-jre-headless" in done.stderr
    assert "must not be called" not in done.stderr


def test_root_installs_a_missing_java(tmp_path: Path) -> None:
    old, new = "echo 'version \"11\"'", "echo 'openjdk version \"17.0.1\"'"
    script(tmp_path / "java", f"if [ -e {tmp_path}/installed ]; then {new}; else {old}; fi >&2")
    script(tmp_path / "id", "echo 0")
    script(
        tmp_path / "apt-get",
        f'echo "$@" >>{tmp_path}/calls; if [ "$1" = install ]; then touch {tmp_path}/installed; fi',
    )
    done = check_java(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].startswith("update")
    assert calls[1].startswith("install")
    assert calls[1].endswith("openjdk-17-jre-headless")


PYTHON = f"""
case "$1" in
  -) exec {sys.executable} "$@" ;;
  -c) echo 4.3.0 ;;
esac
case "$2" in
  pip) for last; do :; done; echo "$last" >>calls ;;
  engine.class_archive) echo classes >>calls; touch .venv/spark-classes.jsa ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Locks and set-up, and a virtual environment whose Python writes down what it is to install."""
    for name in ("tools/setup.sh", "requirements.lock", "requirements-dev.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    script(tmp_path / ".venv/bin/python", PYTHON)
    script(tmp_path / "bin/java", "echo 'openjdk version \"17.0.1\"' >&2")
    script(tmp_path / "bin/chromium", "")
    return tmp_path


def set_up(clone: Path, *part: str) -> list[str]:
    """What was installed by a call."""
    calls = clone / "calls"
    calls.write_text("")
    done = subprocess.run(
        ["bash", "tools/setup.sh", *part],
        cwd=clone,
        env={**os.environ, "PATH": f"{clone}/bin:{os.environ['PATH']}", "JAVA_HOME": str(clone)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return calls.read_text().split()


def test_what_runs_needs_no_tools_and_tests_add_to_it(clone: Path) -> None:
    assert set_up(clone) == ["requirements.lock", "classes"]
    assert set_up(clone) == []
    assert set_up(clone, "test") == ["requirements-dev.lock"], "the classes are Spark's as before"
    for part in ((), ("dev",), ("test",), ()):
        assert set_up(clone, *part) == [], "the other lock is there with it"


def test_another_lock_is_installed_once(clone: Path) -> None:
    set_up(clone, "dev")
    for name in ("requirements.lock", "requirements-dev.lock"):
        (clone / name).write_text((clone / name).read_text() + "# another\n")
    assert set_up(clone) == ["requirements.lock"]
    assert set_up(clone) == []
    assert set_up(clone, "dev") == ["requirements-dev.lock"]
    assert set_up(clone) == set_up(clone, "test") == []


def test_each_make_target_sets_up_what_it_needs() -> None:
    """Nothing of the tests and tools where Spillway only runs."""
    text = (ROOT / "Makefile").read_text()
    needs = dict(re.findall(r"^([a-z-]+): (setup|dev) ##", text, re.M))
    assert {name for name, need in needs.items() if need == "setup"} == {
        "run",
        "reproduce",
        "reproduce-long",
    }
    assert {"lint", "fmt", "fuzz", "chaos", "bench"} <= set(needs)
