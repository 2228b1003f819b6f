"""Webhooks: where they may lead, that they are signed, tried again and given up; against a real receiver."""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AddressError
from app.webhooks import (
    DELAYS_S,
    Deliveries,
    checked_address,
    send,
    signature,
    target_of,
    unallowed,
)
from control.ledger import Webhook
from db.open import open_store
from db.upgrade import upgrade
from tests.app.made import Console
from tests.before import unpack

INNER = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "::1",
    "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "224.0.0.1",
    "100.64.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1", "192.0.2.1", "198.18.0.1",
    "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    "fec0::1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::", "2001::a9fe:a9fe", "2001:db8::1", "ff02::1", "3fff::1",
    "100::1", "fd00:ec2::254", "4000::1",
]  # fmt: skip


@contextmanager
def receiver(
    status: int = 200, headers: dict[str, str] | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """Its URL, and what came: path, headers, body."""
    came: list[Any] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.path, dict(self.headers), body))
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()
            thread.join()


def hook(console: Console, url: str, events: Sequence[str] = ("alert.raised",)) -> Webhook:
    made = Webhook(
        f"w{len(console.store.webhooks.all())}",
        url,
        "s3cret",
        tuple(events),
        "ada",
        console.clock(),
    )
    console.store.webhooks.add(made)
    return made


def deliveries(console: Console) -> Deliveries:
    """With the ports of this machine allowed that the hooks go to."""
    ports = {target_of(hook.url).port for hook in console.store.webhooks.all()}
    return Deliveries(console.store, ports)


def state_of(console: Console) -> list[Any]:
    """What is due at any time."""
    return console.store.webhooks.due(1e12)


def test_an_event_arrives_signed(console: Console) -> None:
    with receiver() as (url, came):
        made = hook(console, f"{url}/path?x=1")
        body = {"kind": "full", "subject": "q/0"}
        assert console.store.webhooks.post("alert.raised", body, console.clock()) == 1
        assert console.store.webhooks.post("action.ended", {}, console.clock()) == 0  # not wanted
        assert deliveries(console).deliver(console.clock()) == 1
    path, headers, raw = came[0]
    assert path == "/path?x=1"
    assert json.loads(raw)["body"] == body
    assert json.loads(raw)["event"] == headers["X-Spillway-Event"] == "alert.raised"
    told_s = int(headers["X-Spillway-Timestamp"])
    assert told_s == int(console.clock())
    mine = hmac.new(made.secret.encode(), f"{told_s}.".encode() + raw, hashlib.sha256).hexdigest()
    assert headers["X-Spillway-Signature"] == f"sha256={mine}"
    assert not state_of(console)


def test_trying_again_with_growing_delays_and_then_no_more(console: Console) -> None:
    with receiver(status=500) as (url, came):
        hook(console, url)
        console.store.webhooks.post("alert.raised", {}, console.clock())
        waits = []
        for _ in range(20):
            deliveries(console).deliver(console.clock())
            due = state_of(console)
            if not due:
                break
            wait_s = due[0][1].next_s - console.clock()
            assert due[0][1].note == "answered 500"
            assert deliveries(console).deliver(console.clock()) == 0  # not yet
            assert not console.store.webhooks.due(console.clock() + wait_s - 1)
            waits.append(wait_s)
            console.clock.pause(wait_s)
    assert waits == list(DELAYS_S)
    assert len(came) == len(DELAYS_S) + 1


def test_redirects_are_not_followed(console: Console) -> None:
    with receiver(302, {"Location": "http://127.0.0.1:1/"}) as (url, came):
        hook(console, url)
        console.store.webhooks.post("alert.raised", {}, console.clock())
        assert deliveries(console).deliver(console.clock()) == 0
    assert len(came) == 1
    assert state_of(console)[0][1].note == "answered 302"


def test_nobody_there_is_noted(console: Console) -> None:
    hook(console, "http://127.0.0.1:9/")
    console.store.webhooks.post("alert.raised", {}, console.clock())
    assert deliveries(console).deliver(console.clock()) == 0
    assert "refused" in state_of(console)[0][1].note


@pytest.mark.parametrize("address", INNER)
def test_inner_addresses_are_not_connected_to(console: Console, address: str) -> None:
    def never(*_: Any) -> int:
        raise AssertionError("it was connected to")

    hook(console, "https://hook.example/")
    console.store.webhooks.post("alert.raised", {}, console.clock())
    sender = Deliveries(console.store, resolve=lambda *_: [address], send=never)
    assert sender.deliver(console.clock()) == 0
    assert "inner address" in state_of(console)[0][1].note


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34", "2a00::1"]
)
def test_public_addresses_are_connected_to(address: str) -> None:
    assert checked_address(target_of("https://hook.example/"), [address]) == address


