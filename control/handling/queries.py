"""Queries: registering, starting, pausing, stopping, another number of nodes, a demo's workload."""

from __future__ import annotations

from collections.abc import Mapping

from control.handling.base import Handler, Ports, query_of, told
from control.kinds import Answer, Asked, Status
from control.ledger import QueryRow, Wanted
from control.redaction import places_in_file

NODES_MAX = 1_000
PLACES_MAX = 6
LIVE = frozenset({"starting", "running", "pausing", "paused", "resuming", "stopping"})


def register(ports: Ports, asked: Asked) -> Answer:
    """Take in a query file; what it names is checked against allow-lists before anything is kept."""
    if ports.check is None:
        return Answer(Status.REFUSED, "queries cannot be registered from here")
    name, about = ports.check(asked.body["text"])
    nodes = asked.body.get("nodes")
    if nodes is not None and not 1 <= nodes <= NODES_MAX:
        return Answer(Status.INVALID, f"nodes must be from 1 to {NODES_MAX}")
    if ports.store.queries.find(name) is not None:
        return Answer(Status.CONFLICT, f"there is a query {name!r} already")
    wanted = Wanted.RUNNING if asked.body.get("start", True) else Wanted.STOPPED
    row = QueryRow(name, asked.body["text"], "", nodes, wanted, False, asked.now_s, about=about)
    ports.store.queries.add(row)
    told(ports, asked, "query.register", {"start": wanted is Wanted.RUNNING}, name)
    return Answer(Status.ACCEPTED, _registered(asked.body["text"]), name, about)


def _registered(text: str) -> str:
    """Passwords in a file work, and stay in the store and its backups; there is a better place for them."""
    if not (places := places_in_file(text)):
        return "registered"
    return f"registered; passwords stand in its file ({', '.join(places[:PLACES_MAX])}): better keep them as secrets and write {{secret:NAME}}"


def unregister(ports: Ports, asked: Asked) -> Answer:
    """Forget a query that does not run; its state and results stay on disk."""
    row = query_of(ports, asked)
    if isinstance(row, Answer):
        return row
    if row.state in LIVE:
        return Answer(Status.REFUSED, f"query {row.name} is {row.state}: stop it first")
    ports.store.queries.drop(row.name)
    command = told(ports, asked, "query.unregister", {})
    return Answer(Status.ACCEPTED, "forgotten; its state and results stay", command)


def _wanted(wanted: Wanted, text: str) -> Handler:
    def handler(ports: Ports, asked: Asked) -> Answer:
        row = query_of(ports, asked)
        if isinstance(row, Answer):
            return row
        if row.wanted is Wanted.STOPPED and asked.kind in ("query.pause", "query.resume"):
            return Answer(Status.REFUSED, f"query {row.name} is stopped: start it first")
        ports.store.queries.want(row.name, wanted)
        return Answer(Status.ACCEPTED, text, told(ports, asked, asked.kind, {}))

    return handler


def nodes(ports: Ports, asked: Asked) -> Answer:
    """Another number of nodes: the query stops after its tick, and starts with its state spread anew."""
    row = query_of(ports, asked)
    if isinstance(row, Answer):
        return row
    count = asked.body["nodes"]
    if not 1 <= count <= NODES_MAX:
        return Answer(Status.INVALID, f"nodes must be from 1 to {NODES_MAX}")
    ports.store.queries.set_nodes(row.name, count)
    ports.store.kept.put(f"drained:{row.name}", None)
    command = told(ports, asked, "nodes", {"nodes": count})
    return Answer(Status.ACCEPTED, "the query starts again with its state spread anew", command)


def workload(ports: Ports, asked: Asked) -> Answer:
    """Options of a generated stream, or nodes made slow: for demo queries only."""
    row = query_of(ports, asked)
    if isinstance(row, Answer):
        return row
    if not row.demo:
        return Answer(Status.REFUSED, f"query {row.name} is not a demo: its workload is its own")
    if not asked.body:
        return Answer(Status.INVALID, "nothing to change is given: stream and options, or slow")
    if ("stream" in asked.body) != ("options" in asked.body):
        return Answer(Status.INVALID, "stream and options go together")
    known = sorted(row.about.get("streams") or ())  # empty until the engine has told of the query
    if known and "stream" in asked.body and asked.body["stream"] not in known:
        text = f"there is no stream {asked.body['stream']!r}: there are {', '.join(known)}"
        return Answer(Status.INVALID, text)
    return Answer(
        Status.ACCEPTED, "on its way to the engine", told(ports, asked, "workload", asked.body)
    )


HANDLERS: Mapping[str, Handler] = {
    "query.register": register,
    "query.unregister": unregister,
    "query.start": _wanted(Wanted.RUNNING, "starting"),
    "query.stop": _wanted(Wanted.STOPPED, "stopping"),
    "query.pause": _wanted(Wanted.PAUSED, "pausing"),
    "query.resume": _wanted(Wanted.RUNNING, "going on"),
    "nodes": nodes,
    "workload": workload,
}
