"""`run.py up` as a user starts it: real processes on a data folder, driven by `run.py ctl`.

The command line is called in this process (`ctl`, `json`), which takes milliseconds where a process of its own
takes a second; `shell` starts one as a user does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.inside import inside

ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")
PATIENCE = (
    4  # times what a quiet machine takes: what is waited for comes late on a busy one, not never
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: Callable[[], T | None], seconds: float = 60.0, why: str = "") -> T:
    """Wait for something to be there, on a quiet machine for so many seconds; fails with what was last seen."""
    seconds *= PATIENCE
    end, found = time.monotonic() + seconds, None
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"{why or what} did not come about in {seconds:.0f} s; last: {found!r}")


class Up:
    """One `run.py up`. Its output goes to `up.log` beside the data folder."""

    def __init__(self, data: Path, *arguments: str, settings: tuple[str, ...] = ()) -> None:
        self.data, self.port = data, free_port()
        self.arguments, self.settings = arguments, settings
        self.log = data.with_name(data.name + ".up.log")
        self.process: subprocess.Popen[bytes] | None = None
        self._password = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def password(self) -> str:
        """The first one of `admin`. Its file goes when it is changed, as the live tests of the browser do."""
        if self.first_password.exists():
            self._password = self.first_password.read_text().strip()
        assert self._password, "nobody has seen the first password"
        return self._password

    @property
    def first_password(self) -> Path:
        return self.data / "first-password"

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> Up:
        flags = [part for item in self.settings for part in ("--set", item)]
        command = [sys.executable, str(ROOT / "run.py"), *flags, "up", "--data", str(self.data)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), *self.arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        until(self._serving, 60, "the console")
        assert self.password  # is known from now on
        return self

    def _serving(self) -> bool:
        assert self.runs, self.said
        return self.ctl("status", check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        assert self.process is not None
        if self.runs:
            self.process.send_signal(how)
        return self.process.wait(60 * PATIENCE)

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`run.py ctl`, called in this process."""
        done = inside(*self._command(*arguments))
        return _checked(done) if check else done

    def shell(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`run.py ctl` in a process of its own."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "run.py"), *self._command(*arguments)],
            capture_output=True,
            text=True,
            timeout=120 * PATIENCE,
            check=False,
        )
        return _checked(done) if check else done

    def _command(self, *arguments: str) -> list[str]:
        return ["ctl", "--data", str(self.data), *arguments]

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ctl(*arguments, "--json").stdout)

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Straight to the API, where a process for each call is too slow."""
        token = json.loads((self.data / "ctl.json").read_text())["token"]
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30 * PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def pid(self, process: str) -> int:
        """Of the engine, control, or `up` itself, as its lock file has it."""
        return int((self.data / f"{process}.lock").read_text())

    def children(self) -> dict[str, int]:
        """The pids of its processes: engine, control, console."""
        found = {}
        assert self.process is not None
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                names = {"engine", "control", "console"} & {*child.cmdline()}
                found |= dict.fromkeys(names, child.pid)
        return found

    def kill(self, name: str) -> None:
        """kill −9 of one of its processes; another has begun, and the console answers, when this returns."""
        pid = until(lambda: self.children().get(name), 60, name)
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.children().get(name, pid) != pid, 60, f"{name} again")
        until(self._serving, 60, "the console")

    def state(self, query: str = "demo") -> str:
        found = {q["name"]: q["state"] for q in self.json("queries")["items"]}
        return str(found.get(query, ""))

    def running(self, query: str = "demo", seconds: float = 90.0) -> None:
        until(lambda: self.state(query) == "running", seconds, f"query {query} running")
        until(lambda: self._heard_of(query), 30, f"what is known of {query}")

    def _heard_of(self, query: str) -> bool:
        """Its first tick comes a little after it runs."""
        told = self.ctl("nodes", "--query", query, "--json", check=False)
        return told.returncode == 0 and bool(json.loads(told.stdout)["items"])


def _checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr}"
    return done
