"""/rules: written as TOML, with mode, evaluations, interlock and backtest; /policies: what they can name;
/hold: no new automatic actions for a time."""

from __future__ import annotations

from typing import Any

from app.api.schema import (
    ANY_OBJECT,
    BOOL,
    NUMBER_OR_NULL,
    array,
    number,
    obj,
    one_of,
    page,
    text,
)
from app.api.shapes import plain, schema_of, shown
from app.api.table import DONE, PAGED, Call, Route, paged, whole_cursor
from app.problems import Problem
from control.errors import ControlError
from control.ledger import Evaluation, RuleRow
from control.people import Role
from control.policies.registry import KINDS, parameters_of

DAY_S = 86_400.0
BACK_S_MAX = 31 * DAY_S
MODES = ("off", "propose", "auto")
TEXT = text(20_000, 1, help="the rule (TOML)")
ANY = {"type": ["number", "string", "boolean", "null"]}


def rule_of(call: Call) -> RuleRow:
    row = call.store.rules.find(call.path["rule"])
    if row is None:
        raise Problem("missing", f"There is no rule {call.path['rule']!r}.")
    return row


def _shown(call: Call, row: RuleRow) -> dict[str, Any]:
    """With what its text says; a text that can no longer be read says why."""
    try:
        said, error = plain(call.parts.advice.rule(row.text)), ""
    except ControlError as found:
        said, error = {}, str(found)
    return {**shown(row), "rule": said, "error": error}


def listed(call: Call) -> dict[str, Any]:
    return {"items": [_shown(call, row) for row in call.store.rules.all()], "next": None}


def one(call: Call) -> dict[str, Any]:
    return _shown(call, rule_of(call))


def saved(call: Call) -> dict[str, Any]:
    return call.do("rule.save", call.body)


def mode(call: Call) -> dict[str, Any]:
    return call.do("rule.mode", {"rule": call.path["rule"], **call.body})


def dropped(call: Call) -> dict[str, Any]:
    return call.do("rule.drop", {"rule": call.path["rule"]})


def evaluations(call: Call) -> dict[str, Any]:
    return _evaluations(call, rule_of(call).name)


def all_evaluations(call: Call) -> dict[str, Any]:
    return _evaluations(call, "")


def _evaluations(call: Call, rule: str) -> dict[str, Any]:
    rows = call.store.rules.evaluations(
        rule=rule,
        before=whole_cursor(call),
        most=call.limit + 1,
        since_s=float(call.params.get("since_s", 0.0)),
    )
    return paged(rows, call.limit, "id", shown)


def interlock(call: Call) -> dict[str, Any]:
    """For each query that the rule is for, or for the one asked about."""
    row = rule_of(call)
    named = call.params.get("query")
    if named is not None and call.store.queries.find(named) is None:
        raise Problem("missing", f"There is no query {named!r}.")
    names = [named] if named else [query.name for query in call.store.queries.all()]
    found = [plain(call.parts.advice.interlock(row.name, name, call.now_s)) for name in names]
    return {"rule": row.name, "mode": row.mode, "items": [item for item in found if item]}


def backtest(call: Call) -> dict[str, Any]:
    return _backtest(call, rule_of(call).text)


def backtest_text(call: Call) -> dict[str, Any]:
    return _backtest(call, call.body["text"])


def _backtest(call: Call, rule: str) -> dict[str, Any]:
    body = call.body
    if call.store.queries.find(body["query"]) is None:
        raise Problem("missing", f"There is no query {body['query']!r}.")
    until_s = min(float(body.get("until_s", call.now_s)), call.now_s)
    since_s = float(body.get("since_s", until_s - DAY_S))
    if not 0 <= until_s - since_s <= BACK_S_MAX:
        raise Problem("invalid", "body.since_s: from 0 to 31 days before until_s")
    found: dict[str, Any] = plain(call.parts.advice.backtest(rule, body["query"], since_s, until_s))
    return found


def policies(call: Call) -> dict[str, Any]:
    items = [
        {
            "policy": name,
            "help": kind.help,
            "parameters": [shown(parameter) for parameter in parameters_of(name)],
        }
        for name, kind in KINDS.items()
    ]
    return {"items": items}


