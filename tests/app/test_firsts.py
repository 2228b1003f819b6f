"""What a first start makes and a later one renews: the first password, this machine's token, tokens that end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import run
from app import firsts
from app.tokens import find
from control.handling.base import TOKEN_S
from control.people import Role
from db.open import open_store
from tests.app.made import START_S, Browser, Clock, Console, begin
from tests.before import PASSWORDS, unpack

URL = "http://127.0.0.1:1"
DAY_S = 86_400.0


def kept(folder: Path) -> str:
    return str(json.loads((folder / "ctl.json").read_text())["token"])


def status(console: Console, token: str) -> int:
    sent = {"Authorization": f"Bearer {token}"}
    return console.browser().get("/api/v1/session", headers=sent).status_code


def renew(console: Console) -> str:
    firsts.local_token(console.store, console.folder / "ctl.json", URL, console.clock())
    return kept(console.folder)


def test_this_machines_token_is_renewed_and_the_one_before_goes_on(console: Console) -> None:
    first = renew(console)
    assert renew(console) == first
    assert (console.folder / "ctl.json").stat().st_mode & 0o777 == 0o600
    console.clock.pause(TOKEN_S * 0.6)
    second = renew(console)
    assert second != first
    assert status(console, first) == status(console, second) == 200
    console.clock.pause(TOKEN_S * 0.5)
    assert (status(console, first), status(console, second)) == (401, 200)
    console.clock.pause(10 * TOKEN_S)
    assert status(console, renew(console)) == 200, "however long nothing was started"


@pytest.mark.parametrize("ended", ["revoked", "disabled", "role", "password"])
def test_this_machines_token_works_whatever_became_of_its_owner(
    console: Console, ended: str
) -> None:
    first, store, now_s = renew(console), console.store, console.clock()
    store.users.set_role("olga", Role.ADMIN)
    if ended == "revoked":
        store.tokens.revoke(store.tokens.of("ada")[0].id, now_s)
    elif ended == "disabled":
        store.users.set_disabled("ada", True)
    elif ended == "role":
        store.users.set_role("ada", Role.VIEWER)
    else:
        store.users.set_password("ada", "-", now_s)
    after = renew(console)
    assert (after == first) == (ended == "password")
    found = find(store, after, now_s)
    assert found is not None
    assert found.role is Role.ADMIN


def test_another_address_is_written_and_the_token_stays(console: Console) -> None:
    first = renew(console)
    path = console.folder / "ctl.json"
    firsts.local_token(console.store, path, "http://127.0.0.1:2", console.clock())
    assert json.loads(path.read_text()) == {"url": "http://127.0.0.1:2", "token": first}


def test_the_first_password_is_told_to_nobody_but_its_owner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output that is not a terminal goes into a log that others may read."""
    data = tmp_path / "data"
    password = run._prepare(data, URL, demo=False, token_s=TOKEN_S)
    assert password
    run._tell_first(data, password)
    told, path = capsys.readouterr(), data / firsts.FIRST_PASSWORD
    assert password not in told.out + told.err
    assert str(path) in told.out
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() == password
    assert run._prepare(data, URL, demo=False, token_s=TOKEN_S) == ""
    assert path.exists(), "until it is changed"

    console = begin(data, Clock())
    admin = Browser(console, console.browser())
    assert admin.sign_in("admin", password).status_code == 303
    assert admin.client.get("/overview").headers["Location"] == "/password"
    sent = {"csrf": admin.cookie("csrf"), "current": password, "password": "my very own 78",
            "again": "my very own 78"}  # fmt: skip
    assert admin.client.post("/password", data=sent).headers["Location"] == "/"
    assert admin.client.get("/overview").status_code == 200
    firsts.drop_first_password(console.store, data)
    assert not path.exists()
    console.store.close()


def test_on_a_terminal_it_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run._tell_first(tmp_path, "the-first-one")
    assert "password the-first-one " in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_up_renews_while_it_runs(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"steady": 0.0, "time": START_S}
    monkeypatch.setattr("run.time.monotonic", lambda: now["steady"])
    monkeypatch.setattr("run.time.time", lambda: now["time"])
    look = run._upkeep(console.folder, URL, TOKEN_S)
    look()
    assert not (console.folder / "ctl.json").exists(), "not at each look"
    now["steady"] += run.UPKEEP_S
    look()
    first = kept(console.folder)
    now["steady"] += run.UPKEEP_S
    now["time"] += 0.9 * TOKEN_S
    look()
    assert kept(console.folder) != first


# -- a folder of before --------------------------------------------------------------------------------


def upgraded(tmp_path: Path, token_days: int = 90) -> tuple[Console, dict[str, str]]:
    """As `up` and its console begin on it."""
    before = unpack(tmp_path / "before")
    run._prepare(before.data, URL, demo=False, token_s=token_days * DAY_S)
    store = open_store(before.data)
    clock = Clock(max(token.created_s for token in store.tokens.all()) + 60)
    firsts.limit_tokens(store, clock(), token_days * DAY_S)
    store.close()
    console = begin(before.data, clock, token_s=token_days * DAY_S)
    return console, {**before.tokens, "local": kept(before.data)}


def test_tokens_of_before_go_on_and_end_after_the_longest_life(tmp_path: Path) -> None:
    console, tokens = upgraded(tmp_path)
    ends = {token.name: token.expires_s for token in console.store.tokens.all()}
    assert ends["endless"] == ends["endless-admin"] == console.clock() + 90 * DAY_S
    assert ends["month"] < ends["endless"], "an end that was nearer stays"
    for name, token in tokens.items():
        assert status(console, token) == (401 if name == "revoked-after" else 200), name
    line = console.store.audit.page(what="token.limit")[0]
    assert "end in 90 days now" in line.detail
    assert firsts.limit_tokens(console.store, console.clock() + DAY_S, 90 * DAY_S) == 0, "once"
    assert ends["endless"] == next(
        t.expires_s for t in console.store.tokens.all() if t.name == "endless"
    )
    console.clock.pause(90 * DAY_S)
    assert status(console, tokens["endless"]) == 401
    assert status(console, tokens["endless-admin"]) == 401
    assert status(console, renew(console)) == 200
    console.store.close()


def test_a_shorter_life_holds_for_tokens_that_are_there(tmp_path: Path) -> None:
    console, tokens = upgraded(tmp_path, 7)
    console.clock.pause(7 * DAY_S)
    assert {status(console, tokens[name]) for name in ("endless", "endless-admin", "month")} == {
        401
    }
    console.store.close()


def test_short_passwords_of_before_sign_in_and_change_to_a_good_one(tmp_path: Path) -> None:
    console, _ = upgraded(tmp_path)
    real: Any = firsts.Passwords()
    for name, password in PASSWORDS.items():
        tried = real.check(console.store, name, password, "::1", console.clock())
        assert tried.user is not None, name
        assert not tried.user.must_change
    vera = console.signed_in("vera", PASSWORDS["vera"])
    sent = {"current": PASSWORDS["vera"], "password": "12345678901"}
    assert vera.send("POST", "/session/password", sent).status_code == 422
    sent["password"] = "tr4ctor-vellum-9"
    assert vera.send("POST", "/session/password", sent).status_code == 200
    console.store.close()
