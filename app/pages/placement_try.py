"""Trying out on Placement: what would come of a selection and a draft, adding to the draft, proposing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dash import ALL, Input, Output, State, ctx, no_update

from app.callbacks import Callbacks
from app.components import states
from app.components.reasons import refused
from app.components.steps import VERBS
from app.components.units import counted
from app.desk import act, feed, may, role
from app.guard import who
from app.pages import placement_panel as shown
from app.pages import placement_what as what
from app.pages.page import POLLED, Seen, look, mark
from app.parts import parts
from control.companions import sharing, taken_along
from control.errors import ControlError
from control.handling.base import Ports, running
from control.handling.plans import left_of_day
from control.kinds import KINDS, Answer, Asked
from control.learn import numbers
from control.people import Role
from control.plans import Step, pairs_of, step_to_json
from control.snapshot import ClusterSnapshot, Longs

PRICED_S = 4.0  # a prediction is made anew so often while somebody looks at it
MANY, MANY_S = 400, 30.0  # with so many groups, as it takes longer
DO = {"type": "placement-do", "do": ALL}
HIDDEN = {"display": "none"}
DROP = {"type": "placement-drop", "at": ALL}


def register(on: Callbacks) -> None:
    on.callback(
        Role.VIEWER,
        Output("placement-what-mark", "data"),
        Output("placement-head", "children"),
        Output("placement-what", "children"),
        Output("placement-draft-list", "children"),
        Output("placement-drops", "data"),
        Output("placement-target", "style"),
        Output("placement-from", "children"),
        Output("placement-to", "data"),
        Output("placement-to", "value"),
        Output("placement-to-note", "children"),
        Output(DO, "disabled"),
        Output(DO, "title"),
        Output(DO, "className"),
        Output("placement-drain", "disabled"),
        Output("placement-drain", "title"),
        Output("placement-propose", "disabled"),
        Output("placement-add", "disabled"),
        Output("placement-propose-draft", "disabled"),
        Output("placement-undraft", "disabled"),
        Output("placement-draft-do", "style"),
        Output("placement-why", "children"),
        *POLLED,
        Input("placement-selected", "data"),
        Input("placement-doing", "data"),
        Input("placement-to", "value"),
        Input("placement-draft", "data"),
        State("placement-what-mark", "data"),
        polls=True,
    )(_what)
    on.callback(
        Role.VIEWER,
        Output("placement-draft", "data"),
        Output("placement-selected", "data"),
        Input("placement-add", "n_clicks"),
        Input("placement-undraft", "n_clicks"),
        Input(DROP, "n_clicks"),
        State("placement-selected", "data"),
        State("placement-doing", "data"),
        State("placement-to", "value"),
        State("placement-draft", "data"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_drafted)
    on.callback(
        Role.OPERATOR,
        Output({"type": "propose", "page": "placement"}, "data"),
        Input("placement-propose", "n_clicks"),
        Input("placement-propose-draft", "n_clicks"),
        Input("placement-drain", "n_clicks"),
        State("placement-selected", "data"),
        State("placement-doing", "data"),
        State("placement-to", "value"),
        State("placement-draft", "data"),
        State("view", "data"),
        prevent_initial_call=True,
    )(_propose)


@dataclass(frozen=True)
class Trial:
    """A selection and what is to be done with it, as steps; the draft's come before."""

    snapshot: ClusterSnapshot
    rows: Longs
    do: str
    goes: Sequence[what.Target]
    target: int | None
    made: what.Made
    draft: tuple[Step, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.draft, *self.made.steps)


def _trial(snapshot: ClusterSnapshot, selected: Any, doing: Any, to: Any, draft: Any) -> Trial:
    """From what the browser has."""
    _name, rows = what.selected_rows(snapshot, selected)
    do = _do(snapshot, rows, doing)
    goes = what.targets(snapshot, rows) if do == "move" and len(rows) else []
    if goes and (wide := what.spread_target(snapshot, rows)):
        goes = [*goes, wide]
    target = _target(goes, to)
    made = what.steps_of(snapshot, rows, do, target) if len(rows) else what.Made(())
    return Trial(snapshot, rows, do, goes, target, made, what.draft_of(snapshot, draft))


