"""Schedules under any clock: zones, the doubled hour, the missing hour, leap days, jumps, restarts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from control.errors import RuleError
from control.schedule import Quiet, Schedule, checked, quiet_until, turn

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Asia/Kathmandu",  # + 5:45
    "Pacific/Apia",
    "America/Sao_Paulo",
)
CRONS = ("30 2 * * *", "0 3 * * 1", "15 1 29 2 *", "*/15 * * * *", "0 */6 * * *", "59 23 31 12 *")
TIMES = st.floats(1.5e9, 2.0e9)
BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def fires(schedule: Schedule, since_s: float, until_s: float) -> list[float]:
    out, now = [], since_s
    while (found := schedule.next_after(now)) is not None and found <= until_s:
        out.append(found)
        now = found
    return out


@given(st.sampled_from(CRONS), st.sampled_from(ZONES), TIMES)
def test_cron_goes_strictly_forward_at_the_clock_on_the_wall(
    cron: str, zone: str, after_s: float
) -> None:
    schedule = Schedule(cron=cron, zone=zone)
    found = schedule.next_after(after_s)
    assert found is not None and found > after_s
    later = schedule.next_after(found)
    assert later is not None and later > found
    wall = datetime.fromtimestamp(found, ZoneInfo(zone))
    minute = cron.split()[0]
    gap = (
        wall.utcoffset()
        != (wall - timedelta(hours=2)).astimezone(UTC).astimezone(ZoneInfo(zone)).utcoffset()
    )
    assert wall.second == 0
    if minute.isdigit() and not gap:
        assert wall.minute == int(minute)


@given(TIMES, TIMES, st.floats(1.0, 100_000.0))
def test_an_interval_counts_from_its_anchor(
    anchor_s: float, after_s: float, every_s: float
) -> None:
    every_s = round(every_s, 3)
    found = Schedule(every_s).next_after(after_s, anchor_s)
    assert found is not None
    assert after_s < found <= after_s + every_s + 0.01
    counts = (found - anchor_s) / every_s
    assert abs(counts - round(counts)) * every_s < 0.01


def test_a_time_of_day_in_the_doubled_hour_comes_once() -> None:
    found = fires(
        Schedule(cron="30 2 * * *", zone=BERLIN), at("2026-10-24T12:00"), at("2026-10-27T12:00")
    )
    assert found == [at(f"2026-10-{day}T02:30") for day in (25, 26, 27)]


def test_a_schedule_of_every_hour_goes_on_evenly_through_it() -> None:
    found = fires(
        Schedule(cron="*/20 * * * *", zone=BERLIN), at("2026-10-25T01:30"), at("2026-10-25T04:10")
    )
    assert {b - a for a, b in pairwise(found)} == {1200.0}
    assert len(found) == 11  # three hours and forty minutes have passed


def test_a_time_of_day_in_the_missing_hour_comes_right_after_it() -> None:
    found = fires(
        Schedule(cron="30 2 * * *", zone=BERLIN), at("2026-03-28T12:00"), at("2026-03-30T12:00")
    )
    assert found == [at("2026-03-29T03:30"), at("2026-03-30T02:30")]


@pytest.mark.parametrize("zone", ZONES)
def test_once_a_day_is_once_a_day_all_the_year(zone: str) -> None:
    start = at("2026-01-01T00:00", zone)
    found = fires(Schedule(cron="30 2 * * *", zone=zone), start, start + 364.5 * 86_400)
    days = [datetime.fromtimestamp(one, ZoneInfo(zone)).date() for one in found]
    assert len(set(days)) == len(days) in (364, 365)


def test_a_leap_day_comes_every_four_years() -> None:
    found = fires(
        Schedule(cron="0 0 29 2 *"), at("2026-01-01T00:00", "UTC"), at("2037-01-01T00:00", "UTC")
    )
    assert [datetime.fromtimestamp(one, UTC).year for one in found] == [2028, 2032, 2036]


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (Schedule(cron="0 3 * *"), "is not a cron schedule"),
        (Schedule(cron="61 * * * *"), "is not a cron schedule"),
        (Schedule(cron="a b c d e"), "is not a cron schedule"),
        (Schedule(cron="0 0 31 2 *"), "never comes"),
        (Schedule(every_s=0.1), "out of range"),
        (Schedule(every_s=15.0, zone="Europe/Berln"), "did you mean Europe/Berlin"),
        (Schedule(every_s=15.0, zone="../../etc/passwd"), "no zone"),
    ],
)
def test_what_cannot_be_is_refused(schedule: Schedule, text: str) -> None:
    with pytest.raises(RuleError, match=text):
        checked(schedule, "rule x")


class Clocked(RuleBasedStateMachine):
    """A loop that asks once a second, a clock that jumps, a process that restarts, a person who switches.

    What must hold: never twice for one time of its schedule, never at once after it was switched on, and
    after a jump back it goes on within an interval."""

    @initialize(
        start=st.integers(1_700_000_000, 1_900_000_000), every=st.sampled_from([5.0, 60.0, 3600.0])
    )
    def begin(self, start: int, every: float) -> None:
        self.now = self.anchor = self.changed = float(start)
        self.schedule = Schedule(every)
        self.every = every
        self.mark: float | None = None
        self.fired: list[float] = []
        self.real = 0.0  # seconds that have really passed
        self.since_jump = 0.0

    def ask(self) -> bool:
        said = turn(
            self.schedule,
            self.now,
            last_fired_s=self.mark,
            changed_s=self.changed,
            anchor_s=self.anchor,
        )
        if said.mark_s is not None:
            self.mark = said.mark_s
        if said.due:
            assert said.since_s is not None and said.since_s <= self.now
            self.fired.append(self.real)
        assert said.next_s is not None and said.next_s > self.now
        assert said.next_s <= self.now + self.every + 0.01
        return said.due

    @rule(seconds=st.integers(1, 5000), stopped=st.booleans())
    def pass_time(self, seconds: int, stopped: bool) -> None:
        """`stopped`: the process was down, which the mark survives."""
        before = len(self.fired)
        steps = 1 if stopped else min(seconds, 40)
        for _ in range(steps):
            self.now += seconds / steps
            self.real += seconds / steps
            self.since_jump += seconds / steps
            self.ask()
        if stopped:
            assert len(self.fired) - before <= 1  # however much was missed
        elif seconds / steps <= self.every / 2:
            assert len(self.fired) - before <= seconds / self.every + 1

    @rule(seconds=st.integers(-100_000, 100_000))
    def jump(self, seconds: int) -> None:
        self.now += seconds
        self.since_jump = 0.0
        first = self.ask()
        assert not (first and seconds < 0 and self.mark_was_ahead(seconds))
        assert not self.ask()  # not twice at one time

    def mark_was_ahead(self, seconds: int) -> bool:
        return seconds < -self.every

    @rule()
    def switch_on(self) -> None:
        self.changed = self.now
        assert not self.ask()

    @invariant()
    def goes_on(self) -> None:
        """Whatever happened, it is due again within an interval of waiting."""
        if hasattr(self, "mark"):
            said = turn(
                self.schedule,
                self.now + self.every + 1,
                last_fired_s=self.mark,
                changed_s=self.changed,
                anchor_s=self.anchor,
            )
            if self.mark is not None and self.mark <= self.now and self.changed <= self.now:
                assert said.due


TestClocked = Clocked.TestCase


@given(TIMES, st.sampled_from(ZONES), st.integers(0, 1439), st.integers(0, 1439))
def test_quiet_is_as_the_clock_on_the_wall_says(
    now_s: float, zone: str, start: int, end: int
) -> None:
    span = Quiet.parse(f"{start // 60}:{start % 60:02}-{end // 60}:{end % 60:02}", "test")
    here = datetime.fromtimestamp(now_s, ZoneInfo(zone))
    minute = here.hour * 60 + here.minute
    inside = start <= minute < end if start < end else minute >= start or minute < end
    until = span.until(now_s, zone)
    assert (until is not None) == inside
    if until is not None:
        assert now_s < until <= now_s + 25.1 * 3600


@given(TIMES, st.sampled_from(ZONES))
def test_when_quiet_hours_are_over_they_are_over(now_s: float, zone: str) -> None:
    spans = (Quiet.parse("22:00-06:00", "test"), Quiet.parse("05:00-07:30", "test"))
    until = quiet_until(spans, now_s, zone)
    if until is not None:
        assert quiet_until(spans, until, zone) is None
        wall = datetime.fromtimestamp(until, ZoneInfo(zone))
        assert (wall.hour, wall.minute) == (7, 30)


def test_quiet_over_midnight_and_through_both_changes_of_the_clock() -> None:
    night = (Quiet.parse("22:00-06:00", "test"),)
    for day, hours in (("2026-10-24", 9), ("2026-03-28", 7), ("2026-06-01", 8)):
        start = at(f"{day}T22:00")
        assert quiet_until(night, start, BERLIN) == start + hours * 3600
        assert quiet_until(night, start - 1, BERLIN) is None


@pytest.mark.parametrize("text", ["22-06", "22:00", "25:00-06:00", "22:00-06:61", "", 7])
def test_what_is_no_span_is_refused(text: object) -> None:
    with pytest.raises(RuleError, match="is not a span"):
        Quiet.parse(text, "rule x, quiet")


def test_all_day_is_quiet_for_good() -> None:
    always = (Quiet.parse("00:00-24:00", "test"),)
    assert quiet_until(always, at("2026-06-01T12:00"), BERLIN) is not None
