"""`run.py user …` on the store itself."""

from __future__ import annotations

import argparse
import io

from app import users_cli
from control.dispatch import Dispatcher
from control.people import Role
from tests.app.made import PASSWORD, Browser, Console


def run(console: Console, line: str, *asked: str, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, stdout, stderr. `asked`: what is typed when a password is asked for."""
    top = argparse.ArgumentParser()
    users_cli.add_parser(top.add_subparsers())
    answers = list(asked)
    out, err = io.StringIO(), io.StringIO()
    code = users_cli.run(
        top.parse_args(["user", *line.split()]),
        console.store,
        Dispatcher(console.store, console.clock),
        passwords=console.passwords,
        ask=lambda _: answers.pop(0),
        stdin=io.StringIO(stdin),
        out=out,
        err=err,
    )
    return code, out.getvalue(), err.getvalue()


def test_added_users_can_sign_in(console: Console) -> None:
    assert run(console, "add eve operator", PASSWORD, PASSWORD)[0] == 0
    console.signed_in("eve")
    assert run(console, "add bob --password-stdin", stdin="long enough 1\nmore\n")[0] == 0
    console.signed_in("bob", "long enough 1")
    code, out, _ = run(console, "list")
    assert code == 0
    assert "eve" in out
    assert "operator" in out
    assert "argon2" not in out


def test_passwords_must_agree_and_be_good(console: Console) -> None:
    code, _, err = run(console, "add eve viewer", PASSWORD, "another one 1")
    assert code == 2
    assert "differ" in err
    assert run(console, "add eve viewer", "short", "short")[0] == 2
    assert console.store.users.find("eve") is None


def test_role_disable_enable_password_unlock(console: Console) -> None:
    assert run(console, "role vic operator")[0] == 0
    assert console.store.users.find("vic").role is Role.OPERATOR
    assert run(console, "disable vic")[0] == 0
    assert Browser(console, console.browser()).sign_in("vic", PASSWORD).status_code == 401
    assert run(console, "enable vic")[0] == 0
    assert run(console, "password vic", "brand new one 2", "brand new one 2")[0] == 0
    for _ in range(6):
        Browser(console, console.browser()).sign_in("vic", "wrong")
    assert Browser(console, console.browser()).sign_in("vic", "brand new one 2").status_code == 429
    assert run(console, "unlock vic")[0] == 0
    console.signed_in("vic", "brand new one 2")


def test_refusals(console: Console) -> None:
    code, _, err = run(console, "disable ada")
    assert code == 1
    assert "last admin" in err
    assert run(console, "role none viewer")[0] == 1
    assert run(console, "add ada viewer", PASSWORD, PASSWORD)[0] == 1


def test_it_is_in_the_audit_without_the_password(console: Console) -> None:
    run(console, "add eve viewer", PASSWORD, PASSWORD)
    line = console.store.audit.page(what="user.add")[0]
    assert (line.user, line.source, line.subject) == ("(command line)", "cli", "eve")
    assert PASSWORD not in line.detail
    assert "argon2" not in line.detail


def test_a_token_is_made_on_the_machine_itself_and_ends(console: Console) -> None:
    code, out, err = run(console, "token vic nightly")
    assert code == 0, err
    sent = {"Authorization": f"Bearer {out.strip()}"}
    session = console.browser().get("/api/v1/session", headers=sent).get_json()
    assert (session["user"], session["role"]) == ("vic", "viewer")
    token = console.store.tokens.of("vic")[0]
    assert (token.name, token.expires_s) == ("nightly", console.clock() + console.settings.token_s)
    line = console.store.audit.page(what="user.token")[0]
    assert (line.user, line.source, line.subject) == ("(command line)", "cli", "vic")
    assert token.sha256 not in line.detail
    assert run(console, "token vic big --scope admin")[0] == 1
    assert run(console, "token nobody x")[0] == 1
    assert run(console, "token vic long --days 9999")[0] == 1
    assert len(console.store.tokens.of("vic")) == 1


def test_who_types_a_password_at_the_machine_need_not_change_it(console: Console) -> None:
    assert run(console, "password vic", "brand new one 2", "brand new one 2")[0] == 0
    assert console.signed_in("vic", "brand new one 2").client.get("/overview").status_code == 200


def test_the_users_own_name_is_refused(console: Console) -> None:
    code, _, err = run(console, "add zebedee viewer", "Zebedee-2026", "Zebedee-2026")
    assert code == 2
    assert "first that are tried" in err
