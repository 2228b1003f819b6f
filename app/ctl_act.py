"""The client's commands about plans and actions: propose, show, apply, follow, cancel, undo, drain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.ctl_base import QUERY, Ctl, Verb, option
from app.ctl_http import RefusedError, quoted
from app.ctl_orders import migration
from app.ctl_read import MOST
from app.ctl_show import clock, many, pairs, read_groups, read_size, seconds, share, size, table
from app.errors import ClientError

WAIT_S = 20.0
LOOK_S = 0.5
FOLLOW_S = 900.0
LINES_MAX = 40
KINDS = ("move", "spill", "cleanup", "budget", "migrate")


def propose(ctl: Ctl) -> int:
    """A proposal, and its preview."""
    given = ctl.arguments
    if given.menu is not None:
        if given.do:
            raise ClientError("--menu takes what the menu says: leave the rest out")
        return _previewed(ctl, _from_menu(ctl, given.menu))
    if given.do is None or (given.node is None and given.do != "migrate"):
        raise ClientError("what is to be proposed?", hint="ctl propose spill --node 2 --percent 30")
    wanted = ("do", "node", "to", "operator", "groups", "percent", "bytes", "order", "strategy")
    body = {name: getattr(given, name) for name in wanted if getattr(given, name) is not None}
    return _previewed(ctl, ctl.client.post(f"/queries/{ctl.query}/proposals", body))


def _from_menu(ctl: Ctl, rank: int) -> Any:
    query = ctl.query
    entries = ctl.client.get(f"/queries/{query}/menu")["items"]
    entry = next((entry for entry in entries if entry["rank"] == rank), None)
    if entry is None or entry.get("step") is None:
        raise ClientError(f"the menu has no {rank} that could be done", hint="ctl menu")
    return ctl.client.post(f"/queries/{query}/proposals/steps", {"steps": [entry["step"]]})


def _previewed(ctl: Ctl, answer: Any) -> int:
    if ctl.json:
        return ctl.put(answer, "")
    ctl.say(_proposal(ctl.client.get(f"/proposals/{quoted(answer['id'])}"), ctl.now_s))
    ctl.say(f"\nctl apply {answer['id']}")
    return 0


def drain(ctl: Ctl) -> int:
    body = {"node": ctl.arguments.node}
    return _previewed(ctl, ctl.client.post(f"/queries/{ctl.query}/drain", body))


def show(ctl: Ctl) -> int:
    answer = ctl.client.get(f"/proposals/{quoted(ctl.arguments.proposal)}")
    return ctl.put(answer, lambda: _proposal(answer, ctl.now_s))


def _proposal(found: dict[str, Any], now_s: float) -> str:
    """What it would do, by step and by node."""
    parts = [pairs(dict(_head(found, now_s)))]
    preview = found["preview"]
    steps = preview.get("steps", [])
    parts.append(
        table(
            ("step", "nodes", ">bytes", ">pause", ">takes", ">put off", ">gain", ">sure"),
            [_step(step) for step in steps],
            "no steps",
        )
    )
    if nodes := preview.get("nodes"):
        parts.append(_before_after(nodes))
    parts += [migration(step["migration"]) for step in steps if step.get("migration")]
    parts.append("\n".join(_reason(*reason) for reason in found["plan"].get("reasons", [])))
    return "\n\n".join(part for part in parts if part)


def _reason(topic: str, text: str, numbers: list[Any]) -> str:
    figures = ", ".join(f"{name} {_shown(value)}" for name, value in numbers)
    return f"{topic}: {text}" + (f" ({figures})" if figures else "")


def _head(found: dict[str, Any], now_s: float) -> Iterator[tuple[str, Any]]:
    whole = found["preview"].get("whole", {})
    yield "proposal", found["id"]
    yield "state", found["state"] + (f": {found['note']}" if found["note"] else "")
    yield "query", found["query"]
    yield "by", f"rule {found['rule']} ({found['user']})" if found["rule"] else found["user"]
    yield "until", clock(found["expires_s"], now_s)
    if found["undo_of"]:
        yield "takes back", found["undo_of"]
    if "gain_row_s" in whole:
        yield (
            "gain (model)",
            f"{many(whole['gain_row_s'])} row·s, sure {share(whole.get('chance'))}",
        )
        yield "cost (model)", f"{many(whole['cost_row_s'])} row·s"
    if whole.get("memory_freed_bytes") is not None:
        yield "frees", size(whole["memory_freed_bytes"])


def _step(step: dict[str, Any]) -> tuple[Any, ...]:
    return (
        step["do"],
        " → ".join(str(node) for node in step.get("nodes", [])),
        size(step.get("bytes", 0)),
        seconds(step.get("pause_s")),
        seconds(step.get("duration_s")),
        f"{many(step.get('owed_rows'))} rows",
        f"{many(step.get('gain_row_s'))} row·s",
        share(step.get("chance")),
    )


def _before_after(nodes: list[dict[str, Any]]) -> str:
    """The nodes that are touched."""
    header = (
        ">node",
        ">memory",
        ">then",
        ">of budget",
        ">then",
        ">disk",
        ">then",
        ">full in",
        ">then",
    )
    rows = []
    for node in nodes:
        was, now = node["before"], node["after"]
        pairs_of = (
            (size, "memory_bytes"),
            (share, "share"),
            (size, "disk_bytes"),
            (seconds, "full_s"),
        )
        rows.append(
            [node["node"], *(show(at[name]) for show, name in pairs_of for at in (was, now))]
        )
    return table(header, rows)


def proposals(ctl: Ctl) -> int:
    items = ctl.client.every(
        "/proposals", ctl.arguments.most, query=ctl.arguments.query, state=ctl.arguments.state
    )
    rows = (
        (p["id"], clock(p["created_s"], ctl.now_s), p["query"], _steps_text(p["plan"]), p["state"],
         p["rule"] or p["user"], p["note"])
        for p in items
    )  # fmt: skip
    header = ("proposal", "time", "query", "what", "state", "by", "note")
    return ctl.table({"items": items}, header, rows)


def _steps_text(plan: dict[str, Any]) -> str:
    said = []
    for step in plan["steps"][:3]:
        if "order" in step:
            said.append(f"{step['do']} {step['order']} by {step['strategy']}")
            continue
        nodes = (
            f"{step['source']} → {step['target']}" if "source" in step else str(step.get("node"))
        )
        said.append(f"{step['do']} {nodes} {size(step['bytes'])}")
    more = len(plan["steps"]) - len(said)
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")


def apply(ctl: Ctl) -> int:
    """Carry it out; with --wait follow its steps until it is over."""
    given = ctl.arguments
    body = {"override": True} if given.override else {}
    answer = ctl.client.post(f"/proposals/{quoted(given.proposal)}/apply", body)
    if not given.wait:
        return ctl.done(answer)
    if not ctl.json:
        ctl.say(f"{answer['text']}  {answer['id']}")
    until_s = ctl.clock() + given.timeout
    told = _command_over(ctl, answer["id"], until_s)
    ids = told["outcome"].get("actions", [])
    if not ids:
        return ctl.put(told, str(told["outcome"].get("text", told["state"])))
    return max(_followed(ctl, id, until_s) for id in ids)


def _command_over(ctl: Ctl, id: str, until_s: float) -> Any:
    """The engine's verdict."""
    while True:
        left = until_s - ctl.clock()
        told = ctl.client.get(f"/commands/{quoted(id)}", wait=max(0.0, min(WAIT_S, left)))
        if told["over"]:
            break
        if left <= 0:
            raise ClientError(
                f"command {id} is still {told['state']}", hint="Is the engine running?"
            )
        ctl.pause(LOOK_S)
    if told["state"] != "done":
        said = [str(r.get("text", r)) for r in told["outcome"].get("refusals", [])]
        text = told["outcome"].get("text") or told["state"]
        raise RefusedError(f"{told['state']}: {text}", hint="\n  ".join(said))
    return told


