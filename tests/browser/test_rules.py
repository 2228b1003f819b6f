"""Rules in Chromium: modes and who may switch them, the editor's live checks, a backtest, holding automation."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from control.handling.plans import HOLD
from control.ledger import Evaluation
from control.rules import shipped_rules
from tests.browser.conftest import Visit
from tests.browser.stage import QUERY, Stage
from tests.up import until

GOOD = 'name = "mine"\nmode = "propose"\nevery = "30s"\n\n[policy]\nname = "relocate"\nratio = {ratio}\n'


def switch(page: Page, name: str, mode: str) -> None:
    page.get_by_role("radiogroup", name=f"Mode of {name}").get_by_text(mode, exact=True).click()


def test_each_rule_says_what_holds_it(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/rules")
    expect(page.locator(".ru")).to_have_count(len(shipped_rules()))
    expect(
        page.locator(".ru", has=page.get_by_role("button", name="relocate", exact=True)).locator(
            ".ru-l"
        )
    ).to_have_text("off: it is not even asked")
    expect(page.locator("#rules-for")).to_have_text("best_gain")
    expect(page.locator("#rules-blockers .ck").first).to_be_visible()
    expect(page.locator("#rules-budget")).to_contain_text("of 100 GB")
    watch.nothing()


def test_an_operator_may_propose_but_not_switch_to_auto(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/rules")
    one = page.get_by_role("radiogroup", name="Mode of relocate")
    switch(page, "relocate", "propose")
    expect(page.locator("#rules-said")).to_contain_text("relocate is propose now")
    assert stage.store.rules.find("relocate").mode == "propose"
    expect(page.locator("#rules-foot")).to_contain_text("Needs the role admin; you are operator.")
    expect(one.get_by_role("radio", name="auto")).to_be_disabled()
    switch(page, "relocate", "off")
    expect(page.locator("#rules-said")).to_contain_text("relocate is off now")
    watch.nothing()


def test_an_admin_switches_to_auto(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/rules", "ada")
    switch(page, "lazy_disk", "auto")
    expect(page.locator("#rules-said")).to_contain_text("lazy_disk is auto now")
    row = stage.store.rules.find("lazy_disk")
    assert (row.mode, row.editor) == ("auto", "ada")
    switch(page, "lazy_disk", "off")
    expect(page.locator("#rules-said")).to_contain_text("lazy_disk is off now")
    watch.nothing()


def test_what_is_written_is_checked_saved_and_deleted(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/rules?pane=text")
    page.fill("#rules-text", GOOD.format(ratio="1.8"))
    expect(page.locator("#rules-check")).to_contain_text("line 7: 1.8 is out of range")
    expect(page.locator("#rules-gutter .bad")).to_have_text("▸7")
    expect(page.locator("#rules-save")).to_be_disabled()
    page.fill("#rules-text", GOOD.format(ratio="0.8").replace('"propose"', '"auto"'))
    expect(page.locator("#rules-save-why")).to_have_text("Needs the role admin; you are operator.")
    page.fill("#rules-text", GOOD.format(ratio="0.8"))
    expect(page.locator("#rules-check")).to_contain_text("Reads well: mine")
    page.click("#rules-save")
    expect(page.locator("#rules-head h2")).to_have_text("mine")
    page.wait_for_url(re.compile(r"rule=mine"))
    assert stage.store.rules.find("mine").editor == "olga"
    page.locator("#rules-head").get_by_role("button", name="Delete").click()
    expect(page.locator("#rules-confirm-text")).to_contain_text("mine is removed")
    page.click("#rules-confirm-yes")
    expect(page.locator(".ru", has_text="mine")).to_have_count(0)
    assert stage.store.rules.find("mine") is None
    watch.nothing()


def test_a_new_rule_begins_with_a_policy(visit: Visit) -> None:
    page, watch = visit("/rules")
    page.click("#rules-new")
    expect(page.locator("#rules-text")).to_have_value(re.compile('name = "best_gain"'))
    page.click("#rules-begin")
    page.get_by_role("option", name="lazy_disk").click()
    expect(page.locator("#rules-text")).to_have_value(re.compile('name = "lazy_disk"'))
    expect(page.locator("#rules-check")).to_contain_text("Reads well")
    watch.nothing()


def test_evaluations_say_why_also_nothing_was_done(visit: Visit, stage: Stage) -> None:
    now_s = stage.clock.now_s
    said = {"why": "nothing gains enough", "reasons": [["input", "least / most", [["ratio", 0.9]]]]}
    stage.store.rules.evaluated(
        Evaluation("best_gain", QUERY, now_s - 90, now_s, 1, "nothing", said)
    )
    stage.tick(3.0)
    page, watch = visit("/rules?rule=best_gain&pane=log")
    line = page.locator("#rules-log .ev").first
    expect(line).to_contain_text("nothing gains enough")
    line.click()
    expect(page.locator("#rules-log .ev-more").first).to_contain_text("least / most (ratio 0.90)")
    watch.nothing()


def test_a_backtest_is_run_and_drawn(visit: Visit) -> None:
    page, watch = visit("/rules?rule=relocate")
    page.click("#rules-run")
    expect(page.locator("#rules-bt-sub")).to_contain_text("relocate: recorded")
    expect(page.locator("#rules-stats")).to_contain_text("fires")
    expect(page.locator("#rules-plot .main-svg").first).to_be_visible()
    page.locator(".ru-n", has_text="night_cleanup").click()
    expect(page.locator("#rules-bt-none")).to_contain_text("Not run yet")
    watch.nothing()


def test_a_hold_is_said_renewed_and_ended(visit: Visit, stage: Stage) -> None:
    page, watch = visit("/rules")
    page.click("#hold")
    expect(page.locator("#rules-hold")).to_contain_text("Automation is on hold by olga")
    until_s = stage.store.kept.get(HOLD)["until_s"]
    stage.tick(60.0)
    page.get_by_role("button", name="Two hours more").click()
    until(lambda: stage.store.kept.get(HOLD)["until_s"] >= until_s + 60, 20, "a later end")
    page.get_by_role("button", name="Let rules act").click()
    expect(page.locator("#rules-hold .ru-hold")).to_have_count(0)
    watch.nothing()


def test_a_viewer_reads_and_sees_why_not(visit: Visit) -> None:
    page, watch = visit("/rules?pane=text", "vic", width=390, height=844, theme="light")
    expect(page.locator("#rules-foot")).to_contain_text("Needs the role operator; you are viewer.")
    expect(page.locator("#rules-save")).to_be_disabled()
    expect(page.locator("#rules-run")).to_be_disabled()
    expect(page.locator("#rules-head .btn")).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth <= 390")
    watch.nothing()