def _do(snapshot: ClusterSnapshot, rows: Longs, doing: Any) -> str:
    """What was chosen, unless it cannot be done with any of the groups and something else can."""
    wanted = doing if doing in what.DOES else "move"
    able = [one for one in what.DOES if len(what.possible(snapshot, rows, one))]
    return wanted if wanted in able or not able else able[-1]


def _target(goes: Sequence[what.Target], to: Any) -> int | None:
    """The one that is chosen, else the best."""
    known = {str(one.node): one for one in goes}
    if isinstance(to, str) and to in known and known[to].fits:
        return known[to].node
    return goes[0].node if goes else None


def _what(
    _: int, view: Any, selected: Any, doing: Any, to: Any, draft: Any, before: Any
) -> list[Any]:
    """The panel; priced anew every few seconds. Another selection has another best target."""
    seen, same = look(view), [no_update] * 10 + [[no_update] * len(what.DOES)] * 3 + [no_update] * 8
    if seen.sample is None:
        return same
    to = None if ctx.triggered_id == "placement-selected" else to
    trial = _trial(seen.sample.snapshot, selected, doing, to, draft)
    told = [step_to_json(step) for step in trial.steps]
    turn = int(seen.now_s / _life_s(trial)) if told else 0
    now = mark(trial.rows.tolist(), trial.do, told, may("propose"), seen.stale, turn)
    if ctx.triggered_id == "poll" and now == before:
        return same
    return [now, *_panel(seen, trial), *_target_box(trial), *_buttons(seen, trial)]


def _panel(seen: Seen, trial: Trial) -> list[Any]:
    made = trial.made
    other = shown.others(trial.goes, trial.target) if made.steps and not seen.stale else None
    return [
        shown.head(made, trial.do, len(trial.draft)) if len(trial.rows) else [],
        [*_body(seen, trial), other] if trial.steps else shown.nothing(bool(trial.draft)),
        shown.draft(trial.draft),
        _drops(trial.steps),
    ]


def _target_box(trial: Trial) -> list[Any]:
    return [
        {} if trial.goes else HIDDEN,
        shown.source_names(trial.made.steps),
        shown.options(trial.goes),
        None if trial.target is None else str(trial.target),
        _note(trial.goes, trial.target),
    ]


def _buttons(seen: Seen, trial: Trial) -> list[Any]:
    """Which can be pressed, and why the others cannot."""
    able = {one: len(what.possible(trial.snapshot, trial.rows, one)) for one in what.DOES}
    owners = set(trial.snapshot.groups.owner[trial.rows].tolist())
    allowed = may("propose")
    why = "" if allowed else states.not_allowed(KINDS["propose"].role, role())
    why = why or ("What is known is too old to act upon." if seen.stale else "")
    drain = (
        "Move everything off the node" if len(owners) == 1 else "Select groups of one node first"
    )
    return [
        [not able[one] for one in what.DOES],
        [_why_not(one, able[one], len(trial.rows)) for one in what.DOES],
        ["btn on" if one == trial.do and able[one] else "btn" for one in what.DOES],
        len(owners) != 1 or bool(why),
        why or drain,
        not trial.made.steps or bool(why),
        not trial.made.steps,
        not trial.draft or bool(why),
        not trial.draft,
        {} if trial.draft else HIDDEN,
        why,
    ]


def _note(goes: Sequence[what.Target], target: int | None) -> str:
    if not goes or target is None:
        return ""
    if not any(one.fits for one in goes):
        return "no node has room"
    return "most even memory" if target == goes[0].node else ""