def _followed(ctl: Ctl, id: str, until_s: float) -> int:
    """Say each step as it ends, until the action is over."""
    said = 0
    while True:
        found = ctl.client.get(f"/actions/{quoted(id)}")
        over = found["state"] in ("done", "rejected", "failed", "cancelled")
        ended = [step for step in found["steps"] if step["end_s"] is not None]
        if not ctl.json:
            for step in ended[said:]:
                took = seconds(step["end_s"] - step["start_s"])
                ctl.say(f"  {step['name']:<26} {took:>8}  {size(step['bytes'])}")
        said = len(ended)
        if over:
            break
        if ctl.clock() > until_s:
            raise ClientError(f"action {id} is still {found['state']}", hint=f"ctl action {id}")
        ctl.pause(LOOK_S)
    note = f": {found['note']}" if found["note"] else ""
    ctl.put(found, f"action {id} {found['state']}{note}")
    return 0 if found["state"] == "done" else 1


def actions(ctl: Ctl) -> int:
    given = ctl.arguments
    items = ctl.client.every("/actions", given.most, query=given.query, state=given.state)
    rows = (
        (a["id"], clock(a["started_s"], ctl.now_s), a["query"], a["do"], _where(a), a["groups"], size(a["bytes"]),
         a["state"], a["rule"] or a["by"], a["note"])
        for a in items
    )  # fmt: skip
    header = (
        "action",
        "begun",
        "query",
        "what",
        "nodes or order",
        ">groups",
        ">bytes",
        "state",
        "by",
        "note",
    )
    return ctl.table({"items": items}, header, rows)


def _by(who: str, rule: str) -> str:
    """The engine notes both together."""
    return f"rule {rule} ({who})" if rule and rule not in who else who


def _where(action: dict[str, Any]) -> str:
    if action["order"]:
        return f"{action['order']} by {action['strategy']}"
    return " → ".join(str(node) for node in action["nodes"])


def action(ctl: Ctl) -> int:
    given = ctl.arguments
    if given.follow:
        return _followed(ctl, given.action, ctl.clock() + FOLLOW_S)
    found = ctl.client.get(f"/actions/{quoted(given.action)}")
    return ctl.put(found, lambda: "\n\n".join(_action(found, ctl.now_s)))


