"""Policy files and scripts: what they may say, and what is said of their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.adapt.policy import load
from engine.errors import SettingError


def test_a_policy_file(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        'policy = "lazy_disk"\nratio = 0.7\ninterval_s = 2\nhold = true\n'
        '[limits]\naction_bytes_max = "50MB"\ncooldown_s = 10\nsteps_max = 3\n'
    )
    policy = load(path, None)
    assert (policy.kind.name, policy.interval_s, policy.hold) == ("lazy_disk", 2.0, True)
    assert policy.limits.action_bytes_max == 50_000_000
    assert (policy.limits.cooldown_s, policy.limits.steps_max) == (10.0, 3)
    assert policy.conduct.local.spill_percent == 30.0


def test_a_script_in_the_order_of_its_ticks(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        '[[at]]\ntick = 7\ndo = "move"\nnode = 0\nto = 1\ngroups = [1, 2]\noperator = "join-1"\n'
        '[[at]]\ntick = 2\ndo = "budget"\nnode = 1\nbytes = "10MB"\n'
        '[[at]]\ntick = 7\ndo = "cancel"\n'
    )
    policy = load(None, path)
    assert [r.do for r in policy.due(1)] == []
    (budget,) = policy.due(5)
    assert (budget.do, budget.node, budget.bytes) == ("budget", 1, 10_000_000)
    move, cancel = policy.due(7)
    assert (move.to, move.groups, move.operator, cancel.do) == (1, (1, 2), "join-1", "cancel")
    assert policy.due(100) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('policy = "lazy_dsk"', "did you mean 'lazy_disk'"),
        ("", "`policy` is None"),
        ('policy = "lazy_disk"\nrato = 0.5', "did you mean ratio?"),
        ('policy = "lazy_disk"\nratio = 3.0', "out of range"),
        ('policy = "none"\nhold = 1', "true or false"),
        ('policy = "none"\ninterval_s = -1', "at least 0"),
        ('policy = "none"\n[limits]\nbytes = 3', "no limit 'bytes'"),
        ('policy = "none"\n[limits]\naction_bytes_max = "much"', "not a size"),
        ("policy = ", "is not TOML"),
    ],
)
def test_mistakes_in_a_policy_file(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(SettingError) as error:
        load(path, None)
    assert said in str(error.value)
    assert "p.toml" in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has [[at]] tables"),
        ('[[at]]\ndo = "spill"\nnode = 0', "needs `tick` and `do`"),
        ('[[at]]\ntick = 1\ndo = "split"\nnode = 0', "needs `tick` and `do`"),
        ('[[at]]\ntick = 1\ndo = "spill"', "needs `node`"),
        ('[[at]]\ntick = 1\ndo = "spill"\nnode = "a"', "node cannot be 'a'"),
        ('[[at]]\ntick = 1\ndo = "spill"\nnode = 0\ngroup = 3', "no key 'group'"),
        ('[[at]]\ntick = 1\ndo = "budget"\nnode = 0', "needs `bytes`"),
        ('[[at]]\ntick = 1\ndo = "spill"\nnode = 0\ngroups = ["x"]', "groups are numbers"),
    ],
)
def test_mistakes_in_a_script(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(SettingError) as error:
        load(None, path)
    assert said in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        load(tmp_path / "none.toml", None)
