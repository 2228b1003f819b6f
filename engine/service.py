"""The engine as a process: its queries kept as the store wants them, commands taken from it, what came of them
told to it.

It asks the store several times a second and never waits for it: a store that cannot be reached is tried again,
and ticks go on meanwhile. What the engine's commits say is the truth; the store is told what they say.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from control.conduct import Conduct, conduct_name, to_json
from control.conduct import from_json as conduct_from_json
from control.errors import StoreError
from control.ledger import Command, CommandState, QueryRow, Wanted
from control.ports import Secrets, Store
from control.redaction import redacted, redacted_json, secrets_in_file, without
from control.samples import Heartbeat, Sample
from engine.adapt.desk import Desk
from engine.adapt.errands import Wish
from engine.demo import prune
from engine.errors import HostError, QueryFileError, SpillwayError
from engine.host import EngineHost, QueryStatus
from engine.lifecycle import LIVE, State
from engine.plan.tree import Plan
from engine.projection import Watched, budgets_of
from engine.query.model import QuerySpec
from engine.query.secrets import Options
from engine.registry import notes_on, plan_of, roots_of, shown, spec_of, with_umask
from engine.runner import QueryRun
from engine.settings import Settings
from engine.sources import workload
from engine.telemetry import Telemetry

POLL_S = 0.1
BEAT_S = 1.0
TELL_S = 0.3
STATES_S = 1.0
PRUNE_S = 60.0
SCRATCH = "spark"  # of the data folder: Spark's own files, with rows that it shuffles
FRAMES_MAX = 12  # of a failed command's traceback in the log


@dataclass
class _Kept:
    """One query of this engine: its watch while it runs, and what it was told to be."""

    row: QueryRow
    spec: QuerySpec
    plan: Mapping[str, Any] = field(default_factory=dict)
    watched: Watched | None = None
    wanted: Wanted | None = None  # what was last acted upon
    told: tuple[str, str] | None = None  # what the store last heard; None: it is to be told again
    slow: dict[int, float] = field(default_factory=dict)
    running: Plan | None = None  # as it was last told


class Service:
    """Made by run.py; `run` returns once `stop` is set and everything has ended."""

    def __init__(
        self,
        store: Store,
        data: Path,
        settings: Settings,
        take: Callable[[Sample], None],
        *,
        master: str | None = None,
        umask: int | None = None,
        clock: Callable[[], float] = time.time,
        warn: Callable[[str], None] = lambda text: None,
        dropped: Callable[[], int] = lambda: 0,
        secrets: Secrets | None = None,
    ) -> None:
        self.store, self.data, self.settings, self.take = store, data, settings, take
        self.clock, self.warn, self.dropped, self.secrets = clock, warn, dropped, secrets
        self.umask = umask  # of results outside the data folder
        self.host = EngineHost(
            settings,
            master=master,
            warn=warn,
            clock=clock,
            seated=self._seated,
            scratch=data / SCRATCH,
        )
        self.roots = roots_of(settings, data)
        self._kept: dict[str, _Kept] = {}
        self._ends: list[tuple[str, CommandState, str]] = []  # of commands, not told yet
        self._begun_s = clock()
        self._due: dict[str, float] = {}
        self._trouble = ""

    def run(self, stop: threading.Event) -> None:
        """Until told to stop."""
        first = True
        # What Spark left here when it was killed: this process alone works on the data folder.
        shutil.rmtree(self.data / SCRATCH, ignore_errors=True)
        while not stop.is_set():
            try:
                if first:
                    self._after_a_restart()
                    first = False
                self.run_once()
                self._trouble = ""
            except StoreError as error:
                self._say(str(error))
            stop.wait(POLL_S)
        self._end()

    def run_once(self, *, force: bool = False) -> None:
        """Everything that is due; with `force`, everything."""
        if force:
            self._due.clear()
        for command in self.store.commands.take(self.clock()):
            self._obey(command)
        if self._is_due("states", STATES_S):
            self._reconcile()
        if self._is_due("tell", TELL_S):
            self._tell()
        if self._is_due("beat", BEAT_S):
            self._beat("running")
        if self._is_due("prune", PRUNE_S):
            for kept in self._kept.values():
                if kept.row.demo:
                    prune(Path(kept.spec.sink.path), self.clock())

    def _is_due(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every_s
        return True

    def _say(self, text: str) -> None:
        """Trouble with the store, once."""
        if text != self._trouble:
            self.warn(text)
        self._trouble = text

    # -- what the store wants ------------------------------------------------------------------------

    def _after_a_restart(self) -> None:
        """Commands that an earlier engine took and did not end: their actions, if any, are told by the queries'
        own records; what has not begun is not begun now."""
        for command in self.store.commands.taken():
            text = "the engine was started again"
            if command.kind == "apply":
                text += "; what it had begun is among the actions, what it had not is not done"
            outcome = {"text": text, "actions": [], "refusals": []}
            self.store.commands.end(command.id, CommandState.FAILED, outcome, self.clock())

    def _reconcile(self) -> None:
        """Queries as the store has them: taken in, started, forgotten."""
        rows = {row.name: row for row in self.store.queries.all()}
        for name in [n for n in self._kept if n not in rows]:
            self._forget(name)
        for row in rows.values():
            if row.name not in self._kept:
                self._take_in(row)
            kept = self._kept.get(row.name)
            if kept is None:
                continue
            if row.nodes not in (None, kept.spec.nodes):
                self._spread_anew(kept, row)
            elif kept.wanted is not row.wanted:
                self._bring_about(kept, row.wanted)
            kept.row = row
        self._tell_states()

    def _spread_anew(self, kept: _Kept, row: QueryRow) -> None:
        """Another number of nodes: stop it; once it has stopped, take it in as what it is to be."""
        status = self.host.status_of(row.name)
        if status.live:
            if status.state != State.STOPPING:
                self.host.stop(row.name)
            return
        self.host.unregister(row.name)
        before = self._kept.pop(row.name)
        self._take_in(row)
        if (again := self._kept.get(row.name)) is not None:
            again.slow, again.watched = before.slow, before.watched

    def _take_in(self, row: QueryRow) -> None:
        try:
            spec = spec_of(row, self.data, self.roots, secrets=self.secrets)
            spec = with_umask(spec, self.data, self.umask)
            self.host.register(spec, ())
            notes = notes_on(spec, self.data, self.roots)
            for note in notes:
                self.warn(f"{row.name}: {note}")
            about = {**plan_of(spec), "notes": notes}
            self._kept[row.name] = _Kept(row, spec, about, wanted=Wanted.STOPPED)
        except (SpillwayError, OSError) as failure:
            error = failure if isinstance(failure, SpillwayError) else _not_placed(row, failure)
            said = without(str(error), secrets_in_file(row.text))
            if row.state != "failed" or row.error != said:
                self.store.queries.told(row.name, "failed", said, row.about, self.clock())

    def _forget(self, name: str) -> None:
        status = self.host.status_of(name)
        if status.live:
            self.host.stop(name)
            return
        self.host.unregister(name)
        del self._kept[name]

    def _bring_about(self, kept: _Kept, wanted: Wanted) -> None:
        """One step towards what a query should be; the rest when its state allows it."""
        name, state = kept.row.name, self.host.status_of(kept.row.name).state
        try:
            if wanted is Wanted.RUNNING:
                if state == State.PAUSED:
                    self.host.resume(name)
                elif state not in LIVE:
                    self.host.start(name)
                elif state != State.RUNNING:
                    return
            elif wanted is Wanted.PAUSED:
                if state == State.RUNNING:
                    self.host.pause(name)
                elif state != State.PAUSED:
                    return
            elif state in LIVE and state != State.STOPPING:
                self.host.stop(name)
        except HostError as error:
            self.warn(f"{name}: {error}")
            return
        kept.wanted = wanted

    def _tell_states(self) -> None:
        for status in self.host.status():
            kept = self._kept.get(status.name)
            if kept is None:
                continue
            if kept.watched is not None and kept.watched.plan is not kept.running:
                kept.running = kept.watched.plan  # a migration may have changed it
                kept.plan, kept.told = {**kept.plan, **shown(kept.running)}, None
            now = (str(status.state), str(status.error) if status.error else "")
            if now != kept.told:
                about = {**kept.row.about, **_about(kept, status)}
                self.store.queries.told(status.name, *now, about, self.clock())
                kept.told = now

    # -- commands ------------------------------------------------------------------------------------

    def _obey(self, command: Command) -> None:
        """Carry a command out. Whatever goes wrong is this command's end, never the engine's: the error of a user is
        told as it is; any other one may name files of this machine, so it goes to the log alone."""
        try:
            outcome = self._do(command)
        except SpillwayError as error:
            self._ended(command.id, CommandState.REFUSED, str(error))
            return
        except Exception as error:  # noqa: BLE001 (the next command must find an engine)
            frames = "".join(traceback.format_exception(error, limit=-FRAMES_MAX))
            known = self.secrets.values() if self.secrets is not None else ()
            self.warn(f"command {command.id}: {redacted(frames, known)}")
            text = f"the engine met an error that it did not expect: see command {command.id} in engine.log"
            self._ended(command.id, CommandState.FAILED, text)
            return
        if outcome is not None:
            self._ended(command.id, CommandState.DONE, outcome)

    def _do(self, command: Command) -> str | None:
        """What to say of it, or None where a desk will."""
        if command.kind in ("apply", "cancel"):
            self._to_desk(command)
            return None
        if command.kind == "workload":
            return self._workload(self._find(command.query), command.body)
        if command.kind == "conduct":
            return self._conduct(self._find(command.query), command.body)
        kept = self._kept.get(command.query)
        if kept is not None and command.kind == "query.start":
            kept.wanted = None  # it is tried again, even where it failed before
        self._due["states"] = 0.0
        return f"{command.kind.removeprefix('query.')} of {command.query} is under way"

    def _find(self, name: str) -> _Kept:
        kept = self._kept.get(name)
        if kept is None:
            raise HostError(f"there is no query {name!r} in this engine")
        return kept

    def _to_desk(self, command: Command) -> None:
        kept = self._find(command.query)
        watched = kept.watched
        if watched is None or self.host.status_of(command.query).state != State.RUNNING:
            raise HostError(f"query {command.query} is not running")
        by = f"rule {command.rule} ({command.user})" if command.rule else command.user
        watched.expect(command)
        watched.desk.errands.leave(
            Wish(
                command.id,
                by,
                command.body.get("plan", {}),
                command.body.get("fingerprint", {}),
                command.body.get("action", ""),
            )
        )

    def _workload(self, kept: _Kept, body: Mapping[str, Any]) -> str:
        said = []
        if "stream" in body:
            if body["stream"] not in list(kept.spec.streams):
                raise HostError(
                    f"there is no stream {body['stream']!r} in query {kept.row.name}",
                    hint=f"Its streams are: {', '.join(kept.spec.streams)}.",
                )
            now_us = int(self.clock() * 1e6)
            workload.change(kept.spec.checkpoint, body["stream"], body["options"], now_us=now_us)
            said.append(f"{body['stream']} changes with the next tick")
        if "slow" in body:
            now = workload.slow_down(kept.slow, kept.spec.nodes, body["slow"])
            slow = ", ".join(
                f"{node} by {seconds:g} s for 1 000 rows" for node, seconds in now.items()
            )
            said.append(f"slow nodes: {slow or 'none'}")
        kept.told = None
        return "; ".join(said)

    def _conduct(self, kept: _Kept, body: Mapping[str, Any]) -> str:
        """What a rule asks of the nodes, or that none does any more; a query that does not run finds it in the store."""
        raw = body["conduct"]
        conduct = conduct_from_json(raw) if raw else None
        if kept.watched is not None:
            kept.watched.desk.conduct_by(conduct)
        kept.told = None
        by = f"rule {conduct.rule}" if conduct is not None else "no rule"
        return f"nodes of {kept.row.name} go by {by} from the next tick on"

    def _ended(self, id: str, state: CommandState, text: str) -> None:
        self._ends.append((id, state, text))

    # -- what came of it -----------------------------------------------------------------------------

    def _seated(self, run: QueryRun, desk: Desk) -> None:
        """A query is about to tick: watch it. Called by its thread; the store is asked for no more than its
        budgets, and what a rule asks of its nodes."""
        kept = self._kept[run.spec.name]
        telemetry = Telemetry(self.take, self.clock, self.settings.trigger_seconds)
        desk.ticker.ports = (*desk.ticker.ports, telemetry)
        desk.watch = telemetry.look
        run.slow.update(kept.slow)
        kept.slow = run.slow
        kept.watched = Watched(run.spec.name, desk, kept.watched)
        try:
            budgets = self.store.kept.get(budgets_of(run.spec.name)) or {}
            conduct = self.store.kept.get(conduct_name(run.spec.name))
        except StoreError as error:
            self._say(str(error))
            budgets, conduct = {}, None
        desk.conduct_by(conduct_from_json(conduct) if conduct else None)
        desk.budgets.update({int(n): int(most) for n, most in budgets.items()})

    def _tell(self) -> None:
        """Actions and commands, as they are now."""
        now = self.clock()
        while self._ends:
            id, state, text = self._ends[0]
            outcome = {"text": text, "actions": [], "refusals": []}
            self.store.commands.end(id, state, outcome, now)
            del self._ends[0]
        for kept in self._kept.values():
            if kept.watched is not None:
                kept.watched.tell(self.store, now)

    def _beat(self, state: str) -> None:
        about = {
            "queries": {s.name: str(s.state) for s in self.host.status()},
            "samples_dropped": self.dropped(),
            "trouble": self._trouble,
        }
        self.store.metrics.beat(
            Heartbeat("engine", os.getpid(), self._begun_s, self.clock(), state, about)
        )

    def _end(self) -> None:
        """Everything stopped after its running tick, and what came of it told."""
        self.host.close()
        try:
            self._tell()
            self._tell_states()
            self._beat("stopped")
        except StoreError as error:
            self._say(str(error))


def _not_placed(row: QueryRow, error: OSError) -> SpillwayError:
    """The query's file cannot be put into the data folder."""
    return QueryFileError(
        f"query {row.name} cannot be put on disk: {error.strerror}",
        where=str(error.filename or ""),
        hint="Make room there, or give the engine write permission: it tries again every second.",
    )


