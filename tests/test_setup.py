"""Set-up's look at Java: what it accepts, and that what it refuses comes with the way out."""

from __future__ import annotations

import os
import subprocess
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
