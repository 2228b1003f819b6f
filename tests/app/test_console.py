"""The console's callbacks: each has a role, and is closed without session, with a wrong role, without CSRF."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from app.callbacks import ENDPOINT, Called
from app.desk import desk_of
from app.feed import DEAR_S, KEPT_MAX, OLD_S, Feed
from app.pages.all import modules, pages
from app.parts import parts_of
from app.sessions import sha256
from app.view import RANGES, REFRESHES, View
from control.people import Role
from tests.app.made import Browser, Console, heard

USERS = {Role.VIEWER: "vic", Role.OPERATOR: "olga", Role.ADMIN: "ada"}


def body_of(console: Console, output: str) -> dict[str, Any]:
    """A call as a browser sends it, with nothing in its inputs."""
    spec = desk_of(console.app).dash.callback_map[output]

    def filled(id: str, property: str) -> Any:
        if '["ALL"]' in id:
            return []
        named = json.loads(id.replace('["MATCH"]', '"x"')) if id.startswith("{") else id
        return {"id": named, "property": property, "value": None}

    wanted = spec["output"]
    several = isinstance(wanted, list | tuple)
    outputs = [
        filled(o.component_id_str(), o.component_property)
        for o in (wanted if several else [wanted])
    ]
    return {
        "output": output,
        "outputs": outputs if several else outputs[0],
        "inputs": [filled(one["id"], one["property"]) for one in spec["inputs"]],
        "state": [filled(one["id"], one["property"]) for one in spec["state"]],
        "changedPropIds": [],
    }


def called(console: Console) -> dict[str, Called]:
    """Those that run here, not in the browser."""
    callbacks = desk_of(console.app).callbacks
    found = {name: callbacks.find(name) for name in callbacks.outputs()}
    return {name: one for name, one in found.items() if one is not None and one.role is not None}


def call(browser: Browser, body: Any, **headers: str) -> TestResponse:
    return browser.client.post(ENDPOINT, json=body, headers={**browser.csrf, **headers})


def kind_of(answer: TestResponse) -> str:
    return str(answer.get_json()["type"]).partition("#")[2]


def test_the_registry_has_every_callback_and_nothing_else(console: Console) -> None:
    desk = desk_of(console.app)
    assert desk.callbacks.outputs() == set(desk.dash.callback_map)
    assert len(called(console)) >= 6
    console.signed_in().client.get("/overview")  # the first request adds none
    assert desk.callbacks.outputs() == set(desk.dash.callback_map)


def test_a_callback_that_nobody_registered_is_closed(console: Console) -> None:
    from dash import Input, Output

    dash = desk_of(console.app).dash
    dash.callback(Output("toast", "title"), Input("url", "hash"))(lambda _: "secret")
    body = {"output": "toast.title", "inputs": [], "state": [], "changedPropIds": []}
    answer = call(console.signed_in(), body)
    assert answer.status_code == 403
    assert "secret" not in answer.text


def test_what_runs_in_the_browser_cannot_be_called_here(console: Console) -> None:
    callbacks, browser = desk_of(console.app).callbacks, console.signed_in()
    for output in sorted(callbacks.outputs() - set(called(console))):
        assert call(browser, body_of(console, output)).status_code == 403, output


def test_without_a_session_no_callback_answers(running: Console) -> None:
    name = f"spillway_csrf_{running.settings.port}"
    for output in called(running):
        client = running.browser()
        client.set_cookie(name, "made-up")
        answer = client.post(
            ENDPOINT, json=body_of(running, output), headers={"X-CSRF-Token": "made-up"}
        )
        assert answer.status_code == 401, output


def test_a_token_does_not_open_callbacks(running: Console) -> None:
    for output in called(running):
        assert running.call("POST", ENDPOINT, json=body_of(running, output)).status_code == 401


def test_a_session_that_has_ended_is_refused(running: Console) -> None:
    browser = running.signed_in()
    running.clock.pause(running.settings.idle_s + 1)
    for output in called(running):
        answer = call(browser, body_of(running, output))
        assert (answer.status_code, kind_of(answer)) == (401, "signed-out"), output


@pytest.mark.parametrize("sent", [{}, {"X-CSRF-Token": "wrong"}], ids=["none", "wrong"])
def test_without_csrf_no_callback_answers(running: Console, sent: dict[str, str]) -> None:
    browser = running.signed_in()
    for output in called(running):
        answer = browser.client.post(ENDPOINT, json=body_of(running, output), headers=sent)
        assert (answer.status_code, kind_of(answer)) == (403, "csrf"), output
    other = running.signed_in("vic")
    for output in called(running):
        answer = browser.client.post(ENDPOINT, json=body_of(running, output), headers=other.csrf)
        assert (answer.status_code, kind_of(answer)) == (403, "csrf"), output


def test_lower_roles_are_refused_and_told_why(running: Console) -> None:
    found = called(running)
    assert {one.role for one in found.values()} >= {Role.VIEWER, Role.OPERATOR}
    for role, user in USERS.items():
        browser = running.signed_in(user)
        for output, one in found.items():
            answer = call(browser, body_of(running, output))
            assert one.role is not None
            if role.covers(one.role):
                assert answer.status_code not in (401, 403), (output, answer.text)
            else:
                assert (answer.status_code, kind_of(answer)) == (403, "role"), output
                assert answer.get_json()["needed"] == one.role


def _good(output: str) -> tuple[int, ...]:
    """A call that names none of many outputs need not be answered."""
    return (200, 204, 400) if '["ALL"]' in output else (200, 204)


def test_no_callback_fails_when_nothing_is_there_yet(console: Console) -> None:
    """No query at all, and calls with nothing in them: an empty console, not an error."""
    browser = console.signed_in()
    for output in called(console):
        answer = call(browser, body_of(console, output))
        assert answer.status_code in _good(output), (output, answer.text[:300])


def test_polls_are_no_activity_and_clicks_are(running: Console) -> None:
    browser = running.signed_in()
    before = _active_s(browser)
    running.clock.pause(60)
    heard(running)
    for output, one in called(running).items():
        if one.polls:
            assert call(browser, body_of(running, output)).status_code in _good(output)
    assert _active_s(browser) == before
    clicked = next(o for o, one in called(running).items() if not one.polls)
    call(browser, body_of(running, clicked))
    assert _active_s(browser) == running.clock()


def _active_s(browser: Browser) -> float:
    found = browser.console.store.sessions.find(sha256(browser.cookie("session")))
    assert found is not None
    return float(found.active_s)


MALFORMED = [
    [], None, 3, "x", {}, {"output": 3}, {"output": None},
    {"inputs": {}}, {"inputs": [3]}, {"inputs": [{}]}, {"state": [[3]]}, {"changedPropIds": "x"},
    {"inputs": [{"id": "poll"}]}, {"inputs": []}, {"outputs": "x"}, {"outputs": [[]]}, {"state": [{}, {}]},
]  # fmt: skip


@pytest.mark.parametrize("wrong", MALFORMED, ids=str)
def test_malformed_calls_are_told_so(running: Console, wrong: Any) -> None:
    browser = running.signed_in()
    body = (
        {**body_of(running, next(iter(called(running)))), **wrong}
        if isinstance(wrong, dict)
        else wrong
    )
    if wrong == {}:
        body = {}
    answer = call(browser, body)
    assert (answer.status_code, kind_of(answer)) == (400, "malformed"), answer.text
    raw = browser.client.post(
        ENDPOINT, data=b"{", content_type="application/json", headers=browser.csrf
    )
    assert raw.status_code == 400


@given(raw=st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=80) | st.integers(),
       lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(
           ["query", "range", "refresh", "zone_min", "theme", "width"]), inside), max_leaves=12))  # fmt: skip
def test_a_view_is_always_one_of_ours(raw: Any) -> None:
    view = View.of(raw)
    assert view.range in RANGES
    assert view.refresh in REFRESHES
    assert view.theme in ("light", "dark")
    assert abs(view.zone_min) <= 14 * 60
    assert 200 <= view.width <= 10_000
    assert len(view.query) <= 64
    again = {"query": view.query, "range": view.range, "refresh": view.refresh, "theme": view.theme,
             "zone_min": view.zone_min, "width": view.width}  # fmt: skip
    assert View.of(json.loads(json.dumps(again))) == view


def test_pages_have_paths_letters_and_skeletons_without_data() -> None:
    found = pages()
    assert len({page.path for page in found}) == len(found)
    for module in modules():
        skeleton = json.dumps(
            module.layout().to_plotly_json(), default=lambda c: c.to_plotly_json()
        )
        assert len(skeleton) < 60_000, module.__name__
        module.layout(query="x", action="y", anything="z")


def test_who_may_not_see_a_page_sees_why(running: Console) -> None:
    router = next(o for o in called(running) if "_pages_content" in o)
    for module in modules():
        body = body_of(running, router)
        for one, value in zip(body["inputs"], (module.PAGE.href, ""), strict=True):
            one["value"] = value
        for role, user in USERS.items():
            answer = call(running.signed_in(user), body)
            refused = "is not for your role" in answer.text
            assert refused == (not role.covers(module.PAGE.role)), (module.PAGE.path, role)


# -- the feed ----------------------------------------------------------------------------------------------------


def test_of_many_who_ask_at_once_one_reads(running: Console) -> None:
    feed, reads = Feed(parts_of(running.app)), []

    def read() -> int:
        reads.append(1)
        return len(reads)

    assert [feed.kept("x", 1.0, read) for _ in range(5)] == [1] * 5
    running.clock.pause(1.0)
    assert feed.kept("x", 1.0, read) == 2
    running.clock.pause(-500)
    assert feed.kept("x", 1.0, read) == 3  # from the future: not younger than it is
    feed.forget()
    assert feed.kept("x", 1.0, read) == 4


def test_what_is_dear_is_given_at_once_and_made_anew_behind(running: Console) -> None:
    feed, made = Feed(parts_of(running.app)), iter(range(100))
    assert feed.kept_behind("x", lambda: next(made)) == 0
    running.clock.pause(DEAR_S)
    assert feed.kept_behind("x", lambda: next(made)) == 0  # the old one, and another is ordered
    feed._behind.submit(int).result()  # whatever was ordered is made by then
    assert feed.kept_behind("x", lambda: next(made)) == 1
    feed.close()
    feed = Feed(parts_of(running.app))
    assert feed.kept_behind("x", lambda: 7) == 7
    running.clock.pause(OLD_S)
    assert feed.kept_behind("x", lambda: 8) == 8  # too old to be shown: waited for
    feed.close()


def test_what_is_old_is_let_go_and_what_is_young_is_kept(running: Console) -> None:
    """Most keys name a tick: without that a console would grow with every tick that somebody looks at."""
    feed = Feed(parts_of(running.app))
    for tick in range(100):
        feed.kept(("tick", tick), 5.0, lambda tick=tick: tick)
        running.clock.pause(1.0)
    assert len(feed._kept) <= 6
    assert feed.kept(("tick", 99), 5.0, lambda: -1) == 99
    for tick in range(2 * KEPT_MAX):
        feed.kept(("more", tick), 5.0, lambda tick=tick: tick)
    assert len(feed._kept) <= KEPT_MAX
    assert feed.kept(("more", 2 * KEPT_MAX - 1), 5.0, lambda: -1) == 2 * KEPT_MAX - 1


def test_what_was_read_before_somebody_acted_is_not_kept(running: Console) -> None:
    feed = Feed(parts_of(running.app))

    def read() -> str:
        feed.forget()
        return "before"

    assert feed.kept("x", 5.0, read) == "before"
    assert feed.kept("x", 5.0, lambda: "after") == "after"
    assert feed.kept_soon("y", 1.0, lambda: 1) == 1
    running.clock.pause(1.0)
    assert feed.kept_soon("y", 1.0, lambda: 2) == 1
    feed._behind.submit(int).result()
    assert feed.kept_soon("y", 1.0, lambda: 3) == 2
    running.clock.pause(OLD_S)
    assert feed.kept_soon("y", 1.0, lambda: 4) == 4
    feed.close()