def _action(found: dict[str, Any], now_s: float) -> Iterator[str]:
    yield pairs(
        {
            "action": found["id"],
            "what": f"{found['do']} {_where(found)}",
            "query": found["query"],
            "by": _by(found["by"], found["rule"]),
            "state": found["state"] + (f": {found['note']}" if found["note"] else ""),
            "begun": clock(found["started_s"], now_s),
            "ended": clock(found["ended_s"], now_s),
            "groups": found["groups"],
            "bytes": size(found["bytes"]),
        }
    )
    yield table(
        ("step", "state", ">begun", ">took", ">bytes"),
        [
            (s["name"], s["state"], clock(s["start_s"], now_s),
             seconds(s["end_s"] - s["start_s"] if s["end_s"] is not None else None), size(s["bytes"]))
            for s in found["steps"]
        ],
    )  # fmt: skip
    if compared := _compared(found["predicted"], found["actual"]):
        yield table(("figure", ">predicted", ">actual"), compared)
    yield from _receipt(found["receipt"])


def _receipt(receipt: dict[str, Any]) -> Iterator[str]:
    """Rows before and after, by stream and by place; what is not a table in one line each."""
    tables = {name: value for name, value in receipt.items() if _is_table(value)}
    rest = {name: _short(value) for name, value in receipt.items() if name not in tables}
    if rest:
        yield "receipt\n" + pairs(rest)
    for name, lines in tables.items():
        header = list(dict.fromkeys(key for line in lines for key in line))
        rows = [[_short(line.get(key, "")) for key in header] for line in lines[:LINES_MAX]]
        yield f"receipt, {name}\n" + table(header, rows)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _compared(predicted: dict[str, Any], actual: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Figures that can be measured, as predicted and as they were."""
    before = predicted.get("figures", predicted)
    names = [name for name in {**before, **actual} if _number(before.get(name), actual.get(name))]
    return [(name, _shown(before.get(name)), _shown(actual.get(name))) for name in names]


def _number(*values: Any) -> bool:
    return any(isinstance(value, int | float) for value in values)


def _shown(value: Any) -> str:
    return f"{value:,.4g}".replace(",", " ") if _number(value) else "–"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else text[:99] + "…"


def cancel(ctl: Ctl) -> int:
    return ctl.done(ctl.client.post(f"/actions/{quoted(ctl.arguments.action)}/cancel"))


def undo(ctl: Ctl) -> int:
    return _previewed(ctl, ctl.client.post(f"/actions/{quoted(ctl.arguments.action)}/undo"))


def dismiss(ctl: Ctl) -> int:
    return ctl.done(ctl.client.post(f"/proposals/{quoted(ctl.arguments.proposal)}/dismiss"))


PROPOSAL = option("proposal", metavar="PROPOSAL")
ACTION = option("action", metavar="ACTION")
STATE = option("--state", metavar="STATE")
VERBS = (
    Verb(
        "propose", "a spill, clean-up, move or budget, with its preview", propose,
        (
            option("do", nargs="?", choices=KINDS), QUERY,
            option("--menu", type=int, metavar="RANK", help="what `ctl menu` has at this rank"),
            option("--node", type=int, metavar="N", help="of a move: the sender"),
            option("--to", type=int, metavar="N", help="of a move: the receiver"),
            option("--operator", metavar="NAME"),
            option("--groups", type=read_groups, metavar="LIST", help="such as 3,7,10-14"),
            option("--percent", type=float, metavar="P", help="of the node's state"),
            option("--bytes", type=read_size, metavar="SIZE", help="such as 500MB"),
            option("--order", metavar="ORDER", help='of a migrate: such as "((a c) b)"; without: the best there is'),
            option("--strategy", metavar="NAME", help="of a migrate: such as moving; without: what is recommended"),
        ),
    ),
    Verb("proposals", "proposals, newest first", proposals, (QUERY, MOST, STATE)),
    Verb("show", "a proposal and its preview", show, (PROPOSAL,)),
    Verb(
        "apply", "carry out a proposal exactly as previewed", apply,
        (
            PROPOSAL,
            option("--wait", action="store_true", help="follow its steps until it is over"),
            option("--timeout", type=float, default=FOLLOW_S, metavar="S", help="of --wait (900)"),
            option("--override", action="store_true", help="of the day's budget; admins"),
        ),
    ),
    Verb("dismiss", "drop a proposal", dismiss, (PROPOSAL,)),
    Verb("actions", "what was and is done", actions, (QUERY, MOST, STATE)),
    Verb(
        "action", "one action: steps, predicted and actual, receipt", action,
        (ACTION, option("--follow", action="store_true", help="until it is over")),
    ),
    Verb("cancel", "end an action before its commit", cancel, (ACTION,)),
    Verb("undo", "propose to take an action back", undo, (ACTION,)),
    Verb(
        "drain", "propose to move everything off a node", drain,
        (option("node", type=int, metavar="NODE"), QUERY),
    ),
)  # fmt: skip