def hold_now(call: Call) -> dict[str, Any]:
    kept = call.store.kept.get("hold") or {}
    held = bool(kept) and float(kept.get("until_s", 0.0)) > call.now_s
    return {
        "held": held,
        "until_s": float(kept["until_s"]) if held else None,
        "since_s": kept.get("since_s") if held else None,
        "by": str(kept.get("by", "")) if held else "",
    }


def hold(call: Call) -> dict[str, Any]:
    return call.do("hold", call.body)


def release(call: Call) -> dict[str, Any]:
    return call.do("release")


RULE = schema_of(RuleRow, (), rule=ANY_OBJECT, error=text())
EVALUATION = schema_of(Evaluation)
SINCE = {"since_s": number(0, 1e11), **PAGED}
SPAN = {"since_s": number(0, 1e11), "until_s": number(0, 1e11)}
PARAMETER = obj(
    {
        "name": text(), "default": ANY, "help": text(), "unit": text(), "low": NUMBER_OR_NULL,
        "high": NUMBER_OR_NULL, "choices": array(text()),
    }
)  # fmt: skip
POLICY = obj({"policy": text(), "help": text(2_000), "parameters": array(PARAMETER)})
HOLD = obj({"held": BOOL, "until_s": NUMBER_OR_NULL, "since_s": NUMBER_OR_NULL, "by": text()})
ROUTES = (
    Route("GET", "/rules", "rules", Role.VIEWER, "every rule", listed, page(RULE)),
    Route(
        "POST", "/rules", "rule_save", Role.OPERATOR, "add or change a rule", saved, DONE,
        body=obj({"text": TEXT}), confirm=True,
    ),
    Route("GET", "/rules/{rule}", "rule", Role.VIEWER, "one rule", one, RULE),
    Route("DELETE", "/rules/{rule}", "rule_drop", Role.OPERATOR, "remove it", dropped, DONE),
    Route(
        "POST", "/rules/{rule}/mode", "rule_mode", Role.OPERATOR,
        "off, propose or auto (auto: admins)", mode, DONE, body=obj({"mode": one_of(MODES)}),
        confirm=True,
    ),
    Route(
        "GET", "/rules/{rule}/evaluations", "rule_evaluations", Role.VIEWER,
        "what it came to and why, also to nothing; the same again and again counted", evaluations,
        page(EVALUATION), params=SINCE,
    ),
    Route(
        "GET", "/evaluations", "evaluations", Role.VIEWER, "the same, of every rule",
        all_evaluations, page(EVALUATION), params=SINCE,
    ),
    Route(
        "GET", "/rules/{rule}/interlock", "rule_interlock", Role.VIEWER,
        "everything that keeps it from acting now, and when it could next", interlock,
        obj({"rule": text(), "mode": text(), "items": array(ANY_OBJECT)}),
        params={"query": text(64, 1)},
    ),
    Route(
        "POST", "/rules/{rule}/backtest", "rule_backtest", Role.OPERATOR,
        "what it would have done on what was recorded", backtest, ANY_OBJECT,
        body=obj({"query": text(64, 1)}, SPAN),
    ),
    Route(
        "POST", "/backtest", "backtest", Role.OPERATOR, "the same for a rule not yet saved",
        backtest_text, ANY_OBJECT, body=obj({"text": TEXT, "query": text(64, 1)}, SPAN),
    ),
    Route(
        "GET", "/policies", "policies", Role.VIEWER, "policies and their parameters", policies,
        obj({"items": array(POLICY)}),
    ),
    Route("GET", "/hold", "hold_now", Role.VIEWER, "is automation on hold?", hold_now, HOLD),
    Route(
        "POST", "/hold", "hold", Role.OPERATOR,
        "no new automatic actions, two hours at most unless renewed", hold, DONE,
        body=obj({}, {"seconds": number(1, 7_200)}),
    ),
    Route("DELETE", "/hold", "release", Role.OPERATOR, "end the hold", release, DONE),
)  # fmt: skip
