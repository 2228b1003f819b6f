"""The control process: a heartbeat once a second that runs the rules, alerts and learning, one round at a time.

APScheduler beats (one round at once, missed beats are one); everything that may take its time - retention,
checkpoints of the store, webhooks - has a thread of its own, so that a slow one holds up nothing. A store that
cannot be reached is tried again with the next beat.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from control.dispatch import Dispatcher
from control.errors import ControlError, StoreError
from control.learn import learn
from control.loop import Loop
from control.ports import Store
from control.samples import Heartbeat
from control.watch import Disks, Watch

BEAT, BEAT_S = "beat", 1.0
LOOK_S = 5.0  # how often is looked whether beats come
WATCH_S = 5.0
LEARN_S = 5.0
TIDY_S, CHECKPOINT_S, DELIVER_S = 60.0, 10.0, 1.0
END_S = 10.0  # so long a chore that runs is waited for at the end

Clock = Callable[[], float]
Chore = Callable[[float], object]


@dataclass
class Pulse:
    """What the process says of itself."""

    started_s: float
    rounds: int = 0
    wrong: dict[str, str] = field(default_factory=dict)  # what went wrong when it was last tried
    wrong_s: float | None = None
    chores: dict[str, str] = field(default_factory=dict)  # the same of chores, by their own threads

    def note(self, name: str, text: str, now_s: float) -> None:
        if not text:
            self.wrong.pop(name, None)
            return
        self.wrong[name], self.wrong_s = text, now_s

    @property
    def trouble(self) -> str:
        return "; ".join(self.wrong.values())


class Service:
    """One control process. `beat` is one round of everything that is due, called by the scheduler or a test."""

    def __init__(self, store: Store, dispatcher: Dispatcher, clock: Clock, disks: Disks) -> None:
        self.store, self.clock = store, clock
        self.loop, self.watch = Loop(store, dispatcher, clock), Watch(store, disks)
        self.pulse = Pulse(clock())
        self._due: dict[str, float] = {}

    def beat(self) -> None:
        """Nothing that goes wrong here ends the process: it is said in the heartbeat."""
        now_s = self.clock()
        works: dict[str, tuple[float, Chore]] = {
            "rules": (0.0, self._rules),
            "alerts": (WATCH_S, self.watch.run_once),
            "lessons": (LEARN_S, lambda now: learn(self.store, now)),
        }
        for name, (every_s, work) in works.items():
            if self._is_due(name, every_s, now_s):
                self.pulse.note(name, self._tried(work, now_s), now_s)
        self.pulse.rounds += 1
        self._tried(lambda now: self.say("running"), now_s)

    def _rules(self, now_s: float) -> None:
        done = self.loop.run_once(now_s)
        if done.errors:
            raise ControlError("; ".join(done.errors))

    def _is_due(self, what: str, every_s: float, now_s: float) -> bool:
        """Also when the clock was set back."""
        last = self._due.get(what)
        if last is not None and 0 <= now_s - last < every_s:
            return False
        self._due[what] = now_s
        return True

    def _tried(self, work: Chore, now_s: float) -> str:
        try:
            work(now_s)
        except ControlError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - said, and tried again with the next beat
            return f"{type(error).__name__}: {error}"
        return ""

    def say(self, state: str) -> None:
        """The heartbeat."""
        pulse = self.pulse
        about: dict[str, Any] = {"rounds": pulse.rounds, "trouble": pulse.trouble}
        about["trouble_s"] = pulse.wrong_s
        about["chores"] = dict(pulse.chores)
        beat = Heartbeat("control", os.getpid(), pulse.started_s, self.clock(), state, about)
        self.store.metrics.beat(beat)


def serve(
    store: Store,
    dispatcher: Dispatcher,
    stop: threading.Event,
    clock: Clock,
    *,
    disks: Disks,
    tidy: Chore | None = None,
    checkpoint: Chore | None = None,
    deliver: Chore | None = None,
) -> None:
    """Beat until `stop` is set. Returns once the round that runs has ended."""
    service = Service(store, dispatcher, clock, disks)
    chores = {
        "tidy": (tidy, TIDY_S),
        "checkpoint": (checkpoint, CHECKPOINT_S),
        "deliver": (deliver, DELIVER_S),
    }
    threads = [
        _chore(name, work, every_s, stop, service)
        for name, (work, every_s) in chores.items()
        if work is not None
    ]
    scheduler = BackgroundScheduler(
        executors={"default": ThreadPoolExecutor(1)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        timezone="UTC",
    )
    service.beat()
    scheduler.add_job(service.beat, "interval", seconds=BEAT_S, id=BEAT)
    scheduler.start()
    try:
        while not stop.wait(LOOK_S):
            waken(scheduler, LOOK_S)
    finally:
        scheduler.shutdown(wait=True)
        for thread in threads:
            thread.join(END_S)
        _farewell(service)


def waken(scheduler: BackgroundScheduler, most_s: float) -> bool:
    """The scheduler waits for a time of day. When the clock is set back that time is far off: bring it to now."""
    job, now = scheduler.get_job(BEAT), datetime.now(UTC)
    if (
        job is None
        or job.next_run_time is None
        or (job.next_run_time - now).total_seconds() <= most_s
    ):
        return False
    job.modify(next_run_time=now)
    return True


def _chore(
    name: str, work: Chore, every_s: float, stop: threading.Event, service: Service
) -> threading.Thread:
    """Work of its own pace. What goes wrong is in the heartbeat until it goes well again."""

    def run() -> None:
        while not stop.wait(every_s):
            try:
                work(service.clock())
                service.pulse.chores.pop(name, None)
            except Exception as error:  # noqa: BLE001 - said, and tried again
                service.pulse.chores[name] = str(error) or type(error).__name__

    thread = threading.Thread(target=run, name=f"control-{name}", daemon=True)
    thread.start()
    return thread


def _farewell(service: Service) -> None:
    try:
        service.say("stopped")
    except StoreError:
        return  # its heartbeat grows old instead
