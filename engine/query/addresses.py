"""Addresses that a registered query may not name: link-local ones.

Machines in a cloud find their own credentials at such an address, without a password. Whoever may register a query is not
thereby to speak to whatever answers there. Names are looked at when they are resolved, not only when they are written.
"""

from __future__ import annotations

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_link_local(text: str) -> bool:
    """Whether a numeric address, in whatever way it is written, is or carries a link-local one. A name is not."""
    return any(_is_link_local(address) for address in resolved(text, numeric=True))


def resolved(host: str, *, numeric: bool = False) -> list[Address]:
    """The addresses of a host; with `numeric` only of one that is written as an address. None where there are none."""
    flags = socket.AI_NUMERICHOST if numeric else 0
    try:
        found = socket.getaddrinfo(
            host.strip().strip("[]"), None, type=socket.SOCK_STREAM, flags=flags
        )
    except (OSError, UnicodeError, ValueError):
        return []
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def _is_link_local(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_link_local
    carried = address.ipv4_mapped or address.sixtofour
    if carried is None and address in _NAT64:
        carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.is_link_local or (carried is not None and carried.is_link_local)