def test_a_port_of_this_machine_has_to_be_allowed(console: Console) -> None:
    allowing = console.again(webhook_ports=frozenset({9_000}))
    for port, status in ((9_000, 200), (9_001, 422), (22, 422), (80, 422)):
        for host in ("http://127.0.0.1", "http://localhost", "http://[::1]", "https://localhost"):
            body = {"url": f"{host}:{port}/hook", "events": ["alert.raised"]}
            answer = allowing.post("/webhooks", body)
            assert answer.status_code == status, (body, answer.text)
            if status == 422:
                assert "webhook_ports" in answer.get_json()["detail"]
    allowing.store.close()


def test_a_port_that_is_allowed_no_longer_is_not_connected_to(console: Console) -> None:
    with receiver() as (url, came):
        hook(console, url)
        console.store.webhooks.post("alert.raised", {}, console.clock())
        assert Deliveries(console.store).deliver(console.clock()) == 0
    assert not came
    assert "is not allowed" in state_of(console)[0][1].note


def test_a_webhook_of_before_goes_on_and_says_so(console: Console, tmp_path: Path) -> None:
    before = unpack(tmp_path / "before")
    upgrade(before.data)
    store = open_store(before.data)
    (old,) = store.webhooks.all()
    port = target_of(old.url).port
    assert old.exempt and target_of(old.url).loopback
    store.webhooks.post(old.events[0], {}, 1e10)
    sent: list[Any] = []
    Deliveries(
        store, resolve=lambda *_: ["127.0.0.1"], send=lambda *given: sent.append(given) or 200
    ).deliver(1e10)
    assert [one[0].port for one in sent] == [port]
    said = list(unallowed([old], frozenset()))
    assert len(said) == 1 and f"port {port} of this machine" in said[0]
    assert not list(unallowed([old], frozenset({port})))
    store.close()


def test_one_inner_address_among_others_is_enough(console: Console) -> None:
    target = target_of("https://hook.example/")
    with pytest.raises(AddressError):
        checked_address(target, ["93.184.216.34", "10.0.0.1"])
    assert checked_address(target, ["93.184.216.34"]) == "93.184.216.34"
    with pytest.raises(AddressError):
        checked_address(target, [])


def test_what_is_connected_to_is_what_was_checked(console: Console) -> None:
    """A name that leads elsewhere when asked a second time (DNS rebinding) changes nothing."""
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    used: list[str] = []

    def sent(target: Any, address: str, *_: Any) -> int:
        used.append(address)
        return 200

    hook(console, "https://hook.example/")
    console.store.webhooks.post("alert.raised", {}, console.clock())
    Deliveries(console.store, resolve=lambda *_: answers.pop(0), send=sent).deliver(console.clock())
    assert used == ["93.184.216.34"]
    assert len(answers) == 1


def test_loopback_only_when_the_url_says_so() -> None:
    target = target_of("http://localhost:8000/")
    assert checked_address(target, ["127.0.0.1"]) == "127.0.0.1"
    with pytest.raises(AddressError):
        checked_address(target, ["93.184.216.34"])


def test_a_name_that_cannot_be_resolved(console: Console) -> None:
    hook(console, "https://no-such-name.invalid/")
    console.store.webhooks.post("alert.raised", {}, console.clock())
    assert deliveries(console).deliver(console.clock()) == 0
    assert "cannot be resolved" in state_of(console)[0][1].note


def test_one_bad_hook_does_not_keep_others_waiting(console: Console) -> None:
    with receiver() as (url, came):
        hook(console, "http://127.0.0.1:9/")
        hook(console, url)
        console.store.webhooks.post("alert.raised", {}, console.clock())
        assert deliveries(console).deliver(console.clock()) == 1
    assert len(came) == 1


@given(st.text(max_size=80))
def test_urls_are_taken_or_refused_never_anything_else(url: str) -> None:
    for wanted in (url, f"https://{url}", f"https://hook.example/{url}"):
        try:
            target = target_of(wanted)
        except AddressError:
            continue
        assert target.https or target.loopback
        assert target.host
        assert "\r" not in target.path
        assert "\n" not in target.path


@given(st.binary(), st.binary(), st.integers(0, 2**40))
def test_a_signature_is_of_time_and_body(one: bytes, other: bytes, time_s: int) -> None:
    same = signature("k", time_s, one) == signature("k", time_s, other)
    assert same == (one == other)
    assert signature("k", time_s, one) != signature("k", time_s + 1, one)
    assert signature("k", time_s, one) != signature("j", time_s, one)


def test_an_answer_that_never_ends_is_cut(monkeypatch: Any) -> None:
    import socket

    import app.webhooks as module

    monkeypatch.setattr(module, "TOTAL_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as slow:
        ended = threading.Event()

        def drip() -> None:
            line, _ = slow.accept()
            with line:
                while not ended.wait(0.05):
                    try:
                        line.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        port = slow.getsockname()[1]
        try:
            with pytest.raises((OSError, module.http.client.HTTPException)):
                send(target_of(f"http://127.0.0.1:{port}/"), "127.0.0.1", b"{}", {})
        finally:
            ended.set()
            thread.join()
