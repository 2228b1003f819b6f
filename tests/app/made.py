"""A console over a real store in a folder, with a fake clock; signing in as a browser or with a token."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from argon2 import PasswordHasher
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app import tokens
from app.auth import Passwords
from app.server import make_app
from app.settings import ConsoleSettings
from control.actions import Action, to_json
from control.dispatch import Dispatcher
from control.ledger import ActionRow, QueryRow, Wanted
from control.people import Role, Token, User
from control.plans import Part, Spill
from control.samples import NODE_FIGURES, QUERY_FIGURES, GroupChange, Heartbeat, Sample
from control.snapshot import ClusterSnapshot, Groups, Nodes, Operator
from db.open import Store
from tests.db.template import fresh_store

START_S = 1_790_000_000.0
PASSWORD = "correct horse 9"
QUERY = "market"
MB = 1_000_000
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@dataclass
class Clock:
    """Time that passes only when told to."""

    now_s: float = START_S

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Console:
    """One console process over its store."""

    folder: Path
    store: Any
    app: Flask
    clock: Clock
    settings: ConsoleSettings
    passwords: Passwords
    made_tokens: dict[Role, str] = field(default_factory=dict)

    def browser(self) -> FlaskClient:
        return self.app.test_client()

    def signed_in(self, user: str = "ada", password: str = PASSWORD) -> Browser:
        browser = Browser(self, self.browser())
        assert browser.sign_in(user, password).status_code == 303
        return browser

    def token(self, role: Role = Role.ADMIN, user: str = "", **more: Any) -> str:
        plain, digest = tokens.made()
        owner = user or {Role.ADMIN: "ada", Role.OPERATOR: "olga", Role.VIEWER: "vic"}[role]
        id = f"t{len(plain)}{digest[:12]}"
        self.store.tokens.add(Token(id, owner, "test", digest, role, self.clock(), **more))
        return plain

    def call(
        self, method: str, path: str, role: Role | None = Role.ADMIN, **how: Any
    ) -> TestResponse:
        """By token of that role."""
        headers = dict(how.pop("headers", {}))
        if role is not None:
            kept = self.made_tokens.setdefault(role, "") or self.token(role)
            self.made_tokens[role] = kept
            headers["Authorization"] = f"Bearer {kept}"
        return self.browser().open(path, method=method, headers=headers, **how)

    def get(self, path: str, role: Role | None = Role.ADMIN, **how: Any) -> Any:
        answer = self.call("GET", f"/api/v1{path}", role, **how)
        assert answer.status_code == 200, answer.text
        return answer.get_json()

    def post(self, path: str, body: Any = None, role: Role = Role.ADMIN) -> TestResponse:
        return self.call("POST", f"/api/v1{path}", role, json=body if body is not None else {})

    def again(self, **settings: Any) -> Console:
        """The process has ended, and another begins on the same folder."""
        self.store.close()
        return begin(self.folder, self.clock, **settings)


@dataclass
class Browser:
    """A browser with cookies and, on its pages, the CSRF token."""

    console: Console
    client: FlaskClient

    def form(self, path: str = "/sign-in") -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.client.get(path).text)
        assert found
        return found.group(1)

    def sign_in(self, user: str, password: str, **more: str) -> TestResponse:
        sent = {"user": user, "password": password, "csrf": self.form(), **more}
        return self.client.post("/sign-in", data=sent)

    def cookie(self, what: str) -> str:
        name = f"spillway_{what}_{self.console.settings.port}"
        found = self.client.get_cookie(name) or self.client.get_cookie(f"__Host-{name}")
        return found.value if found else ""

    def send(self, method: str, path: str, body: Any = None) -> TestResponse:
        """To the API, as a page's script does."""
        return self.client.open(
            f"/api/v1{path}", method=method, json={} if body is None else body, headers=self.csrf
        )

    @property
    def csrf(self) -> dict[str, str]:
        return {"X-CSRF-Token": self.cookie("csrf")}


def people(store: Store) -> None:
    """Into a new store: one user of each role."""
    for name, role in (("ada", Role.ADMIN), ("olga", Role.OPERATOR), ("vic", Role.VIEWER)):
        store.users.add(User(name, role, Passwords(CHEAP).hash(PASSWORD), False, START_S))


