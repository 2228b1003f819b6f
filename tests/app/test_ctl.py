"""The client over real HTTP: a console behind waitress, its store, and an engine played by the test."""

from __future__ import annotations

import argparse
import http.server
import io
import json
import shlex
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import ctl, ctl_secret, ctl_show
from app.ctl_http import Client, Place, find_place
from app.errors import ClientError, PortError, UnreachableError
from app.server import make_app, serve
from control.actions import Action, from_json, to_json
from control.dispatch import Dispatcher
from control.ledger import ActionRow, Evaluation
from control.people import Role
from control.plans import plan_from_json
from db.secrets import FOLDER, SecretFolder
from tests.app.asking import RULE, joined
from tests.app.made import QUERY, Console, action_row, begin, heard, with_query
from tests.control.migration.outlooks import NEW, OLD
from tests.inside import inside


@dataclass
class Engine:
    """Takes one command, and does one step of its action each time that somebody waits."""

    console: Console
    refuses: str = ""
    ends_as: str = "done"
    action: Action | None = None

    def __call__(self) -> None:
        store, now_s = self.console.store, self.console.clock()
        if self.action is None:
            for command in store.commands.take(now_s):
                self._begin(command, now_s)
        elif self.action.following is not None:
            self.action = self.action.begin(now_s).end(now_s + 0.1, 1_000_000)
            self._keep(now_s)
        elif not self.action.over:
            self.action = self.action.finish(now_s)
            self._keep(now_s)

    def _begin(self, command: Any, now_s: float) -> None:
        store = self.console.store
        if self.refuses or command.kind != "apply":
            told = {"text": self.refuses, "refusals": [{"why": "x", "text": self.refuses}]}
            store.commands.end(command.id, "refused" if self.refuses else "done", told, now_s)
            return
        step = plan_from_json(command.body["plan"]).steps[0]
        action = Action.propose("act1", command.query, step).accept(now_s)
        self.action = (
            action.begin(now_s).fail(now_s, "broken") if self.ends_as == "failed" else action
        )
        self._keep(now_s)
        told = {"text": "begun", "actions": ["act1"]}
        store.commands.end(command.id, "done", told, now_s)

    def _keep(self, now_s: float) -> None:
        action = self.action
        assert action is not None
        row = ActionRow(
            action.id, action.query, to_json(action), "ada", action.state.value, now_s,
            now_s if action.over else None, action.bytes,
        )  # fmt: skip
        self.console.store.actions.keep([row])


@dataclass
class Desk:
    """Somebody at the command line of the machine that the console runs on."""

    console: Console
    url: str
    folder: Path
    waits: list[Callable[[], None]] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        self.console.clock.pause(seconds)
        for wait in self.waits:
            wait()

    def run(self, line: str, *, role: Role | None = None) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        top = argparse.ArgumentParser()
        ctl.add_parser(top.add_subparsers())
        words = ["ctl", *shlex.split(line)]
        if role is not None:
            words[1:1] = ["--url", self.url, "--token", self.console.token(role)]
        out, err = io.StringIO(), io.StringIO()
        code = ctl.run(
            top.parse_args(words), self.folder, out=out, err=err, clock=self.console.clock,
            pause=self.pause,
        )  # fmt: skip
        return code, out.getvalue(), err.getvalue()

    def ok(self, line: str) -> str:
        code, out, err = self.run(line)
        assert code == 0, f"{line}: {out}{err}"
        return out

    def json(self, line: str) -> Any:
        return json.loads(self.ok(f"{line} --json"))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    console = begin(tmp_path)
    with_query(console)
    made = Desk(console, "", tmp_path)
    settings, secrets = replace(console.settings, threads=4), SecretFolder(tmp_path / FOLDER)
    console.app = make_app(
        console.store, Dispatcher(console.store, console.clock, keeper=secrets), settings, console.clock,
        passwords=console.passwords, pause=made.pause, secrets=secrets,
    )  # fmt: skip
    stop, ready, told = threading.Event(), threading.Event(), []
    thread = threading.Thread(
        target=serve, args=(console.app, 0, stop, lambda url: (told.append(url), ready.set()))
    )
    thread.start()
    assert ready.wait(60)
    made.url = told[0]
    place = {"url": made.url, "token": console.token(Role.ADMIN)}
    (tmp_path / "ctl.json").write_text(json.dumps(place))
    yield made
    stop.set()
    thread.join(60)
    console.store.close()
    assert not thread.is_alive()


