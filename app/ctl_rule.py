"""The client's commands about rules, hold, queries, nodes, workload, alerts, tokens, webhooks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from app.ctl_base import QUERY, Ctl, Verb, option
from app.ctl_http import quoted
from app.ctl_read import MOST
from app.ctl_show import (
    clock,
    many,
    pairs,
    read_span,
    read_value,
    seconds,
    share,
    size,
    table,
)
from app.errors import ClientError

DAY_S = 86_400.0
FIRED_SHOWN = 30
EXEMPT = "its port is not allowed; it is from before and goes on"


def text_of(file: Path) -> str:
    """A file, or stdin for `-`."""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"cannot be read: {error}", where=str(file)) from None


def rules(ctl: Ctl) -> int:
    answer = ctl.client.get("/rules")
    rows = (
        (r["name"], r["mode"], r["rule"].get("policy", {}).get("name", ""), r["rule"].get("query", ""), r["editor"],
         clock(r["last_acted_s"], ctl.now_s), r["error"])
        for r in answer["items"]
    )  # fmt: skip
    header = ("rule", "mode", "policy", "query", "in the name of", "last acted", "error")
    return ctl.table(answer, header, rows, "no rules")


def rule_show(ctl: Ctl) -> int:
    answer = ctl.client.get(f"/rules/{_rule(ctl)}")
    return ctl.put(answer, answer["text"])


def rule_save(ctl: Ctl) -> int:
    return ctl.done(ctl.client.post("/rules", {"text": text_of(ctl.arguments.file)}))


def rule_mode(ctl: Ctl) -> int:
    return ctl.done(ctl.client.post(f"/rules/{_rule(ctl)}/mode", {"mode": ctl.arguments.mode}))


def rule_drop(ctl: Ctl) -> int:
    return ctl.done(ctl.client.delete(f"/rules/{_rule(ctl)}"))


def rule_why(ctl: Ctl) -> int:
    """Everything that keeps the rule from acting now."""
    answer = ctl.client.get(f"/rules/{_rule(ctl)}/interlock", query=ctl.arguments.query)
    return ctl.put(answer, lambda: "\n\n".join(_interlocks(answer, ctl.now_s)) or "no query")


def _interlocks(answer: dict[str, Any], now_s: float) -> Iterator[str]:
    for item in answer["items"]:
        next_s = item["next_eligible_s"]
        yield f"{answer['rule']} ({answer['mode']}) on {item['query']}: " + (
            f"next eligible {clock(next_s, now_s)}" if next_s else "not known when eligible"
        )
        if item["fallback"]:
            yield item["fallback"]
        blockers = item["blockers"]
        yield table(
            ("why", "until", "text"),
            [(b["why"], clock(b["until_s"], now_s), b["text"]) for b in blockers],
            "nothing keeps it from acting",
        )


def rule_log(ctl: Ctl) -> int:
    items = ctl.client.every(f"/rules/{_rule(ctl)}/evaluations", ctl.arguments.most)
    rows = (
        (clock(e["first_s"], ctl.now_s), clock(e["until_s"], ctl.now_s), e["times"], e["query"],
         e["outcome"], _said(e["said"]))
        for e in items
    )  # fmt: skip
    return ctl.table(
        {"items": items}, ("first", "until", ">times", "query", "outcome", "why"), rows
    )


def _said(said: dict[str, Any]) -> str:
    if why := said.get("why"):
        return str(why)
    blockers = [str(blocker["text"]) for blocker in said.get("blockers", [])]
    return "; ".join(blockers or [str(reason[1]) for reason in said.get("reasons", [])])


def backtest(ctl: Ctl) -> int:
    given = ctl.arguments
    if (given.rule is None) == (given.file is None):
        raise ClientError("name a rule, or give its text with --file")
    until_s = ctl.now_s
    body = {"query": _plain_query(ctl), "since_s": until_s - given.last, "until_s": until_s}
    if given.rule is not None:
        answer = ctl.client.post(f"/rules/{quoted(given.rule)}/backtest", body)
    else:
        answer = ctl.client.post("/backtest", {"text": text_of(given.file), **body})
    return ctl.put(answer, lambda: "\n\n".join(_tested(answer)))


def _plain_query(ctl: Ctl) -> str:
    return unquote(ctl.query)


def _tested(answer: dict[str, Any]) -> Iterator[str]:
    churn, benefit, budget = answer["churn"], answer["benefit"], answer["budget"]
    yield pairs(
        {
            "rule": answer["rule"],
            "recorded": f"{clock(answer['from_s'])} to {clock(answer['until_s'])}, "
            f"{answer['snapshots']} snapshots",
            "evaluations": _counts(answer["evaluations"]),
            "blocked by": _counts(answer["blocked"]),
            "firings": f"{answer['firings']} ({_counts(answer['by_kind'])})",
            "bytes": f"{size(churn['bytes'])}, pause {seconds(churn['pause_s'])}",
            "groups": f"{churn['groups']}, more than once {churn['groups_twice']}",
            "most in 24 h": f"{size(budget['daily_bytes_max'])}, "
            f"pause {seconds(budget['daily_pause_s_max'])}",
            "gain (model)": f"{many(benefit['gain_row_s'])} row·s",
            "overflows avoided": benefit["overflows_avoided"],
            **_changed(answer["orders"]),
        }
    )
    names = ("delay_row_s", "peak_memory_share", "overflows", "overflow_bytes", "owed_rows")
    rows = [
        (name, *(_figure(name, benefit[side][name]) for side in ("with", "without")))
        for name in names
    ]
    yield table(("", ">with the rule", ">without"), rows)
    yield table(
        ("time", "what", "nodes or order", ">groups", ">bytes", ">gain"),
        [
            (clock(f["time_s"]), f["do"], f["order"] or " → ".join(map(str, f["nodes"])), f["groups"],
             size(f["bytes"]), f"{many(f['gain_row_s'])} row·s")
            for f in answer["fired"][:FIRED_SHOWN]
        ],
        "it would have done nothing",
    )  # fmt: skip


def _changed(orders: dict[str, Any]) -> dict[str, str]:
    """Of changes of the join order, where there are any: their gain is not in the benefit."""
    if not orders["changes"]:
        return {}
    gain = f"{many(orders['gain_row_s'])} row·s by {orders['changes']} changes"
    return {"join orders (model)": gain, "": orders["text"]}


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"


def _figure(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return size(value)
    return share(value) if name.endswith("_share") else many(value)


def hold(ctl: Ctl) -> int:
    body = {"seconds": ctl.arguments.seconds} if ctl.arguments.seconds else {}
    return ctl.done(ctl.client.post("/hold", body))


def release(ctl: Ctl) -> int:
    return ctl.done(ctl.client.delete("/hold"))


def node_add(ctl: Ctl) -> int:
    """So many more nodes than there are."""
    query = ctl.query
    now = len(ctl.client.get(f"/queries/{query}/nodes")["items"])
    return ctl.done(
        ctl.client.post(f"/queries/{query}/nodes", {"nodes": now + ctl.arguments.count})
    )


def node_set(ctl: Ctl) -> int:
    return ctl.done(ctl.client.post(f"/queries/{ctl.query}/nodes", {"nodes": ctl.arguments.count}))


def query_register(ctl: Ctl) -> int:
    given = ctl.arguments
    body = {"text": text_of(given.file), "start": not given.no_start}
    if given.nodes is not None:
        body["nodes"] = given.nodes
    return ctl.done(ctl.client.post("/queries", body))


def query_show(ctl: Ctl) -> int:
    answer = ctl.client.get(f"/queries/{ctl.query}")
    told = {name: answer[name] for name in ("name", "state", "wanted", "nodes", "demo", "error")}
    return ctl.put(answer, lambda: f"{pairs(told)}\n\n{answer['text']}")


def query_unregister(ctl: Ctl) -> int:
    return ctl.done(ctl.client.delete(f"/queries/{quoted(ctl.arguments.query)}"))


def _lifecycle(verb: str) -> Any:
    def tell(ctl: Ctl) -> int:
        return ctl.done(ctl.client.post(f"/queries/{ctl.query}/{verb}"))

    return tell


def workload_set(ctl: Ctl) -> int:
    given = ctl.arguments
    body: dict[str, Any] = {}
    if given.options:
        body["options"] = dict(given.options)
    if given.stream:
        body["stream"] = given.stream
    if given.slow:
        body["slow"] = dict(given.slow)
    if not body:
        raise ClientError("what is to change?", hint="ctl workload set --stream trades rate=5000")
    return ctl.done(ctl.client.post(f"/queries/{ctl.query}/workload", body))


def alert_ack(ctl: Ctl) -> int:
    return ctl.done(ctl.client.post(f"/alerts/{ctl.arguments.id}/acknowledge"))


def alert_silence(ctl: Ctl) -> int:
    body = {"seconds": ctl.arguments.seconds}
    return ctl.done(ctl.client.post(f"/alerts/{ctl.arguments.id}/silence", body))


def tokens(ctl: Ctl) -> int:
    every = ctl.arguments.all
    answer = ctl.client.get("/tokens/all" if every else "/tokens")
    rows = (
        (t["id"], *((t["user"],) if every else ()), t["name"], t["scope"], clock(t["created_s"], ctl.now_s),
         clock(t["expires_s"], ctl.now_s), clock(t["used_s"], ctl.now_s),
         "revoked" if t["revoked_s"] else "this one" if t["mine_now"] else "")
        for t in answer["items"]
    )  # fmt: skip
    heads = ("token", *(("user",) if every else ()), "name", "scope", "made", "until", "used", "")
    return ctl.table(answer, heads, rows)


def token_revoke(ctl: Ctl) -> int:
    return ctl.done(ctl.client.delete(f"/tokens/{quoted(ctl.arguments.id)}"))


def webhooks(ctl: Ctl) -> int:
    answer = ctl.client.get("/webhooks")
    rows = (
        (w["id"], w["url"], ", ".join(w["events"]), w["user"], EXEMPT if w["exempt"] else "")
        for w in answer["items"]
    )
    return ctl.table(answer, ("webhook", "address", "events", "by", ""), rows)


def webhook_add(ctl: Ctl) -> int:
    body = {"url": ctl.arguments.url, "events": ctl.arguments.events}
    answer = ctl.client.post("/webhooks", body)
    secret = answer["result"].get("secret", "")
    return ctl.put(answer, f"added  {answer['id']}\nsecret, not shown again: {secret}")


def webhook_drop(ctl: Ctl) -> int:
    return ctl.done(ctl.client.delete(f"/webhooks/{quoted(ctl.arguments.id)}"))


def _rule(ctl: Ctl) -> str:
    return quoted(ctl.arguments.rule)


RULE = option("rule", metavar="RULE")
FILE = option("file", type=Path, metavar="FILE", help="TOML; - for stdin")
ID = option("id", metavar="ID")
COUNT = option("count", type=int, metavar="N")
NAMED = option("query", nargs="?", metavar="QUERY", help="not needed when there is one")
LIFE = {"start": "start it", "stop": "end it after the running tick",
        "pause": "halt it, state stays in memory", "resume": "go on after a pause"}  # fmt: skip


def _for(help: str, **how: Any) -> Any:
    return option("--for", dest="seconds", type=read_span, metavar="TIME", help=help, **how)


VERBS = (
    Verb("rules", "every rule", rules),
    Verb("rule show", "a rule's text", rule_show, (RULE,)),
    Verb("rule save", "add or change a rule", rule_save, (FILE,)),
    Verb("rule mode", "off, propose or auto", rule_mode,
         (RULE, option("mode", choices=("off", "propose", "auto")))),
    Verb("rule drop", "remove a rule", rule_drop, (RULE,)),
    Verb("rule why", "what keeps it from acting now", rule_why, (RULE, QUERY)),
    Verb("rule log", "what it came to, and why", rule_log, (RULE, MOST)),
    Verb("backtest", "what a rule would have done on what was recorded", backtest,
         (option("rule", nargs="?", metavar="RULE"), QUERY,
          option("--file", type=Path, metavar="FILE", help="a rule not yet saved"),
          option("--last", type=read_span, default=DAY_S, metavar="TIME", help="how far back (24h)"))),
    Verb("hold", "no new automatic actions", hold, (_for("two hours at most"),)),
    Verb("release", "end the hold", release),
    Verb("node add", "more nodes; the query starts again", node_add,
         (option("count", type=int, nargs="?", default=1, metavar="N"), QUERY)),
    Verb("node set", "so many nodes; the query starts again", node_set, (COUNT, QUERY)),
    Verb("query register", "take in a query file", query_register,
         (FILE, option("--nodes", type=int, metavar="N", help="instead of the file's"),
          option("--no-start", action="store_true", help="do not run it yet"))),
    Verb("query show", "a query and its file", query_show, (NAMED,)),
    Verb("query unregister", "forget a stopped query", query_unregister,
         (option("query", metavar="QUERY"),)),
    *(Verb(f"query {verb}", help, _lifecycle(verb), (NAMED,)) for verb, help in LIFE.items()),
    Verb("workload set", "change a demo query's streams, or make a node slow", workload_set,
         (option("options", nargs="*", type=read_value, metavar="NAME=VALUE"), QUERY,
          option("--stream", metavar="NAME"),
          option("--slow", action="append", type=read_value, metavar="NODE=S",
                 help="seconds more for each row on a node"))),
    Verb("alert ack", "note that somebody looks after it", alert_ack, (option("id", type=int),)),
    Verb("alert silence", "not heard of for a time", alert_silence,
         (option("id", type=int), _for("how long (1h)", default=3_600.0))),
    Verb("token list", "your tokens; new ones are made in the console or by run.py user token", tokens,
         (option("--all", action="store_true", help="everybody's; admins"),)),
    Verb("token revoke", "end a token; admins: anybody's", token_revoke, (ID,)),
    Verb("webhook list", "where events are sent", webhooks),
    Verb("webhook add", "events to an address", webhook_add,
         (option("url", metavar="URL"), option("events", nargs="+", metavar="EVENT"))),
    Verb("webhook drop", "no more events", webhook_drop, (ID,)),
)  # fmt: skip
