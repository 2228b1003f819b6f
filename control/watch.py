"""Alerts between rounds: reads what conditions are worked out from, and writes what changed to the store.

Which conditions there are, and when one is an alert, is alerts.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from control.alerts import FAILED_S, Condition, Seen, Standing, View, conditions, settle
from control.learn import BASE, numbers
from control.ledger import Alert, Evaluation, QueryRow
from control.lulls import lull, standing_text
from control.menu import forecast
from control.ports import Store
from control.rules import Mode

RECENT_S = 120.0
RECENT_POINTS = 256  # every sample of that time, so that counts add up
Disks = Callable[[], Mapping[str, tuple[int, int]]]


def no_disks() -> Mapping[str, tuple[int, int]]:
    return {}


class Watch:
    """Made once; alerts that a run before this one left open go on."""

    def __init__(self, store: Store, disks: Disks = no_disks) -> None:
        self.store, self.disks = store, disks
        self._standing: dict[tuple[str, str], Standing] | None = None

    def run_once(self, now_s: float) -> list[Condition]:
        """Raise, keep and end alerts; what is open now."""
        before = self._standing if self._standing is not None else self._left_open(now_s)
        is_open = frozenset(key for key, standing in before.items() if standing.open)
        view = self.view(now_s)
        found = conditions(view, is_open)
        after, change = settle(before, found, now_s)
        for one in change.raised:
            self._raise(one, now_s)
        for kind, subject in change.lulls:
            self.store.alerts.said(kind, subject, lull(view, kind, subject))
        for one in change.ended:
            self._end(one, standing_text(view, one.kind, one.subject), now_s)
        self._standing = after
        return list(change.raised)

    def view(self, now_s: float) -> View:
        return View(
            now_s,
            [self._seen(row, now_s) for row in self.store.queries.all()],
            self.store.metrics.heartbeats(),
            self.store.actions.since(now_s - FAILED_S),
            self._rules(),
            self.disks(),
        )

    def _seen(self, row: QueryRow, now_s: float) -> Seen:
        sample = self.store.metrics.newest(row.name)
        if sample is None:
            return Seen(row)
        full = forecast(sample.snapshot, numbers(self.store, BASE))
        since = now_s - RECENT_S
        recent = self.store.metrics.query_series(row.name, since, now_s, RECENT_POINTS)
        return Seen(row, sample, full, recent)

    def _rules(self) -> dict[str, Evaluation]:
        """Of each rule that is not off, what it last came to."""
        found = {}
        for row in self.store.rules.all():
            if row.mode != Mode.OFF:
                last = self.store.rules.evaluations(rule=row.name, most=1)
                if last:
                    found[row.name] = last[0]
        return found

    def _raise(self, one: Condition, now_s: float) -> None:
        if not self.store.alerts.raised(one.kind, one.subject, one.text, now_s):
            return
        self.store.webhooks.post("alert.raised", _event(one), now_s)
        if one.kind == "query_failed":
            body = {"query": one.subject, "error": one.text}
            self.store.webhooks.post("query.failed", body, now_s)

    def _end(self, one: Condition, now_text: str, now_s: float) -> None:
        """The past keeps what was last said while the condition held; a webhook is told both."""
        self.store.alerts.said(one.kind, one.subject, one.text)
        if self.store.alerts.ended(one.kind, one.subject, now_s):
            event = {**_event(one), "now": now_text}
            self.store.webhooks.post("alert.ended", event, now_s)

    def _left_open(self, now_s: float) -> dict[tuple[str, str], Standing]:
        """Seen last now: the time that nobody looked does not count as gone."""
        return {(a.kind, a.subject): _standing(a, now_s) for a in self.store.alerts.open()}


def _standing(alert: Alert, now_s: float) -> Standing:
    return Standing(alert.since_s, now_s, True, alert.text)


def _event(one: Condition) -> dict[str, str]:
    return {"kind": one.kind, "subject": one.subject, "text": one.text}
