"""Registering a query: its file as text, or SQL and a few fields that a file is put together from.

Nothing that was typed is lost: the drawer keeps its fields when it is closed, and a refusal changes none of them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from dash import Input, Output, State, html, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import confirm, reasons, states
from app.components.kit import button, d, dmc, s
from app.desk import act, may, role
from control.kinds import KINDS
from control.people import Role

FILE_EXAMPLE = """name = "feed"
sql = \"\"\"
SELECT p.symbol, p.ts, p.price, v.volume
FROM prices AS p JOIN volumes AS v ON p.symbol = v.symbol
\"\"\"
nodes = 2
groups = 64
memory_per_node = "20MB"
window = "2 minutes"

[streams.prices]
format = "generator"
time = "ts"
options = { preset = "prices", rate = 400, start = "now" }

[streams.volumes]
format = "generator"
time = "ts"
options = { preset = "volumes", rate = 200, start = "now" }

[sink]
format = "parquet"
path = "out"
"""
STREAMS_EXAMPLE = """[streams.prices]
format = "generator"
time = "ts"
options = { preset = "prices", rate = 400, start = "now" }

[streams.volumes]
format = "generator"
time = "ts"
options = { preset = "volumes", rate = 200, start = "now" }"""
SQL_EXAMPLE = """SELECT p.symbol, p.ts, p.price, v.volume
FROM prices AS p JOIN volumes AS v ON p.symbol = v.symbol"""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
FIELDS = ("name", "sql", "streams", "nodes", "groups", "memory", "window", "sink", "path")
FILE, FORM = "A query file", "SQL and fields"


def drawer() -> Component:
    made: Component = dmc.Drawer(
        [
            d(
                _how(),
                d(_file(), id="queries-file-box"),
                d(_form(), id="queries-form-box"),
                _foot(),
                c="form",
            ),
        ],
        id="queries-new",
        title="Register a query",
        className="qu-new",
        opened=False,
        position="right",
        size=620,
        padding=0,
        zIndex=300,
        keepMounted=True,
        closeButtonProps={"aria-label": "Close"},
    )
    return made


def _how() -> Component:
    switch = dmc.SegmentedControl(
        id="queries-how",
        data=[FILE, FORM],
        value=FILE,
        size="xs",
        className="seg-c",
        **_label("How"),
    )
    return d(switch)


def _file() -> Component:
    text = dmc.Textarea(
        id="queries-text",
        label="Query file (TOML)",
        description="Paste it here. Paths must lie below the folders of the setting source_roots.",
        placeholder=FILE_EXAMPLE,
        className="field code",
        autosize=True,
        minRows=20,
        maxRows=30,
        spellCheck=False,
    )
    return d(text, d(button("Begin with an example", id="queries-example"), c="form-b"), c="stack")


def _form() -> Component:
    return d(
        d(_text("name", "Name", "orders"), _number("nodes", "Nodes", 2, 1_000),
          _number("groups", "Groups", 64, 65_536), c="form-row"),
        _area("sql", "SQL", "One SELECT that joins the streams.", SQL_EXAMPLE, 5),
        _area("streams", "Streams (TOML)", "A table for each stream that the SQL names.", STREAMS_EXAMPLE, 8),
        d(_text("memory", "Memory for each node", "20MB"), _text("window", "Window", "2 minutes"),
          _text("sink", "Sink format", "parquet"), _text("path", "Sink path", "out"), c="form-row"),
        html.Details(
            [html.Summary("The file that this makes"), html.Pre(id="queries-made", className="code-box")],
            className="details",
        ),
        c="stack",
    )  # fmt: skip


def _text(name: str, label: str, example: str) -> Component:
    made: Component = dmc.TextInput(
        id=f"queries-f-{name}", label=label, placeholder=example, className="field", size="xs"
    )
    return made


def _number(name: str, label: str, value: int, most: int) -> Component:
    made: Component = dmc.NumberInput(
        id=f"queries-f-{name}", label=label, value=value, min=1, max=most, className="field",
        size="xs", hideControls=True, allowDecimal=False,
    )  # fmt: skip
    return made


def _area(name: str, label: str, help: str, example: str, rows: int) -> Component:
    made: Component = dmc.Textarea(
        id=f"queries-f-{name}", label=label, description=help, placeholder=example,
        className="field code", autosize=True, minRows=rows, maxRows=20, spellCheck=False,
    )  # fmt: skip
    return made


def _foot() -> Component:
    start = dmc.Checkbox(id="queries-start", label="Start it at once", checked=True, size="xs")
    return d(
        d(confirm.field_of("queries-own"), id="queries-own-box", style={"display": "none"}),
        d(id="queries-said", c="form-said", role="status"),
        d(button("Register", "primary", id="queries-register"), start, c="form-b"),
        c="stack",
    )


def register(on: Callbacks) -> None:
    fields = [State(f"queries-f-{name}", "value") for name in FIELDS]
    on.callback(
        Role.VIEWER,
        Output("queries-new", "opened"),
        Output("queries-register", "disabled"),
        Output("queries-register", "title"),
        Output("queries-own-box", "style"),
        Input("queries-open", "n_clicks"),
        prevent_initial_call=True,
    )(_open)
    on.callback(
        Role.VIEWER,
        Output("queries-file-box", "style"),
        Output("queries-form-box", "style"),
        Input("queries-how", "value"),
    )(_shown)
    on.callback(
        Role.VIEWER,
        Output("queries-text", "value"),
        Input("queries-example", "n_clicks"),
        prevent_initial_call=True,
    )(_example)
    on.callback(
        Role.VIEWER,
        Output("queries-made", "children"),
        *[Input(f"queries-f-{name}", "value") for name in FIELDS],
    )(_made)
    on.callback(
        Role.ADMIN,
        Output("queries-said", "children"),
        Output("queries-text", "error"),
        Output("queries-registered", "data"),
        Output("queries-own", "value"),
        Input("queries-register", "n_clicks"),
        State("queries-how", "value"),
        State("queries-text", "value"),
        State("queries-start", "checked"),
        State("queries-own", "value"),
        *fields,
        prevent_initial_call=True,
    )(_register)


def _open(clicks: Any) -> Any:
    allowed = may("query.register")
    why = None if allowed else states.not_allowed(KINDS["query.register"].role, role())
    return bool(clicks), not allowed, why, confirm.shown("query.register")


def _shown(how: str) -> tuple[dict[str, str], dict[str, str]]:
    here: dict[str, str] = {}
    away = {"display": "none"}
    return (here, away) if how == FILE else (away, here)


def _example(clicks: Any) -> Any:
    return FILE_EXAMPLE if clicks else no_update


def _made(*values: Any) -> str:
    return composed(dict(zip(FIELDS, values, strict=True)))


def composed(given: dict[str, Any]) -> str:
    """The query file that the fields stand for. What is wrong in it, the check says."""
    lines = [f"name = {_quoted(given.get('name'))}", f'sql = """\n{_sql(given.get("sql"))}\n"""']
    lines += [f"{n} = {given[n]}" for n in ("nodes", "groups") if isinstance(given.get(n), int)]
    for name, key in (("memory", "memory_per_node"), ("window", "window")):
        if given.get(name):
            lines.append(f"{key} = {_quoted(given[name])}")
    sink = f"[sink]\nformat = {_quoted(given.get('sink') or 'parquet')}\npath = {_quoted(given.get('path') or 'out')}"
    streams = str(given.get("streams") or "").strip()
    return "\n".join(lines) + f"\n\n{streams}\n\n{sink}\n"


def _sql(value: Any) -> str:
    """Inside a TOML text of several lines."""
    text = str(value or "").replace("\r\n", "\n").strip()
    return _printed(text.replace("\\", "\\\\").replace('"""', '""\\"'))


