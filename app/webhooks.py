"""Delivering events: https to addresses that anybody may reach, or http to allowed ports of this machine; no
redirects; only to the address that was checked; signed; again and again with growing delays, and then no more.
Called by the control process.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.errors import AddressError
from control.ledger import Delivery, Webhook
from control.ports import Store

TIMEOUT_S = 5.0
TOTAL_S = 15.0
DELAYS_S = (10.0, 60.0, 300.0, 1_800.0, 7_200.0, 21_600.0)  # then it is given up
AT_ONCE = 20
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
NOTE_MAX = 300
# Of IPv6 what is routed to everybody, without what tunnels to an IPv4 address (Teredo, 6to4) or is for examples.
GLOBAL = ipaddress.ip_network("2000::/3")
NOT_GLOBAL = tuple(
    map(ipaddress.ip_network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
)
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address for networks that have only IPv6
RELAYS = ipaddress.ip_network("192.88.99.0/24")
Resolve = Callable[[str, int], Sequence[str]]
Send = Callable[["Target", str, bytes, Mapping[str, str]], int]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook's URL leads."""

    https: bool
    host: str
    port: int
    path: str
    loopback: bool  # meant for this machine: its URL says so itself

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.https else 80) else f"{name}:{self.port}"


def target_of(url: str) -> Target:
    """A URL's parts; AddressError when it is not one that may be called."""
    try:
        split = urlsplit(url)
        port, host = split.port, (split.hostname or "").lower()
    except ValueError as error:
        raise AddressError(f"not an address: {error}") from None
    if split.scheme not in ("https", "http") or not host:
        raise AddressError("not an address of https", hint="https://host/path")
    if split.username is not None or split.password is not None:
        raise AddressError("an address has no user or password in it")
    if any(ord(c) <= 32 or ord(c) == 127 for c in url) or not url.isascii():
        raise AddressError("an address has no spaces or special letters")
    loopback = host in LOOPBACK_NAMES
    if split.scheme == "http" and not loopback:
        raise AddressError("http is for this machine only", hint="Use https.")
    https = split.scheme == "https"
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    return Target(https, host, port or (443 if https else 80), path, loopback)


def check_port(target: Target, ports: Collection[int]) -> None:
    """AddressError for a port of this machine that nobody has allowed: other services trust whoever comes from here."""
    if target.loopback and target.port not in ports:
        hint = f"Allow it with the setting webhook_ports, for example --set webhook_ports={target.port}."
        raise AddressError(f"port {target.port} of this machine is not allowed", hint=hint)


def unallowed(hooks: Sequence[Webhook], ports: Collection[int]) -> Iterator[str]:
    """What to say of webhooks that go on although their port of this machine is not allowed."""
    for hook in hooks:
        with suppress(AddressError):
            target = target_of(hook.url)
            if hook.exempt and target.loopback and target.port not in ports:
                yield (
                    f"webhook {hook.id} goes to port {target.port} of this machine, which webhook_ports does not "
                    "allow; it is from before that setting and goes on: allow the port, or drop the webhook"
                )


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is routed to everybody, whatever form it is written in."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and address not in RELAYS
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in GLOBAL and not any(address in net for net in NOT_GLOBAL)


def checked_address(target: Target, found: Sequence[str]) -> str:
    """The first address; none of them may be inside, or all but the checked one would be tried in vain."""
    if not found:
        raise AddressError(f"{target.host} has no address")
    for text in found:
        address = ipaddress.ip_address(text.partition("%")[0])
        if target.loopback and not address.is_loopback:
            raise AddressError(f"{target.host} is not this machine: {text}")
        if not target.loopback and not is_public(address):
            raise AddressError(f"{target.host} leads to an inner address: {text}")
    return found[0]


def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a name."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressError(f"{host} cannot be resolved: {error}") from None
    return list(dict.fromkeys(str(item[4][0]) for item in found))


def send(target: Target, address: str, body: bytes, headers: Mapping[str, str]) -> int:
    """One POST to the checked address; the status, redirects too: nobody follows them. The certificate must
    be the host's."""
    connection = http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT_S)
    connection.sock = _line(target, address)
    late = threading.Timer(TOTAL_S, connection.sock.shutdown, (socket.SHUT_RDWR,))
    late.daemon = True
    late.start()  # an answer that comes byte by byte never runs into the socket's own limit
    try:
        connection.request("POST", target.path, body, {"Host": target.host_header, **headers})
        return connection.getresponse().status
    finally:
        late.cancel()
        connection.close()


def _line(target: Target, address: str) -> socket.socket:
    plain = socket.create_connection((address, target.port), timeout=TIMEOUT_S)
    if not target.https:
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)
    except BaseException:
        plain.close()
        raise


def signature(secret: str, time_s: int, body: bytes) -> str:
    """HMAC-SHA256 over `<timestamp>.<body>`: a receiver checks both, so that nothing is sent it twice."""
    signed = hmac.new(secret.encode(), f"{time_s}.".encode() + body, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"


def headers_of(hook: Webhook, delivery: Delivery, body: bytes, now_s: float) -> dict[str, str]:
    time_s = int(now_s)
    return {
        "Content-Type": "application/json",
        "User-Agent": "spillway-webhook",
        "X-Spillway-Event": delivery.event,
        "X-Spillway-Delivery": str(delivery.id),
        "X-Spillway-Timestamp": str(time_s),
        "X-Spillway-Signature": signature(hook.secret, time_s, body),
    }


class Deliveries:
    """`deliver(now_s)` sends what is due. Stateless but for its store."""

    def __init__(
        self,
        store: Store,
        ports: Collection[int] = (),
        *,
        resolve: Resolve = resolve,
        send: Send = send,
    ) -> None:
        self._store, self._ports, self._resolve, self._send = store, ports, resolve, send

    def deliver(self, now_s: float) -> int:
        """How many arrived."""
        return sum(
            self._one(hook, delivery, now_s)
            for hook, delivery in self._store.webhooks.due(now_s, AT_ONCE)
        )

    def _one(self, hook: Webhook, delivery: Delivery, now_s: float) -> bool:
        said = self._try(hook, delivery, now_s)
        if said == "":
            self._store.webhooks.tried(delivery.id, state="delivered", next_s=now_s, note="")
            return True
        over = delivery.tries >= len(DELAYS_S)
        self._store.webhooks.tried(
            delivery.id,
            state="given_up" if over else "waiting",
            next_s=now_s if over else now_s + DELAYS_S[delivery.tries],
            note=said[:NOTE_MAX],
        )
        return False

    def _try(self, hook: Webhook, delivery: Delivery, now_s: float) -> str:
        """What went wrong; empty when nothing did."""
        told = {
            "event": delivery.event,
            "delivery": delivery.id,
            "created_s": delivery.created_s,
            "body": dict(delivery.body),
        }
        body = json.dumps(told, ensure_ascii=False).encode()
        try:
            target = target_of(hook.url)
            if not hook.exempt:
                check_port(target, self._ports)
            address = checked_address(target, self._resolve(target.host, target.port))
            status = self._send(target, address, body, headers_of(hook, delivery, body, now_s))
        except (AddressError, OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        return "" if 200 <= status < 300 else f"answered {status}"
