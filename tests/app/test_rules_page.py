"""Rules, as its callbacks answer a browser: a rule that is to act by itself wants the password again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from control.ledger import RuleRow
from control.rules import shipped_rules
from tests.app.dashed import Many, call, said
from tests.app.made import PASSWORD, Browser, Console

AUTO = 'name = "even"\nmode = "auto"\nevery = "15s"\n\n[policy]\nname = "relocate"\n'


@pytest.fixture
def rule(console: Console) -> str:
    shipped = next(one for one in shipped_rules() if one.mode == "propose")
    console.store.rules.keep(RuleRow(shipped.name, shipped.text, "propose", "ada", console.clock()))
    return shipped.name


def switch(browser: Browser, rule: str, mode: str) -> dict[str, Any]:
    at = json.dumps({"rule": rule, "type": "rules-mode"}, separators=(",", ":"))
    inputs = {"a.value": Many({at: mode}), "b.n_clicks": Many(), "c.n_clicks": Many()}
    return call(browser, "rules-ask.data", f"{at}.value", inputs)


def test_a_switch_to_auto_is_asked_for_when_the_sign_in_is_a_while_ago(
    console: Console, rule: str
) -> None:
    ada = console.signed_in("ada")
    assert "auto now" in switch(ada, rule, "auto")["rules-told"]["data"]["text"]
    assert "propose now" in switch(ada, rule, "propose")["rules-told"]["data"]["text"]
    console.clock.pause(console.settings.confirm_s + 1)
    asked = switch(ada, rule, "auto")["rules-ask"]["data"]
    assert console.store.rules.find(rule).mode == "propose"

    def answer(password: str | None) -> dict[str, Any]:
        return call(
            ada,
            "rules-done.data",
            "rules-confirm-yes.n_clicks",
            {"rules-confirm-yes.n_clicks": 1},
            {"rules-ask.data": asked, "rules-confirm-password.value": password},
        )

    assert "needed again" in said(answer(None)["rules-confirm-said"])
    assert console.store.rules.find(rule).mode == "propose"
    assert answer(PASSWORD)["rules-done"]["data"]["text"] == f"{rule} is auto now"
    console.clock.pause(console.settings.confirm_s + 1)
    assert "off now" in switch(ada, rule, "off")["rules-told"]["data"]["text"], (
        "off is never held up"
    )


def save(browser: Browser, text: str, own: str | None = None) -> dict[str, Any]:
    return call(
        browser,
        "rules-save-said.children",
        "rules-save.n_clicks",
        {"rules-save.n_clicks": 1},
        {"rules-text.value": text, "rules-own.value": own},
    )


def test_so_is_a_text_that_acts_by_itself(console: Console) -> None:
    ada = console.signed_in("ada")
    console.clock.pause(console.settings.confirm_s + 1)
    shown = call(ada, "rules-own-box.style", "rules-text.value", {"rules-text.value": AUTO})
    assert shown["rules-own-box"]["style"] == {}
    assert "needed again" in said(save(ada, AUTO)["rules-save-said"])
    assert "not right" in said(save(ada, AUTO, "wrong")["rules-save-said"])
    assert console.store.rules.find("even") is None
    assert "is saved" in said(save(ada, AUTO.replace("auto", "propose"))["rules-save-said"])
    assert "is saved" in said(save(ada, AUTO, PASSWORD)["rules-save-said"])
    assert console.store.rules.find("even").mode == "auto"