def _why_not(do: str, able: int, selected: int) -> str:
    if able:
        return f"{VERBS[do]}: {counted(able, 'group')} of the selection"
    if not selected:
        return "Select groups first"
    return {
        "move": "None of them can be moved: on disk or in flight",
        "spill": "None of them has state in memory that is not in flight",
        "cleanup": "None of them is on disk",
    }[do]


def _drops(steps: Sequence[Step]) -> list[dict[str, Any]]:
    found = [step_to_json(step) for step in steps]
    return [
        {"node": one["target"], "groups": [g for _, groups in one["parts"] for g in groups]}
        for one in found
        if one["do"] == "move"
    ]


def _life_s(trial: Trial) -> float:
    return PRICED_S if sum(len(pairs_of(step)) for step in trial.steps) <= MANY else MANY_S


def _body(seen: Seen, trial: Trial) -> list[Any]:
    """Priced once for whoever looks at the same. Of what is old, nothing is foretold."""
    if seen.stale:
        text = "It needs the state of a running engine. What you have selected and drafted stays."
        return [states.empty("No preview while data is stale", text, "wifi-off")]
    store = parts().store
    about = seen.query.about if seen.query else {}
    steps = taken_along(what.plan_of(trial.steps), trial.snapshot, sharing(about)).steps

    def price() -> Any:
        asked = Asked("propose", {}, who().actor, seen.name, seen.now_s)
        ports = Ports(store, lambda: "")
        refusals = what.against(trial.snapshot, steps, running(ports))
        left = left_of_day(ports, asked)
        return shown.predicted(trial.snapshot, what.plan_of(steps), numbers(store), left), refusals

    told = repr([step_to_json(step) for step in steps])
    try:
        found, refusals = feed().kept(("what", seen.name, told), _life_s(trial), price)
    except ControlError as error:
        return [states.failed("It cannot be priced", str(error))]
    return shown.outcome(found, refusals)


# -- doing ---------------------------------------------------------------------------------------------


def _pressed() -> Any:
    """Which button; None for one that was only made anew."""
    return ctx.triggered_id if ctx.triggered and ctx.triggered[0].get("value") else None


def _drafted(
    _: Any, __: Any, ___: Any, selected: Any, doing: Any, to: Any, draft: Any, view: Any
) -> tuple[Any, Any]:
    seen, pressed = look(view), _pressed()
    if seen.sample is None or pressed is None:
        return no_update, no_update
    if pressed == "placement-undraft":
        return [], no_update
    trial = _trial(seen.sample.snapshot, selected, doing, to, draft)
    if isinstance(pressed, dict):
        kept = [step for at, step in enumerate(trial.draft) if at != pressed.get("at")]
        return [step_to_json(step) for step in kept], no_update
    steps = [step_to_json(step) for step in trial.steps[: what.DRAFT_MAX]]
    operator = selected.get("operator") if isinstance(selected, dict) else ""
    return steps, {"operator": operator, "groups": []}


def _propose(
    _: Any, __: Any, ___: Any, selected: Any, doing: Any, to: Any, draft: Any, view: Any
) -> Any:
    """The same steps as are shown, made anew on the newest picture; the panel of proposals then opens."""
    seen, pressed = look(view), _pressed()
    if seen.sample is None or pressed is None:
        return no_update
    trial = _trial(seen.sample.snapshot, selected, doing, to, draft)
    if pressed == "placement-drain":
        if not len(trial.rows):
            return no_update
        node = int(trial.snapshot.groups.owner[trial.rows[0]])
        return _told(act("drain", {"node": node}, seen.name))
    steps = trial.made.steps if pressed == "placement-propose" else trial.draft
    return _told(act("propose.steps", {"steps": [step_to_json(x) for x in steps]}, seen.name))


def _told(answer: Answer) -> dict[str, Any]:
    return {"proposal": answer.id} if answer.accepted else refused(answer)
