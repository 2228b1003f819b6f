"""What the terminal shows, the summary's exact shape, and the settings table."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine.errors import SettingError
from engine.progress import Rates, RunSummary, TerminalProgress, bar, bytes_text, rows_text
from engine.reports import NodeReport, TickReport
from engine.settings import TABLE, Settings, show

NODES = tuple(
    NodeReport(
        n,
        10,
        20,
        0.1,
        0.1,
        memory_bytes=mb * 1_000_000,
        disk_bytes=0,
        checkpoint_bytes=0,
        held_rows=0,
    )
    for n, mb in enumerate((4, 2, 0))
)
REPORT = TickReport(
    query="tri",
    version=1,
    tick=0,
    time_s=100.0,
    until_s=99.5,
    seconds=0.5,
    rows_in=1000,
    rows_out=3000,
    null_key_rows=2,
    late_rows=1,
    held_rows=0,
    nodes=NODES,
    groups=(),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_summary_has_exactly_these_fields() -> None:
    summary = RunSummary("tri", 2, 30, 40, 1.5, 3.25, (1.0, 0.5), 100, 0, 0, 7)
    line = summary.to_json()
    assert "\n" not in line
    assert json.loads(line) == {
        "query": "tri",
        "ticks": 2,
        "rows_in": 30,
        "rows_out": 40,
        "seconds": 1.5,
        "seconds_startup": 3.25,
        "tick_seconds": [1.0, 0.5],
        "state_bytes": 100,
        "spilled_bytes": 0,
        "late_rows": 0,
        "null_key_rows": 7,
    }


def test_lines_when_not_a_terminal_at_most_one_a_second() -> None:
    out, clock = io.StringIO(), Clock()
    progress = TerminalProgress(out, clock=clock)
    for now in (0.0, 0.3, 0.9, 1.1):
        clock.now = now
        progress.publish(REPORT)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2 and "\x1b" not in out.getvalue()
    assert lines[0] == ("tri: tick 0 in 0.50 s | in 2000 rows/s | out 6000 rows/s | state 6.0 MB")


def test_block_is_drawn_over_itself() -> None:
    out = Terminal()
    progress = TerminalProgress(out)
    progress.publish(REPORT)
    first = out.getvalue()
    progress.publish(replace(REPORT, version=2, tick=1, time_s=101.0))
    assert f"\x1b[{first.count(chr(10))}F" in out.getvalue()
    assert "node 0   " + "█" * 24 + "   4.0 MB" in first
    assert "node 1   " + "█" * 12 + " " * 12 in first
    assert "null keys 4   late 2" in out.getvalue()[len(first) :]


def test_block_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "6")
    out = Terminal()
    TerminalProgress(out).publish(replace(REPORT, nodes=NODES * 20))
    lines = out.getvalue().replace("\x1b[2K", "").removesuffix("\x1b[0J").splitlines()
    assert len(lines) <= 5 and all(len(line) < 30 for line in lines)


def test_held_rows_show() -> None:
    out = io.StringIO()
    TerminalProgress(out).publish(replace(REPORT, tick=None, held_rows=25_000))
    assert "tick -" in out.getvalue() and "held 25.0 k rows" in out.getvalue()


@pytest.mark.parametrize("mode", ["auto", "block", "lines", "off"])
def test_a_terminal_that_goes_away_does_not_end_the_query(mode: str) -> None:
    out = io.StringIO()
    progress = TerminalProgress(out, mode=mode)
    out.close()
    progress.publish(REPORT)
    progress.publish(REPORT)


def test_off_shows_nothing() -> None:
    out = Terminal()
    TerminalProgress(out, mode="off").publish(REPORT)
    assert out.getvalue() == ""


def test_several_queries_take_turns_in_lines() -> None:
    out, clock = io.StringIO(), Clock()
    progress = TerminalProgress(out, clock=clock, queries=["tri", "two"])
    for now in range(8):
        clock.now = float(now)
        progress.publish(REPORT)
        progress.publish(replace(REPORT, query="two"))
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == ["tri", "two"] * 4


def test_several_queries_have_a_line_each_in_the_block() -> None:
    out = Terminal()
    progress = TerminalProgress(out, queries=["tri", "other"])
    progress.publish(REPORT)
    lines = out.getvalue().replace("\x1b[2K", "").splitlines()
    assert lines[0].startswith("tri    tick 0 ") and lines[1] == "other  no tick yet"
    progress.note("error: it broke")
    said = out.getvalue().rsplit("\x1b[2F", 1)[1]
    assert said.startswith("\x1b[0Jerror: it broke\n\x1b[2Ktri "), "above the block"


def test_notes_are_told_whatever_the_mode() -> None:
    for mode in ("off", "lines", "block"):
        out = Terminal()
        TerminalProgress(out, mode=mode).note("warning: low")
        assert out.getvalue() == "warning: low\n"


def test_rates_are_over_the_last_seconds() -> None:
    rates = Rates(window_s=5)
    assert rates.per_second() == (0, 0)
    rates.add(replace(REPORT, time_s=10.0, seconds=1.0, rows_in=10**9))
    for second in range(20, 26):
        rates.add(replace(REPORT, time_s=float(second), seconds=1.0, rows_in=600, rows_out=1200))
    assert rates.per_second() == (600, 1200)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (250_000_000, "250 MB"), (3.5e12, "3.5 TB")],
)
def test_bytes_text(size: float, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("rows", "text"),
    [(0, "0"), (9999, "9999"), (12_345, "12.3 k"), (12_345_678, "12.3 M"), (2e9, "2.0 G")],
)
def test_rows_text(rows: float, text: str) -> None:
    assert rows_text(rows) == text


@given(part=st.floats(0, 1e12), whole=st.floats(0, 1e12), width=st.integers(1, 80))
def test_bar_has_its_width(part: float, whole: float, width: int) -> None:
    assert len(bar(part, whole, width)) == width


# -- settings ---------------------------------------------------------------------------------------


def test_file_environment_flag_in_this_order(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('driver_memory = "3g"\nhold_bytes_max = "2MB"\ntrigger_seconds = 2\n')
    environment = {"SPILLWAY_DRIVER_MEMORY": "4g", "SPILLWAY_TRIGGER_SECONDS": "3"}
    settings = Settings.load({"trigger_seconds": 4}, environment=environment, file=file)
    assert settings.hold_bytes_max == 2_000_000
    assert settings.driver_memory == "4g"
    assert settings.trigger_seconds == 4
    assert settings.segment_bytes_max == 8 << 20


def test_settings_file_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('driver_memory = "3g"')
    assert Settings.load(environment={"SPILLWAY_SETTINGS": str(file)}).driver_memory == "3g"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("trigger_seconds", "soon", "a number is needed"),
        ("trigger_seconds", "nan", "must be from 0"),
        ("trigger_seconds", "-1", "must be from 0"),
        ("segment_bytes_max", "1kB", "must be at least 65536 bytes"),
        ("segment_bytes_max", "large", "a size is needed"),
        ("driver_memory", "2 gigs", 'must be like "512m"'),
        ("mem_dir", "", "a folder is needed"),
        ("progress", "loud", "must be one of auto"),
        ("colour", "red", "unknown setting 'colour'"),
    ],
)
def test_settings_are_checked(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Settings.load({name: value}, environment={})


def test_settings_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        Settings.load(environment={}, file=tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("=")
    with pytest.raises(SettingError, match="is not TOML"):
        Settings.load(environment={}, file=tmp_path / "bad.toml")


def test_every_setting_is_shown_and_its_default_is_valid() -> None:
    settings = Settings.load(environment={}, file=None)
    assert list(asdict(settings)) == [row.name for row in TABLE]
    shown = show(settings)
    assert all(row.name in shown and row.variable in shown and row.help in shown for row in TABLE)


def test_settings_are_used_somewhere() -> None:
    root = Path(__file__).parents[2]
    files = [root / "run.py", *(root / "engine").rglob("*.py")]
    code = "".join(p.read_text() for p in files if p.name != "settings.py")
    assert [row.name for row in TABLE if f"settings.{row.name}" not in code] == []
