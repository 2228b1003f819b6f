"""The client's commands that only read: status, nodes, groups, queries, series, menu, ledgers, export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.ctl_base import QUERY, Ctl, Verb, option
from app.ctl_http import quoted
from app.ctl_show import clock, many, pairs, read_size, read_span, seconds, share, size, table
from app.errors import ClientError

MOST = option("--most", type=int, default=50, metavar="N", help="lines at most (50)")
LAST = option("--last", type=read_span, default=3_600.0, metavar="TIME", help="how far back (1h)")


def status(ctl: Ctl) -> int:
    """Processes, queries, hold, alerts at a glance."""
    answer = {
        "processes": ctl.client.get("/processes")["items"],
        "queries": ctl.client.get("/queries")["items"],
        "hold": ctl.client.get("/hold"),
        "alerts": ctl.client.get("/alerts", open=True)["items"],
    }
    return ctl.put(answer, lambda: "\n\n".join(_status(answer, ctl.now_s)))


def _status(answer: dict[str, Any], now_s: float) -> Iterator[str]:
    yield table(
        ("process", "state", ">heard of"),
        [
            (p["process"], "stale" if p["stale"] else p["state"], seconds(p["age_s"], "never"))
            for p in answer["processes"]
        ],
    )
    yield _queries(answer["queries"])
    hold = answer["hold"]
    if hold["held"]:
        yield f"automation is on hold until {clock(hold['until_s'], now_s)}, by {hold['by']}"
    yield _alerts(answer["alerts"], now_s) if answer["alerts"] else "no alerts"


def queries(ctl: Ctl) -> int:
    answer = ctl.client.get("/queries")
    return ctl.put(answer, lambda: _queries(answer["items"]))


def _queries(items: list[Any]) -> str:
    return table(
        ("query", "state", "wanted", ">nodes", ">since", "error"),
        [
            (q["name"], q["state"], q["wanted"], q["nodes"], seconds(q["age_s"]), q["error"])
            for q in items
        ],
        "no query is registered",
    )


def nodes(ctl: Ctl) -> int:
    answer = ctl.client.get(f"/queries/{ctl.query}/nodes")
    header = (">node", ">memory", ">of budget", ">budget", ">held", ">disk", ">rows/s in",
              ">rows/s out", ">busy", ">groups", ">on disk", ">full in")  # fmt: skip
    return ctl.table(answer, header, map(_node, answer["items"]))


def _node(node: dict[str, Any]) -> tuple[Any, ...]:
    budget = node["budget_bytes"]
    return (
        node["node"] if node["alive"] else f"{node['node']} (gone)",
        size(node["memory_bytes"]),
        share(node["memory_bytes"] / budget if budget else None),
        size(budget),
        size(node["held_bytes"]),
        size(node["disk_bytes"]),
        many(node["rows_in_per_s"]),
        many(node["rows_out_per_s"]),
        share(node["busy"]),
        node["groups"],
        node["groups_on_disk"],
        seconds(node["full_in_s"]),
    )


def groups(ctl: Ctl) -> int:
    given = ctl.arguments
    items = ctl.client.every(
        f"/queries/{ctl.query}/groups",
        given.most,
        node=given.node,
        operator=given.operator,
        tier=given.tier,
        sort=given.sort,
        ascending=given.ascending or None,
    )
    header = ("operator", ">group", ">node", "tier", ">memory", ">disk", ">rows/s in",
              ">rows/s out", ">results owed")  # fmt: skip
    rows = (
        (
            g["operator"], g["group"], g["node"], g["tier"] + (" in flight" if g["in_flight"] else ""),
            size(g["memory_bytes"]), size(g["disk_bytes"]), many(g["rows_in_per_s"]),
            many(g["rows_out_per_s"]), many(g["owed_rows"]),
        )
        for g in items
    )  # fmt: skip
    return ctl.table({"items": items}, header, rows)


def series(ctl: Ctl) -> int:
    """Figures over time: a line for each time."""
    given = ctl.arguments
    figures = given.figures.split(",") if given.figures else None
    path = f"/queries/{ctl.query}/series" + ("/nodes" if given.nodes else "")
    until_s = ctl.now_s
    answer = ctl.client.get(
        path, since_s=until_s - given.last, points=given.points, figures=figures
    )
    names = list(answer["values"])
    header = ["time", *(f">{name}" for name in names)]
    rows = (
        (clock(time_s, until_s), *(_figure(name, answer["values"][name][at]) for name in names))
        for at, time_s in enumerate(answer["time_s"])
    )
    return ctl.table(answer, header, rows, "nothing is recorded of that time")


def _figure(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_figure(name, one) for one in value)
    if name.endswith("_bytes"):
        return size(value) if value is not None else "–"
    return seconds(value) if name.endswith("_s") and "_per_" not in name else many(value)


def menu(ctl: Ctl) -> int:
    answer = ctl.client.get(f"/queries/{ctl.query}/menu")
    header = (">rank", "do", ">gain", ">cost", ">sure", ">bytes", "what")
    rows = (
        (
            entry["rank"],
            entry["do"],
            f"{many(entry['gain_row_s'])} row·s",
            f"{many(entry['cost_row_s'])} row·s",
            share(entry.get("chance")),
            size(entry["bytes"]) if entry.get("bytes") is not None else "–",
            "; ".join(str(entry[part]) for part in ("text", "verdict") if entry.get(part)),
        )
        for entry in answer["items"]
    )
    return ctl.table(answer, header, rows)


def alerts(ctl: Ctl) -> int:
    given = ctl.arguments
    items = (
        ctl.client.every("/alerts", given.most)
        if given.all
        else ctl.client.get("/alerts", open=True)["items"]
    )
    return ctl.put({"items": items}, lambda: _alerts(items, ctl.now_s))


def _alerts(items: list[Any], now_s: float) -> str:
    return table(
        (">id", "alert", "subject", "since", "until", "seen by", "text"),
        [
            (a["id"], a["kind"], a["subject"], clock(a["since_s"], now_s),
             clock(a["until_s"], now_s) if a["until_s"] else "lasts", a["acknowledged_by"], a["text"])
            for a in items
        ],
        "no alerts",
    )  # fmt: skip


def audit(ctl: Ctl) -> int:
    given = ctl.arguments
    items = ctl.client.every(
        "/audit", given.most, user=given.user, what=given.what, subject=given.subject
    )
    rows = (
        (clock(a["time_s"], ctl.now_s), a["user"], f"{a['source']} {a['token']}".strip(), a["what"],
         a["subject"], a["outcome"], a["detail"])
        for a in items
    )  # fmt: skip
    header = ("time", "user", "by", "what", "subject", "outcome", "detail")
    return ctl.table({"items": items}, header, rows)


def users(ctl: Ctl) -> int:
    answer = ctl.client.get("/users")
    rows = (
        (u["name"], u["role"], "disabled" if u["disabled"] else "", clock(u["seen_s"], ctl.now_s))
        for u in answer["items"]
    )
    return ctl.table(answer, ("user", "role", "", "last seen"), rows)


def commands(ctl: Ctl) -> int:
    if ctl.arguments.id:
        one = ctl.client.get(f"/commands/{quoted(ctl.arguments.id)}", wait=ctl.arguments.wait)
        return ctl.put(one, lambda: pairs({**one, "body": "…" if one["body"] else ""}))
    items = ctl.client.every("/commands", ctl.arguments.most)
    rows = (
        (c["id"], clock(c["created_s"], ctl.now_s), c["kind"], c["query"], c["user"], c["state"],
         c["outcome"].get("text", ""))
        for c in items
    )  # fmt: skip
    header = ("command", "time", "kind", "query", "user", "state", "outcome")
    return ctl.table({"items": items}, header, rows)


def learning(ctl: Ctl) -> int:
    items = ctl.client.every("/learning", ctl.arguments.most)
    rows = (
        (clock(line["time_s"], ctl.now_s), line["action"], line["figure"], f"{line['predicted']:.4g}",
         f"{line['actual']:.4g}", line["coefficient"], f"{line['before']:.4g}", f"{line['after']:.4g}")
        for line in items
    )  # fmt: skip
    header = (
        "time",
        "action",
        "figure",
        ">predicted",
        ">actual",
        "coefficient",
        ">before",
        ">after",
    )
    return ctl.table({"items": items}, header, rows)


def budget(ctl: Ctl) -> int:
    """What the day may take and took; with figures: what it may take from now on."""
    given = {"bytes": ctl.arguments.bytes, "pause_s": ctl.arguments.pause}
    if body := {name: value for name, value in given.items() if value is not None}:
        return ctl.done(ctl.client.post("/budget", body))
    answer = ctl.client.get("/budget")
    used = answer["used"]
    return ctl.put(
        answer,
        lambda: pairs(
            {
                "bytes of 24 h": f"{size(used['bytes'])} of {size(answer['bytes'])}",
                "of these by rules": size(used["automatic_bytes"]),
                "pause of 24 h": f"{seconds(used['pause_s'])} of {seconds(answer['pause_s'])}",
            }
        ),
    )


def export(ctl: Ctl) -> int:
    """CSV to stdout or to a file."""
    given = ctl.arguments
    if given.what == "actions":
        text = ctl.client.text("/export/actions.csv")
    else:
        params = {} if given.what == "operators" else {"since_s": ctl.now_s - given.last}
        text = ctl.client.text(f"/queries/{ctl.query}/export/{given.what}.csv", **params)
    if given.out is None:
        ctl.out.write(text)
        return 0
    try:
        given.out.write_bytes(text.encode("utf-8"))
    except OSError as error:
        raise ClientError(f"cannot be written: {error.strerror}", where=str(given.out)) from None
    ctl.say(f"{given.out}: {text.count(chr(10)) - 1} lines")
    return 0


def get(ctl: Ctl) -> int:
    """Any address of the API, as it answers."""
    path = ctl.arguments.path
    answer = ctl.client.get(path if path.startswith("/") else f"/{path}")
    return ctl.put(answer, lambda: _indented(answer))


def _indented(answer: Any) -> str:

    return json.dumps(answer, indent=2, ensure_ascii=False)


TIERS = ("memory", "disk", "both", "none")
SORTS = ("group", "memory_bytes", "disk_bytes", "rows_in_per_s", "rows_out_per_s", "productivity")
VERBS = (
    Verb("status", "processes, queries, hold, alerts", status),
    Verb("queries", "registered queries", queries),
    Verb("nodes", "each node: memory, budget, disk, rates", nodes, (QUERY,)),
    Verb(
        "groups", "partition groups: where, how large, how productive", groups,
        (
            QUERY, MOST,
            option("--node", type=int, metavar="N"),
            option("--operator", metavar="NAME"),
            option("--tier", choices=TIERS),
            option("--sort", choices=SORTS, help="largest first"),
            option("--ascending", action="store_true", help="smallest first"),
        ),
    ),
    Verb(
        "series", "figures over time", series,
        (
            QUERY, LAST,
            option("--nodes", action="store_true", help="of each node"),
            option("--figures", metavar="A,B", help="which; some without"),
            option("--points", type=int, default=30, metavar="N", help="lines at most (30)"),
        ),
    ),
    Verb("menu", "what would help now, by gain", menu, (QUERY,)),
    Verb("alerts", "what is not as it should be", alerts,
         (MOST, option("--all", action="store_true", help="also those that ended"))),
    Verb(
        "audit", "who did or was refused what", audit,
        (MOST, option("--user"), option("--what"), option("--subject")),
    ),
    Verb("users", "users and their roles", users),
    Verb(
        "commands", "what the engine was told, or one of these", commands,
        (
            MOST, option("id", nargs="?", metavar="ID"),
            option("--wait", type=float, metavar="S", help="for its end, 20 s at most"),
        ),
    ),
    Verb("learning", "predicted against actual", learning, (MOST,)),
    Verb(
        "budget", "what 24 hours may take, and took", budget,
        (
            option("--bytes", type=read_size, metavar="SIZE", help="set it (admins)"),
            option("--pause", type=read_span, metavar="TIME", help="set it (admins)"),
        ),
    ),
    Verb(
        "export", "statistics as CSV", export,
        (
            option("what", choices=("query", "nodes", "operators", "actions")), QUERY, LAST,
            option("--out", type=Path, metavar="FILE", help="instead of stdout"),
        ),
    ),
    Verb("get", "any address of the API, as it answers", get, (option("path", metavar="PATH"),)),
)  # fmt: skip