# -- reading -----------------------------------------------------------------------------------------


def test_status_queries_nodes_groups(desk: Desk) -> None:
    text = desk.ok("status")
    assert "engine" in text
    assert QUERY in text
    assert "no alerts" in text
    assert QUERY in desk.ok("queries")
    nodes = desk.ok("nodes")
    assert "42.0 MB" in nodes
    assert len(nodes.splitlines()) == 4
    assert len(desk.ok("groups --most 10").splitlines()) == 11
    on_disk = desk.json("groups --tier disk")["items"]
    assert [group["group"] for group in on_disk] == [21]
    assert desk.json(f"nodes --query {QUERY}")["items"][0]["groups"] == 8


def test_series_menu_and_ledgers(desk: Desk) -> None:
    assert "tick_s" in desk.ok("series --figures tick_s,lag_s --last 60s")
    assert "memory_bytes" in desk.ok("series --nodes")
    menu = desk.ok("menu")
    assert "nothing" in menu
    assert "row·s" in menu
    for line in ("actions", "proposals", "rules", "alerts", "alerts --all", "audit", "users", "commands",
                 "learning", "budget", "token list", "webhook list"):  # fmt: skip
        desk.ok(line)
    assert json.loads(desk.ok("get /session"))["user"] == "ada"


def test_export(desk: Desk, tmp_path: Path) -> None:
    assert desk.ok("export nodes").startswith("time_s,node,")
    desk.ok(f"export operators --out {tmp_path / 'o.csv'}")
    assert (tmp_path / "o.csv").read_text().startswith("time_s,operator,node")
    code, _, err = desk.run(f"export actions --out {tmp_path / 'none' / 'a.csv'}")
    assert code == 2
    assert "cannot be written" in err


# -- the whole story of an action --------------------------------------------------------------------


def test_propose_show_apply_and_follow(desk: Desk) -> None:
    engine = Engine(desk.console)
    desk.waits.append(engine)
    text = desk.ok("propose spill --node 0 --percent 30")
    id = text.rsplit(" ", 1)[1].strip()
    assert "memory" in text
    assert "row·s" in text
    shown = desk.ok(f"show {id}")
    assert shown.splitlines()[0].split() == ["proposal", id]
    assert "chosen: asked for: spill (percent 30)" in shown
    said = desk.ok(f"apply {id} --wait")
    assert engine.action is not None
    names = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert names == ["ChooseGroups", "WriteDisk", "Commit", "DropMemory"]
    assert "action act1 done" in said
    assert "DropMemory" in desk.ok("action act1")
    assert "spill" in desk.ok("actions")
    assert desk.json("action act1")["state"] == "done"
    row = desk.console.store.actions.find("act1")
    streams = [{"stream": "p", "rows_before": 65_996, "rows_in": 274, "rows_after": 66_270}]
    receipt = {"ok": True, "streams": streams, "groups": [["join", 1]]}
    desk.console.store.actions.keep([replace(row, receipt=receipt)])
    assert "66270" in desk.ok("action act1").splitlines()[-1]


def test_what_the_engine_refuses_is_told(desk: Desk) -> None:
    desk.waits.append(Engine(desk.console, refuses="node 1 is in a transfer"))
    id = desk.json("propose spill --node 0 --percent 30")["id"]
    code, _, err = desk.run(f"apply {id} --wait")
    assert code == 1
    assert "refused: refused: node 1 is in a transfer" in err


def test_an_action_that_fails_is_an_exit_code_of_one(desk: Desk) -> None:
    desk.waits.append(Engine(desk.console, ends_as="failed"))
    id = desk.json("propose spill --node 0 --percent 30")["id"]
    code, out, _ = desk.run(f"apply {id} --wait")
    assert code == 1
    assert "failed: broken" in out


def test_an_engine_that_does_not_answer_is_told(desk: Desk) -> None:
    id = desk.json("propose spill --node 0 --percent 30")["id"]
    code, _, err = desk.run(f"apply {id} --wait --timeout 30")
    assert code == 2
    assert "still queued" in err