def _about(kept: _Kept, status: QueryStatus) -> dict[str, Any]:
    spec = kept.spec
    return {
        **kept.plan,
        "nodes": spec.nodes,
        "streams": {
            name: {
                "format": stream.format,
                "options": _options(spec, name),
                "file": _as_shown(stream.options),
            }
            for name, stream in spec.streams.items()
        },
        "slow": {str(node): seconds for node, seconds in kept.slow.items() if seconds},
        "sink": {"format": spec.sink.format, "path": spec.sink.path},
        "since_s": status.since_s,
        "conduct": to_json(led) if (led := _led(kept)) is not None else None,
    }


def _as_shown(options: Mapping[str, str]) -> dict[str, str]:
    """A stream's options as every viewer may see them."""
    shown = options.shown() if isinstance(options, Options) else redacted_json(options)
    return {name.lower(): text for name, text in shown.items()}


def _led(kept: _Kept) -> Conduct | None:
    """What a rule has asked of the nodes."""
    return kept.watched.desk.led if kept.watched is not None else None


def _options(spec: QuerySpec, stream: str) -> dict[str, str]:
    """Of a generated stream: what may be changed, as it is now. A damaged record is the query's own affair, which its
    next start tells: here it is only not shown."""
    try:
        found = workload.current(spec.checkpoint, stream)
    except (SpillwayError, OSError):
        found = None
    return dict(found.values) if found else {}
