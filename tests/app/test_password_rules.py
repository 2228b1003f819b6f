"""New passwords: what everybody tries first is refused, what nobody would is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.password_rules import LENGTH_MAX, LENGTH_MIN, WEIGHT_MIN, WORDS, password_fault, weight

TRIED_FIRST = (
    "1234567890", "adminadmin", "123456789012", "12345678901234567890", "adminadminadmin", "admin-admin-admin",
    "Password1234", "P@ssw0rd1234", "passwordpassword", "qwertyuiop123", "qwertyuiopasdfghjkl", "1qaz2wsx3edc",
    "q1w2e3r4t5y6", "Spillway2026!", "aaaaaaaaaaaa", "abcabcabcabc", "iloveyou1234", "Welcome12345", "Summer2026!!",
    "correcthorsebatterystaple", "abcdefghijkl", "111122223333", "administrator", "changeme1234", "trustno1trustno1",
    "monkeydragon1", "sunshine2024", "Passw0rd!Passw0rd!", "secret-password", "ababababcdcd", " " * 12,
)  # fmt: skip
GOOD = (
    "correct horse 9", "another good one", "tr4ctor-vellum-9", "xK9#mQ2$vL7p", "ein langes passwort ja", "2Rk-qOJg0aZ5",
    "πολύ καλός κωδικός",
)  # fmt: skip


@pytest.mark.parametrize("password", TRIED_FIRST)
def test_what_is_tried_first_is_refused(password: str) -> None:
    assert password_fault(password)


@pytest.mark.parametrize("password", GOOD)
def test_what_nobody_tries_is_not(password: str) -> None:
    assert password_fault(password) == ""


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("jonathan.miller", "jonathan.miller"),
        ("jonathan.miller", "Miller-Jonathan-7"),
        ("jmiller", "jmiller-jmiller1"),
        ("zebedee", "Zebedee2026!!"),
        ("zebedee", "z3b3d33z3b3d33"),
    ],
)
def test_ones_own_name_is_no_password(user: str, password: str) -> None:
    assert password_fault(password, user)


@given(
    word=st.sampled_from(sorted(WORDS)), digits=st.integers(0, 9999), end=st.sampled_from("!.?* ")
)
def test_no_common_word_with_four_digits_and_a_mark_will_do(
    word: str, digits: int, end: str
) -> None:
    """Long enough or not."""
    assert weight(f"{word.capitalize()}{digits:04d}{end}") < WEIGHT_MIN


@given(st.text(max_size=2 * LENGTH_MAX), st.text(max_size=64))
def test_any_text_is_judged(password: str, user: str) -> None:
    fault = password_fault(password, user)
    assert fault or LENGTH_MIN <= len(password) <= LENGTH_MAX