def begin(folder: Path, clock: Clock | None = None, **settings: Any) -> Console:
    """Users ada (admin), olga (operator), vic (viewer), all with PASSWORD."""

    store, time, passwords = fresh_store(folder, people), clock or Clock(), Passwords(CHEAP)
    told = ConsoleSettings(**settings)
    dispatcher = Dispatcher(store, time, token_s=told.token_s)
    app = make_app(store, dispatcher, told, time, passwords=passwords, pause=time.pause)
    return Console(folder, store, app, time, told, passwords)


def with_query(console: Console, name: str = QUERY, nodes: int = 3, groups: int = 24) -> Sample:
    """A running demo query, and what was last heard of it."""
    now_s = console.clock()
    row = QueryRow(name, f'name = "{name}"\n', "", nodes, Wanted.RUNNING, True, now_s)
    console.store.queries.add(row)
    console.store.queries.told(name, "running", "", {"tree": "join"}, now_s)
    return heard(console, name, nodes, groups)


def heard(console: Console, name: str = QUERY, nodes: int = 3, groups: int = 24) -> Sample:
    """A sample of now, and the engine alive."""
    now_s = console.clock()
    sample = sample_of(picture(name, now_s, nodes, groups), now_s)
    console.store.metrics.write([sample])
    for process in ("engine", "control", "console"):
        beat = Heartbeat(process, 1, now_s, now_s, "running", {"samples_dropped": 3})
        console.store.metrics.beat(beat)
    return sample


def picture(name: str, now_s: float, nodes: int, groups: int) -> ClusterSnapshot:
    """Node 0 has most; the last group of node 0 is on disk."""
    owner = np.arange(groups) % nodes
    memory = np.where(owner == 0, 6 * MB, 2 * MB)
    disk = np.zeros(groups, dtype=np.int64)
    last = int(np.flatnonzero(owner == 0)[-1])
    memory[last], disk[last] = 0, 5 * MB
    used = np.bincount(owner, weights=memory, minlength=nodes)
    columns = Groups.of(
        owner,
        memory,
        disk_bytes=disk,
        generations=(disk > 0).astype(int),
        rows_in=1_000,
        rows_out=np.arange(groups) * 10,
        rows_in_per_s=50.0,
        rows_out_per_s=1.0 + np.arange(groups),
        bytes_per_s=10_000.0,
        owed_rows=(disk > 0) * 500.0,
        last_insert_s=now_s,
    )
    described = Nodes.of(
        [100 * MB] * nodes,
        used,
        disk_bytes=np.bincount(owner, weights=disk, minlength=nodes),
        rows_in_per_s=400.0,
        rows_out_per_s=900.0,
        busy=0.4,
    )
    return ClusterSnapshot(name, 7, now_s, described, (Operator("join", 3, groups),), columns)


def sample_of(snapshot: ClusterSnapshot, now_s: float) -> Sample:
    count = len(snapshot.nodes)
    by_node = {name: np.full(count, 1.0) for name in NODE_FIGURES}
    by_node["memory_bytes"] = snapshot.nodes.memory_bytes.astype(float)
    by_node["budget_bytes"] = snapshot.nodes.budget_bytes.astype(float)
    lines = [{"operator": "join", "node": n, "rows_in": 10, "rows_out": 20} for n in range(count)]
    return Sample(
        snapshot.query,
        now_s,
        snapshot.version,
        dict.fromkeys(QUERY_FIGURES, 2.0),
        by_node,
        snapshot,
        lines,
        (GroupChange("join", 0, 0, "memory"),),
    )


def action_row(id: str, now_s: float, *, over: bool = True, query: str = QUERY) -> ActionRow:
    """A spill of two groups of node 1; not over: at its second step."""
    step = Spill((Part("join", (1, 4)),), 1, 4 * MB)
    action = Action.propose(id, query, step).accept(now_s)
    if over:
        while action.following is not None:
            action = action.begin(now_s).end(now_s + 1, 4 * MB)
        action = action.finish(now_s + 2)
    else:
        action = action.begin(now_s).end(now_s + 1, 0).begin(now_s + 1)
    return ActionRow(
        id, query, to_json(action), "ada", action.state.value, now_s, now_s + 2 if over else None,
        4 * MB, predicted={"pause_s": 0.5}, actual={"pause_s": 0.4, "seconds": 2.0},
        receipt={"equal": True},
    )  # fmt: skip