def test_from_the_menu(desk: Desk) -> None:
    entries = desk.json("menu")["items"]
    rank = next(entry["rank"] for entry in entries if entry["step"])
    made = desk.json(f"propose --menu {rank}")
    assert desk.json(f"show {made['id']}")["state"] == "open"
    assert desk.ok(f"dismiss {made['id']}").startswith("dismissed")
    assert desk.run("propose --menu 99")[0] == 2


def test_join_orders_are_looked_at_and_proposed(desk: Desk) -> None:
    assert "not known yet" in desk.ok("orders")
    code, _, err = desk.run("propose migrate")
    assert code == 1 and "not known yet" in err
    joined(desk.console, OLD)
    best = desk.json("orders")["items"][0]
    said = desk.ok("orders").splitlines()
    assert said[1].startswith("(((a b) c) d) (runs)") and said[2].startswith(best["join_order"])
    assert said[-1] == f'ctl propose migrate --order "{best["join_order"]}"'
    priced = desk.ok('orders --order "((a b) (c d))"')
    assert "((a b) (c d)) (bushy)" in priced and "(best)" in priced
    for name in best["strategies"]:
        assert name in priced
    made = desk.ok("propose migrate")
    assert f"{best['join_order']} ({best['shape']})" in made and "recomputed" in made
    id = made.rsplit(" ", 1)[1].strip()
    (step,) = desk.json(f"show {id}")["plan"]["steps"]
    assert (step["order"], step["strategy"]) == (best["join_order"], best["strategy"])
    named = desk.json("propose migrate --strategy moving")
    (step,) = desk.json(f"show {named['id']}")["plan"]["steps"]
    assert step["strategy"] == "moving"
    joined(desk.console, NEW)
    assert "the best other order is" in desk.ok("orders") or "no other order" in desk.ok("orders")
    code, _, err = desk.run("propose migrate")
    assert code == 1 and "order" in err


def test_refusals_come_with_their_numbers(desk: Desk) -> None:
    code, _, err = desk.run("propose spill --node 9 --percent 30")
    assert code == 1
    assert "no node 9 (9, limit 2)" in err
    code, _, err = desk.run("cancel none")
    assert code == 2
    assert "there is no action 'none'" in err
    desk.console.store.actions.keep([action_row("done1", desk.console.clock())])
    code, _, err = desk.run("cancel done1")
    assert code == 1
    assert "cannot be cancelled" in err


def test_drain_and_nodes(desk: Desk) -> None:
    assert "move" in desk.ok("drain 2")
    assert "starts again" in desk.ok("node add")
    command = desk.json("commands")["items"][0]
    assert command["body"] == {"nodes": 4}
    desk.ok("node set 2")


# -- rules, queries, workload, upkeep ----------------------------------------------------------------


