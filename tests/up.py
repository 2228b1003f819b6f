"""`run.py up` as a user starts it: real processes on a data folder, driven by `run.py ctl`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: Callable[[], T | None], seconds: float = 60.0, why: str = "") -> T:
    """Wait for something to be there; fails with what was last seen."""
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

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def password(self) -> str:
        found = re.search(r"password (\S+)", self.said)
        assert found, self.said
        return found.group(1)

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
        return self

    def _serving(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said
        return self.ctl("status", check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(60)

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, str(ROOT / "run.py"), "ctl", "--data", str(self.data), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, f"ctl {arguments}: {done.stdout}{done.stderr}"
        return done

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
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def pid(self, process: str) -> int:
        """Of the engine, control, or `up` itself, as its lock file has it."""
        return int((self.data / f"{process}.lock").read_text())

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
