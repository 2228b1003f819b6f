"""The client's command about join orders: better ones with what they gain, or one by every strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.ctl_base import QUERY, Ctl, Verb, option
from app.ctl_show import many, pairs, seconds, share, size, table


def orders(ctl: Ctl) -> int:
    order = ctl.arguments.order
    path = f"/queries/{ctl.query}/orders"
    answer = ctl.client.get(path, order=order) if order else ctl.client.get(path)
    return ctl.put(answer, lambda: "\n\n".join(_one(answer) if order else _listed(answer)))


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    items = answer["items"]
    if items:
        header = ("join order", ">rows/s in between", ">state", ">CPU/s", "by", ">takes", ">pause",
                  ">gain", ">cost", ">sure", "")  # fmt: skip
        yield table(header, [_running(answer["running"], items[0]), *map(_order, items)])
    if answer["text"]:
        yield str(answer["text"])
    elif items:
        yield f'ctl propose migrate --order "{items[0]["join_order"]}"'


def _running(order: str, one: Mapping[str, Any]) -> tuple[Any, ...]:
    return (f"{order} (runs)", *load(one["before"]), *[""] * 7)


def _order(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return (one["join_order"], *load(one["after"]), one["strategy"] or "–", *_offer(one))


def load(told: Mapping[str, Any]) -> tuple[str, str, str]:
    """What an order takes: rows in between, state, CPU."""
    return many(told["between_per_s"]), size(told["state_bytes"]), f"{told['cpu_s']:.3f} s"


def _offer(one: Mapping[str, Any]) -> tuple[str, ...]:
    """What a strategy takes and gains; an order that nobody can go to has none of it."""
    if "gain_row_s" not in one:
        return (*["–"] * 5, one["verdict"])
    gain, cost = (f"{many(one[name])} row·s" for name in ("gain_row_s", "cost_row_s"))
    said = one.get("verdict") or one["hindrance"]
    about = seconds(one["duration_s"], "for ever"), seconds(one["pause_s"])
    return (*about, gain, cost, share(one["chance"]), said)


def _one(answer: Mapping[str, Any]) -> Iterator[str]:
    (found,) = answer["items"]
    yield migration(found)
    header = ("by", ">takes", ">pause", ">gain", ">cost", ">sure", "")
    rows = [
        (f"{name} (best)" if name == found["recommended"] else name, *_offer(one))
        for name, one in found["strategies"].items()
    ]
    yield table(header, rows)
    yield str(found["text"])


def migration(found: Mapping[str, Any]) -> str:
    """Both orders, and what becomes of state."""
    before, after = load(found["before"]), load(found["after"])
    names = ("rows/s in between", "state", "CPU/s")
    fates = (f"{count} {name.replace('_', ' ')}" for name, count in found["state"].items())
    return pairs(
        {
            "join order": f"{found['join_order']} ({found['shape']})",
            **{name: f"{a} → {b}" for name, a, b in zip(names, before, after, strict=True)},
            "states": ", ".join(fates),
        }
    )


VERBS = (
    Verb(
        "orders", "better join orders, by gain", orders,
        (QUERY, option("--order", metavar="ORDER", help='any other: such as "((a c) b)"')),
    ),
)  # fmt: skip
