"""Test hosts as network namespaces: one each, joined by a bridge in another, and no way out.

Needs root, iproute2 and a kernel that lets us; `unavailable` says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.cluster.machines import Host


def unavailable() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "network namespaces need iproute2 (apt install iproute2)"
    name = f"sw{os.getpid()}try"
    tried = subprocess.run(
        ["ip", "netns", "add", name], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"network namespaces cannot be made here: {tried.stderr.strip()}"
    link = ["ip", "-n", name, "link", "add", "try1", "type", "veth", "peer", "name", "try2"]
    linked = subprocess.run(link, capture_output=True, text=True, check=False)
    bridge = ["ip", "-n", name, "link", "add", "try3", "type", "bridge"]
    bridged = subprocess.run(bridge, capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", name], check=False)
    if linked.returncode or bridged.returncode:
        return (
            f"veth or bridge cannot be made here: {linked.stderr.strip()} {bridged.stderr.strip()}"
        )
    return ""


@dataclass(frozen=True)
class Net:
    """Hosts 0.. in namespaces of their own, with a cable each to the switch."""

    name: str
    hosts: tuple[Host, ...]

    @property
    def switch(self) -> str:
        return f"{self.name}s"

    def cut(self, number: int) -> None:
        """Pull the cable of one host."""
        _ip("-n", self.switch, "link", "set", f"p{number}", "down")

    def restore(self, number: int) -> None:
        _ip("-n", self.switch, "link", "set", f"p{number}", "up")


@contextmanager
def net(hosts: int) -> Iterator[Net]:
    """Namespaces for the length of a test."""
    name = f"sw{os.getpid()}"
    spaces = [f"{name}s", *(f"{name}h{n}" for n in range(hosts))]
    enter = ("ip", "netns", "exec")
    made = Net(
        name, tuple(Host(f"10.213.7.{n + 1}", (*enter, f"{name}h{n}")) for n in range(hosts))
    )
    try:
        for space in spaces:
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", made.switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", made.switch, "link", "set", "bridge", "up")
        for number, host in enumerate(made.hosts):
            _plug(made, number, host)
        yield made
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _plug(made: Net, number: int, host: Host) -> None:
    space = f"{made.name}h{number}"
    _ip(
        "-n",
        made.switch,
        "link",
        "add",
        f"p{number}",
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        space,
    )
    _ip("-n", made.switch, "link", "set", f"p{number}", "master", "bridge", "up")
    _ip("-n", space, "address", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", space, "link", "set", "eth0", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)
