"""The life of one query in the host, as a table of states and events. Pure: no threads, no Spark, no clock.

    registered ──start──▶ starting ──up──▶ running ──pause──▶ pausing ──halted──▶ paused
                             ▲  ▲             │ ▲                │                  │ │
                             │  │             │ └──up── resuming ◀───────resume─────┘ │
          stopped, failed ───┘  │            stop                │                    │
               finished ────────┘             ▼                  │                    │
                                stopped ◀─end─ stopping ◀──stop──┴────────stop────────┘

From every live state `fail` leads to failed; `end` unasked for (the input is done) to finished. Who
may ask is start, pause, resume, stop, unregister; the query's own thread reports up, halted, end, fail.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from engine.errors import HostError

HISTORY_MAX = 32


class State(StrEnum):
    REGISTERED = "registered"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    RESUMING = "resuming"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    UNREGISTERED = "unregistered"


class Event(StrEnum):
    START = "start"
    UP = "up"  # ticks may begin
    PAUSE = "pause"
    HALTED = "halted"  # no tick runs, none begins
    RESUME = "resume"
    STOP = "stop"
    END = "end"  # the thread is through, without an error
    FAIL = "fail"
    UNREGISTER = "unregister"


RESTING = frozenset({State.REGISTERED, State.STOPPED, State.FINISHED, State.FAILED})
LIVE = frozenset(State) - RESTING - {State.UNREGISTERED}


def _table() -> dict[tuple[State, Event], State]:
    table = {
        (State.STARTING, Event.UP): State.RUNNING,
        (State.RUNNING, Event.PAUSE): State.PAUSING,
        (State.PAUSING, Event.HALTED): State.PAUSED,
        (State.PAUSED, Event.RESUME): State.RESUMING,
        (State.RESUMING, Event.UP): State.RUNNING,
        (State.STOPPING, Event.UP): State.STOPPING,  # it came up while the stop was on its way
        (State.STOPPING, Event.HALTED): State.STOPPING,
        (State.STOPPING, Event.END): State.STOPPED,
        (State.RUNNING, Event.END): State.FINISHED,
        (State.PAUSING, Event.END): State.FINISHED,  # the input was done first
    }
    table |= {(state, Event.STOP): State.STOPPING for state in LIVE - {State.STOPPING}}
    table |= {(state, Event.FAIL): State.FAILED for state in LIVE}
    table |= {(state, Event.START): State.STARTING for state in RESTING}
    return table | {(state, Event.UNREGISTER): State.UNREGISTERED for state in RESTING}


TABLE: Mapping[tuple[State, Event], State] = MappingProxyType(_table())


@dataclass(frozen=True, slots=True)
class Entry:
    """The query entered `state` at `time_s`."""

    state: State
    time_s: float

    def __str__(self) -> str:
        return f"{time.strftime('%H:%M:%S', time.gmtime(self.time_s))} {self.state}"


@dataclass(frozen=True, slots=True)
class Life:
    """Where one query is, and how it came there (the newest HISTORY_MAX entries, oldest first)."""

    name: str
    history: tuple[Entry, ...]

    @classmethod
    def begin(cls, name: str, time_s: float) -> Life:
        return cls(name, (Entry(State.REGISTERED, time_s),))

    @property
    def state(self) -> State:
        return self.history[-1].state

    def can(self, event: Event) -> bool:
        return (self.state, event) in TABLE

    def after(self, event: Event, time_s: float) -> Life:
        """The life after `event`; refused with the history where the table has no such transition."""
        to = TABLE.get((self.state, event))
        if to is None:
            raise HostError(
                f"cannot {event} query {self.name!r}: it is {self.state}",
                where="history (UTC): " + ", ".join(map(str, self.history)),
                hint=_advice(self.state),
            )
        if to == self.state:
            return self
        return Life(self.name, (*self.history, Entry(to, time_s))[-HISTORY_MAX:])


def _advice(state: State) -> str:
    possible = [event for (s, event) in TABLE if s == state and event in _ASKED]
    if possible:
        return f"Possible now: {', '.join(sorted(possible))}."
    return "Wait until it has stopped." if state == State.STOPPING else "It is gone."


_ASKED = frozenset({Event.START, Event.PAUSE, Event.RESUME, Event.STOP, Event.UNREGISTER})