def _quoted(value: Any) -> str:
    return _printed(json.dumps(str(value or "").strip(), ensure_ascii=False))


def _printed(text: str) -> str:
    """TOML takes no control characters but as \\u escapes."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _register(_: Any, how: str, text: Any, start: Any, own: Any, *values: Any) -> Any:
    """A sign-in may have become old while the drawer was open: then the refusal says that the password is needed."""
    file = str(text or "") if how == FILE else composed(dict(zip(FIELDS, values, strict=True)))
    if not file.strip():
        return [
            reasons.refusals((), "There is nothing to register yet."),
            None,
            no_update,
            no_update,
        ]
    if fault := confirm.fault(own):
        return [reasons.refusals((), fault), None, no_update, ""]
    answer = act("query.register", {"text": file, "start": bool(start)})
    if not answer.accepted:
        wrong = "Not registered; see below." if how == FILE else None
        return [reasons.refusals(answer.refusals, answer.text), wrong, no_update, ""]
    tree = str(answer.body.get("tree", ""))
    said = d(
        reasons.check(f"{answer.id} is registered" + (" and starts." if start else ".")),
        html.Pre(tree, className="code-box") if tree else s(""),
    )
    return [said, None, answer.id, ""]


def _label(text: str) -> Any:
    return {"aria-label": text}
