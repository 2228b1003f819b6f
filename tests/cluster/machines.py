"""A standalone Spark cluster from PySpark's own jars: a master and workers, each a process of ours.

Hosts are told apart by address: several in 127.0.0.0/8, or one network namespace each (nets.py).
Everything started here is ended by pid.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyspark

SPARK = Path(pyspark.__file__).parent
DRIVER = Path(__file__).with_name("driver.py")
ROOT = Path(__file__).resolve().parents[2]
START_MOST_S = 90.0
DEFAULTS = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.executor.memory 512m
spark.executor.cores 1
spark.worker.timeout 12
spark.executor.heartbeatInterval 2s
spark.network.timeout 15s
spark.network.timeoutInterval 3s
spark.rpc.askTimeout 15s
spark.shuffle.io.maxRetries 2
spark.shuffle.io.retryWait 1s
spark.deploy.maxExecutorRetries -1
"""


@dataclass(frozen=True)
class Host:
    """Where a process runs: an address, and what goes before its command."""

    address: str
    enter: tuple[str, ...] = ()


LOOPBACK = tuple(Host(f"127.0.0.{n}") for n in (1, 11, 12, 13))


@dataclass
class Cluster:
    """Master and driver on the first host, a worker on each of the others."""

    root: Path
    hosts: Sequence[Host] = LOOPBACK
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    dead: list[int] = field(default_factory=list)  # sessions to end, their leaders gone or not
    port: int = 0

    @property
    def master(self) -> str:
        return f"spark://{self.hosts[0].address}:{self.port}"

    def start(self) -> None:
        conf = self.root / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(DEFAULTS.format(secret=secrets.token_hex(16)))
        (conf / "spark-defaults.conf").chmod(0o600)
        self.port = free_port()
        host = self.hosts[0]
        self._spawn(
            "master",
            host,
            [
                "org.apache.spark.deploy.master.Master",
                "--host",
                host.address,
                "--port",
                str(self.port),
                "--webui-port",
                "0",
            ],
        )
        self.wait_log("master", "I have been elected leader")
        for number in range(1, len(self.hosts)):
            self.start_worker(number)
        for number in range(1, len(self.hosts)):
            self.wait_log(f"worker{number}", "Successfully registered with master")

    def start_worker(self, number: int) -> None:
        host = self.hosts[number]
        self._spawn(
            f"worker{number}",
            host,
            [
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                host.address,
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "700m",
                "--work-dir",
                str(self.root / f"work{number}"),
                self.master,
            ],
        )

    def _spawn(self, name: str, host: Host, command: list[str]) -> None:
        env = self.environment(host) | {"SPARK_DAEMON_MEMORY": "200m"}
        env.pop("PYTHONPATH")  # workers have the engine from the driver, or not at all
        self.processes[name] = self._popen(
            name, host, [str(SPARK / "bin" / "spark-class"), *command], env
        )

    def environment(self, host: Host) -> dict[str, str]:
        drop = ("SPARK_LOCAL_HOSTNAME", "SPARK_MASTER_HOST")
        env = {name: value for name, value in os.environ.items() if name not in drop}
        return env | {
            "SPARK_HOME": str(SPARK),
            "SPARK_CONF_DIR": str(self.root / "conf"),
            "SPARK_LOCAL_IP": host.address,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
        }

    def _popen(
        self, name: str, host: Host, command: list[str], env: dict[str, str]
    ) -> subprocess.Popen[str]:
        log = (self.root / f"{name}.log").open("a")
        with log:
            return subprocess.Popen(
                [*host.enter, *command],
                env=env,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def wait_log(self, name: str, text: str) -> None:
        path = self.root / f"{name}.log"
        wait_until(lambda: text in path.read_text(), f"{text!r} in {path}", START_MOST_S)

    def executors(self, number: int) -> list[psutil.Process]:
        """The executors that a worker started."""
        try:
            worker = psutil.Process(self.processes[f"worker{number}"].pid)
            return [
                p
                for p in worker.children(recursive=True)
                if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline())
            ]
        except psutil.NoSuchProcess:
            return []

    def kill(self, name: str) -> None:
        """SIGKILL for a master or worker and nothing else: its executors are to notice."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(30)
        self.dead.append(process.pid)

    def end(self) -> None:
        """End all that was started, with what it started."""
        sessions = {*self.dead, *(p.pid for p in self.processes.values())}
        left = [p for p in psutil.process_iter() if _session(p.pid) in sessions]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=30)
        for process in self.processes.values():
            process.wait(30)


class Driver:
    """A query on the cluster, in a process of its own; `ticks` grows as it tells of them, and with `watch` (it then
    runs until `interrupt`) `vitals` as it tells which nodes are alive."""

    def __init__(
        self,
        cluster: Cluster,
        query: Path,
        master: str | None = None,
        script: Path | None = None,
        *,
        watch: bool = False,
    ) -> None:
        host = cluster.hosts[0]
        self.ticks: list[dict[str, Any]] = []
        self.vitals: list[dict[str, Any]] = []
        self._vitals_seen = 0
        self.done: dict[str, Any] | None = None
        self.errors = (cluster.root / "driver.err").open("w+")
        command = [sys.executable, str(DRIVER), str(query), master or cluster.master]
        self.process = subprocess.Popen(
            [*host.enter, *command, *(["--watch"] if watch else [str(script)] if script else [])],
            env=cluster.environment(host),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )
        cluster.dead.append(self.process.pid)  # if the test forgets it, the cluster does not
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                told = json.loads(line)
                if "done" in told:
                    self.done = told["done"]
                elif "alive" in told:
                    self.vitals.append(told)
                else:
                    self.ticks.append(told)

    def wait_ticks(self, count: int, most_s: float = 180.0) -> None:
        wait_until(
            lambda: len(self.ticks) >= count or self.process.poll() is not None,
            f"{count} ticks",
            most_s,
        )
        assert len(self.ticks) >= count, self.said()

    def wait_vitals(
        self, wanted: Callable[[list[bool]], bool], most_s: float = 120.0
    ) -> dict[str, Any]:
        """The next word of which nodes are alive that is what is wanted; of what was told, nothing is missed."""

        def found() -> bool:
            while self._vitals_seen < len(self.vitals):
                self._vitals_seen += 1
                if wanted(self.vitals[self._vitals_seen - 1]["alive"]):
                    return True
            return self.process.poll() is not None

        wait_until(found, "vitals", most_s)
        assert self.process.poll() is None, self.said()
        return self.vitals[self._vitals_seen - 1]

    def rows_in(self) -> int:
        return sum(tick["rows_in"] for tick in self.ticks)

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def finish(self, most_s: float = 240.0) -> dict[str, Any]:
        """Its summary, once it has ended well."""
        try:
            code = self.process.wait(most_s)
        finally:
            self.kill()
        self._reader.join(30)
        assert code == 0 and self.done is not None, self.said()
        return self.done

    def kill(self) -> None:
        """SIGKILL, with its JVM: they are one process to a user."""
        left = [p for p in psutil.process_iter() if _session(p.pid) == self.process.pid]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=30)
        self.process.wait(30)

    def pause(self, seconds: float) -> None:
        """Time for Spark's own clocks; less if the driver ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def said(self) -> str:
        self.errors.seek(0)
        return f"exit {self.process.poll()}, {len(self.ticks)} ticks: {self.errors.read()[-3000:]}"

    def at_home(self) -> tuple[int, int]:
        """Node tasks that found all of their state where they ran, and all node tasks."""
        tasks = [fetched for tick in self.ticks for executor, fetched in tick["nodes"] if executor]
        return sum(fetched == 0 for fetched in tasks), len(tasks)


@contextmanager
def lone(root: Path) -> Iterator[Cluster]:
    """No cluster: for a driver that brings its own."""
    (root / "conf").mkdir()
    cluster = Cluster(root)
    try:
        yield cluster
    finally:
        cluster.end()


@contextmanager
def standalone(root: Path, hosts: Sequence[Host] = LOOPBACK) -> Iterator[Cluster]:
    """A cluster for the length of a test."""
    root.mkdir()
    cluster = Cluster(root, hosts)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(ready: Callable[[], bool], what: str, most_s: float) -> None:
    end = time.monotonic() + most_s
    while not ready():
        assert time.monotonic() < end, f"no {what} within {most_s} s"
        time.sleep(0.05)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return -1
