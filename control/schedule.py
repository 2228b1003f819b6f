"""When a rule is due: APScheduler's triggers, used only through the pure `get_next_fire_time`; quiet hours.

Times are seconds since 1970. An interval counts from its anchor, so that a restart does not begin it anew.
A cron schedule follows the clock on the wall of its zone: in autumn's doubled hour a time of day comes once
(a schedule of every hour goes on evenly), in spring's gap it comes as soon as the gap is over. However much
was missed, it fires once. A rule that was switched on waits for its next time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from difflib import get_close_matches
from functools import lru_cache
from math import floor
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from control.errors import RuleError

EVERY_MIN_S = 1.0
EVERY_MAX_S = 366 * 86_400.0
STEP_S = 0.001  # "after" means at least this much later
TRIES_MAX = 100  # doubled times skipped in a row: at most an hour of minutes
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every so many seconds, or by cron. One of the two."""

    every_s: float | None = None
    cron: str | None = None
    zone: str = "UTC"

    def next_after(self, after_s: float, anchor_s: float = 0.0) -> float | None:
        """The first time after `after_s`; None when there is none any more."""
        if self.every_s is not None:
            return _interval_after(self.every_s, after_s, anchor_s)
        return _cron_after(self.cron or "", self.zone, after_s)

    def __str__(self) -> str:
        return f"every {self.every_s:g} s" if self.every_s else f"{self.cron} ({self.zone})"


@dataclass(frozen=True, slots=True)
class Turn:
    """What a schedule says now. `mark_s`: what to keep as last fired, None to leave it; `since_s`: since when
    it has been due."""

    due: bool
    next_s: float | None
    mark_s: float | None = None
    since_s: float | None = None


def turn(
    schedule: Schedule,
    now_s: float,
    *,
    last_fired_s: float | None,
    changed_s: float,
    anchor_s: float,
) -> Turn:
    """Whether it is due, and when next. A mark in the future means that the clock was set back: it is
    brought to now, so that the schedule goes on instead of waiting for the old time to come again."""
    if last_fired_s is not None and last_fired_s > now_s:
        return Turn(False, schedule.next_after(now_s, anchor_s), now_s)
    marks = [mark for mark in (last_fired_s, changed_s) if mark is not None and mark <= now_s]
    if not marks:
        return Turn(False, schedule.next_after(now_s, anchor_s), now_s)
    coming = schedule.next_after(max(marks), anchor_s)
    if coming is None or coming > now_s:
        return Turn(False, coming)
    return Turn(True, schedule.next_after(now_s, anchor_s), now_s, coming)


def _interval_after(every_s: float, after_s: float, anchor_s: float) -> float:
    """Anchored at a time in the past or in the future alike: whole intervals are taken off it first."""
    start_s = anchor_s - max(0.0, -floor((after_s - anchor_s) / every_s)) * every_s
    trigger = _interval(every_s, start_s)
    return _fire(trigger, after_s, UTC) or after_s + every_s


def _cron_after(cron: str, zone: str, after_s: float) -> float | None:
    trigger = _cron(cron, zone)
    even = cron.split()[1].startswith("*")
    at = after_s
    for _ in range(TRIES_MAX):
        found = _fire(trigger, at, zone_of(zone))
        if found is None or even or not _second_time(found, zone):
            return found
        at = found
    return None


def _second_time(at_s: float, zone: str) -> bool:
    """This time of day was there an hour ago already: clocks were set back."""
    return bool(datetime.fromtimestamp(at_s, zone_of(zone)).fold)


def _fire(trigger: BaseTrigger, after_s: float, zone: Any) -> float | None:
    """Strictly after; APScheduler's own answer may be at it."""
    found = trigger.get_next_fire_time(None, datetime.fromtimestamp(after_s + STEP_S, zone))
    return float(found.timestamp()) if found is not None else None


@lru_cache(256)
def _interval(every_s: float, start_s: float) -> BaseTrigger:
    start = datetime.fromtimestamp(start_s, UTC)
    return IntervalTrigger(seconds=every_s, start_date=start, timezone=UTC)


@lru_cache(256)
def _cron(cron: str, zone: str) -> BaseTrigger:
    return CronTrigger.from_crontab(cron, timezone=zone_of(zone))


@lru_cache(64)
def zone_of(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def checked(schedule: Schedule, where: str) -> Schedule:
    """RuleError when it cannot be used."""
    try:
        zone_of(schedule.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = _close(schedule.zone) or "an IANA name, such as Europe/Berlin"
        raise RuleError(f"no zone {schedule.zone!r}", where=f"{where}, zone", hint=hint) from error
    if schedule.every_s is not None and not EVERY_MIN_S <= schedule.every_s <= EVERY_MAX_S:
        hint = "from 1s to 366d"
        raise RuleError(
            f"{schedule.every_s:g} s is out of range", where=f"{where}, every", hint=hint
        )
    if schedule.cron is not None:
        _check_cron(schedule, where)
    return schedule


def _check_cron(schedule: Schedule, where: str) -> None:
    hint = 'five fields: minute hour day month weekday, for example "0 3 * * *"'
    try:
        _cron(schedule.cron or "", schedule.zone)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{schedule.cron!r} is not a cron schedule ({error})"
        raise RuleError(what, where=f"{where}, cron", hint=hint) from error
    if schedule.next_after(0.0) is None:
        raise RuleError(f"{schedule.cron!r} never comes", where=f"{where}, cron", hint=hint)


def _close(name: str) -> str:
    found = get_close_matches(name, sorted(available_timezones()), 1)
    return f"did you mean {found[0]}?" if found else ""


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of the day in which a rule does nothing: from, until (not with it), over midnight too."""

    start: time
    end: time

    @staticmethod
    def parse(text: Any, where: str) -> Quiet:
        """`"22:00-06:00"`; `24:00` is midnight."""
        try:
            start, end = (_clock(part) for part in str(text).split("-"))
        except ValueError:
            hint = 'for example "22:00-06:00"'
            raise RuleError(f"{text!r} is not a span of hours", where=where, hint=hint) from None
        return Quiet(start, end)

    def until(self, now_s: float, zone: str) -> float | None:
        """When it is over; None when it is not quiet now. From and until alike: the whole day."""
        here = datetime.fromtimestamp(now_s, zone_of(zone))
        clock = here.time()
        if self.start < self.end:
            inside = self.start <= clock < self.end
        else:
            inside = clock >= self.start or clock < self.end
        if not inside:
            return None
        day = here.date() if clock < self.end else here.date() + DAY
        end = datetime.combine(day, self.end, tzinfo=zone_of(zone)).timestamp()
        if end <= now_s:  # the second of two like hours
            end = datetime.combine(day, self.end, tzinfo=zone_of(zone)).replace(fold=1).timestamp()
        return end if end > now_s else now_s + 60.0

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M}"


def _clock(text: str) -> time:
    hours, minutes = (int(part) for part in text.strip().split(":"))
    if (hours, minutes) == (24, 0):
        return time(0, 0)
    return time(hours, minutes)


def quiet_until(spans: tuple[Quiet, ...], now_s: float, zone: str) -> float | None:
    """When it stops being quiet, spans that follow each other counted as one."""
    end = None
    for _ in range(len(spans) + 1):
        found = [until for span in spans if (until := span.until(end or now_s, zone)) is not None]
        if not found or max(found) == end:
            break
        end = max(found)
        if end - now_s > 2 * 86_400:
            break
    return end