def test_rules(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "rule.toml"
    file.write_text(RULE)
    assert desk.ok(f"rule save {file}").startswith("saved")
    assert "relocate" in desk.ok("rules")
    assert desk.ok("rule show balance").strip() == RULE.strip()
    desk.ok("rule mode balance auto")
    why = desk.ok("rule why balance")
    assert f"on {QUERY}" in why
    desk.console.store.rules.evaluated(
        Evaluation("balance", QUERY, 1.0, 2.0, 3, "nothing", {"why": "memory is balanced"})
    )
    assert "memory is balanced" in desk.ok("rule log balance")
    desk.ok("hold --for 30m")
    assert "hold" in desk.ok("rule why balance")
    assert "on hold until" in desk.ok("status")
    desk.ok("release")
    desk.ok("rule drop balance")
    file.write_text("name = 3")
    assert desk.run(f"rule save {file}")[0] == 2
    assert desk.run("rule save none.toml")[0] == 2


def test_backtest(desk: Desk, tmp_path: Path) -> None:
    for _ in range(5):
        desk.console.clock.pause(61)
        heard(desk.console)
    file = tmp_path / "rule.toml"
    file.write_text(RULE)
    text = desk.ok(f"backtest --file {file} --last 1h")
    assert "snapshots" in text
    assert "gain (model)" in text
    desk.ok(f"rule save {file}")
    assert desk.json("backtest balance")["snapshots"] > 0
    assert desk.run("backtest")[0] == 2


def test_queries_and_workload(desk: Desk) -> None:
    assert desk.ok("query pause").startswith("pausing")
    assert desk.ok(f"query resume {QUERY}").startswith("going on")
    assert desk.ok("query stop").startswith("stopping")
    assert f'name = "{QUERY}"' in desk.ok("query show")
    desk.ok("query start")
    assert desk.run(f"query unregister {QUERY}")[0] == 1  # it runs
    desk.ok("workload set --stream trades rate=5000 skew=0.5")
    desk.ok("workload set --slow 1=0.01")
    bodies = [c["body"] for c in desk.json("commands")["items"] if c["kind"] == "workload"]
    assert bodies == [
        {"slow": {"1": 0.01}},
        {"stream": "trades", "options": {"rate": 5000, "skew": 0.5}},
    ]
    assert desk.run("workload set")[0] == 2


def test_alerts_tokens_webhooks_budget(desk: Desk) -> None:
    desk.console.store.alerts.raised("lag", QUERY, "behind", desk.console.clock())
    id = desk.json("alerts")["items"][0]["id"]
    desk.ok(f"alert ack {id}")
    desk.ok(f"alert silence {id} --for 2h")
    assert "ada" in desk.ok("alerts")
    desk.console.token(Role.VIEWER)
    id = desk.console.store.tokens.of("vic")[0].id
    assert id not in desk.ok("token list")
    assert "vic" in next(line for line in desk.ok("token list --all").splitlines() if id in line)
    assert desk.ok(f"token revoke {id}").startswith("revoked: test of vic")
    assert "revoked" in next(
        line for line in desk.ok("token list --all").splitlines() if id in line
    )
    hook = desk.json("webhook add https://hook.example/ alert.raised")
    assert "hook.example" in desk.ok("webhook list")
    desk.ok(f"webhook drop {hook['id']}")
    fresh = desk.ok("budget")
    assert "0 B of 100.0 GB" in fresh and "of 10 min" in fresh  # what is enforced, set or not
    desk.ok("budget --bytes 5GB --pause 10m")
    assert desk.json("budget")["bytes"] == 5_000_000_000


# -- what can go wrong -------------------------------------------------------------------------------


def test_roles(desk: Desk) -> None:
    code, _, err = desk.run("hold", role=Role.VIEWER)
    assert code == 1
    assert "needs the role operator" in err


def test_a_token_is_read_from_a_file_or_the_environment(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command line is seen by every process; the old flag works, and says so."""
    token, file = desk.console.token(Role.VIEWER), desk.folder / "token"
    file.write_text(token + "\n")
    at = f"--url {desk.url}"
    for flag, said in ((f"--token-file {file}", ""), (f"--token {token}", "--token-file")):
        code, out, err = desk.run(f"{at} {flag} get /session")
        assert (code, '"vic"' in out) == (0, True), err
        assert said in err
        assert bool(err) == bool(said)
        assert token not in err
    monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
    assert '"vic"' in desk.run(f"{at} --token-file - get /session")[1]
    monkeypatch.setenv("SPILLWAY_TOKEN", token)
    assert '"vic"' in desk.run(f"{at} get /session")[1]
    for text in ("", "two words"):
        file.write_text(text)
        code, _, err = desk.run(f"{at} --token-file {file} get /session")
        assert code == 2
        assert "no token in it" in err
    assert desk.run(f"{at} --token-file {desk.folder}/none get /session")[0] == 2


def test_a_token_that_is_not_valid(desk: Desk) -> None:
    (desk.folder / "ctl.json").write_text(json.dumps({"url": desk.url, "token": "wrong"}))
    code, _, err = desk.run("status")
    assert code == 2
    assert "token is not valid" in err


def test_nobody_answers(desk: Desk) -> None:
    (desk.folder / "ctl.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "token": "x"}))
    code, _, err = desk.run("status")
    assert code == 2
    assert "no console answers" in err


def test_no_console_is_known(desk: Desk) -> None:
    (desk.folder / "ctl.json").unlink()
    code, _, err = desk.run("status")
    assert code == 2
    assert "run.py up" in err
    (desk.folder / "ctl.json").write_text("{")
    assert desk.run("status")[0] == 2


def test_the_kept_token_goes_to_no_other_address(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("SPILLWAY_URL", raising=False)
    monkeypatch.delenv("SPILLWAY_TOKEN", raising=False)
    (tmp_path / "ctl.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}))
    with pytest.raises(ClientError, match="no token is known"):
        find_place(tmp_path, "http://evil.example", None)
    assert find_place(tmp_path, "http://127.0.0.1:1/", None).token == "t"
    assert find_place(tmp_path, "http://evil.example", "own").token == "own"


def test_several_queries_need_a_name(desk: Desk) -> None:
    with_query(desk.console, "second")
    code, _, err = desk.run("nodes")
    assert code == 2
    assert "market, second" in err
    desk.ok("nodes --query second")


def test_redirects_are_not_followed() -> None:
    """A token would go with them."""
    seen: list[str] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with pytest.raises(UnreachableError, match="answered 302"):
                Client(Place(f"http://127.0.0.1:{server.server_port}", "t")).get("/queries")
        finally:
            server.shutdown()
            thread.join()
    assert seen == ["/api/v1/queries"]


def test_a_port_in_use_is_said(desk: Desk) -> None:
    port = int(desk.url.rsplit(":", 1)[1])
    with pytest.raises(PortError, match=f"port {port} cannot be listened on"):
        serve(desk.console.app, port, threading.Event())


# -- writing and reading figures ---------------------------------------------------------------------


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), min_size=1))
def test_tables_have_a_line_for_each_row_whatever_is_in_them(rows: list[list[str]]) -> None:
    text = ctl_show.table(("a", ">b"), rows)
    assert len(text.split("\n")) == len(rows) + 1
    assert all(c.isprintable() or c == "\n" for c in text)


@given(st.floats(0, 1e15))
def test_sizes_read_back(count: float) -> None:
    shown = ctl_show.size(count)
    if not shown.endswith("TB") or count < 1e14:
        assert abs(ctl_show.read_size(shown) - count) <= max(0.06 * count, 1)


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500_000_000), ("2GiB", 2 << 30), ("10", 10), ("1.5k", 1_500), ("3 mb", 3_000_000)],
)
def test_sizes(text: str, size: int) -> None:
    assert ctl_show.read_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "5XB", "-5", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        ctl_show.read_size(text)


def test_times_and_groups() -> None:
    assert ctl_show.read_span("90") == 90
    assert ctl_show.read_span("30m") == 1_800
    assert ctl_show.read_groups("3,7,10-12") == [3, 7, 10, 11, 12]
    for text in ("5-3", "x", "", "1-"):
        with pytest.raises(argparse.ArgumentTypeError):
            ctl_show.read_groups(text)
    assert ctl_show.seconds(0.5) == "0.5 s"
    assert ctl_show.seconds(5_400) == "90 min"
    assert ctl_show.clock(0.0) == "1970-01-01 00:00:00"
    assert from_json(action_row("a", 0.0).body).over


def test_secrets_come_from_stdin_or_a_prompt_and_never_from_the_command_line(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no secrets" in desk.ok("secret list")
    monkeypatch.setattr("sys.stdin", io.StringIO("two words\nand a line\n"))
    assert desk.ok("secret set kafka").startswith("kept")
    assert SecretFolder(desk.folder / FOLDER).value("kafka") == "two words\nand a line"
    out = desk.ok("secret list") + json.dumps(desk.json("secret list"))
    assert "kafka" in out and "two words" not in out
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert desk.run("secret set kafka")[0] == 2
    with pytest.raises(SystemExit):
        desk.run("secret set kafka hunter2")
    assert desk.ok("secret drop kafka").startswith("dropped")
    assert desk.run("secret drop kafka")[0] == 2
    assert SecretFolder(desk.folder / FOLDER).names() == []


def test_a_secret_typed_at_a_terminal_is_asked_for_twice() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    typed = iter(["two words", "two words", "one", "other"])
    assert ctl_secret.given("kafka", Terminal(), lambda _: next(typed)) == "two words"
    with pytest.raises(ClientError, match="the two values differ"):
        ctl_secret.given("kafka", Terminal(), lambda _: next(typed))


def test_an_option_of_a_verb_is_not_taken_for_one_of_ctl(tmp_path: Path) -> None:
    """A move's --to begins like --token and --token-file."""
    done = inside("ctl", "--data", tmp_path, "propose", "move", "--node", "0", "--to", "1")
    assert "ambiguous" not in done.stderr
    assert "no console" in done.stderr or "ctl.json" in done.stderr, done.stderr
