"""What a query's actions have come to over all its lives, as far as decisions depend on it.

Two figures: bytes that were spilled because somebody asked for it, and when the last adaptation ended. They are kept in a
small file beside the actions' records, so that a restart of the engine forgets neither. Each action counts once: a restart
meets again those that ended shortly before it. A node's own spills do not count here.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from control.actions import Action, State
from control.plans import SetBudget, Spill
from engine.replaced import replaced

FILE = "adapted.json"
COUNTED_MAX = 200  # names of actions that are remembered as counted


class Past:
    """One query's. `file` need not be there yet."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.forced_spill_bytes = 0
        self.last_adaptation_s: float | None = None
        self._counted: dict[str, None] = {}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            raw = json.loads(file.read_text())
            self._counted = dict.fromkeys(raw["counted"])
            self.last_adaptation_s = raw["last_adaptation_s"]
            self.forced_spill_bytes = int(raw["forced_spill_bytes"])

    def ended(self, action: Action, now_s: float) -> None:
        """An action is over; only those that were done count."""
        if action.state is not State.DONE or isinstance(action.step, SetBudget):
            return
        if action.id in self._counted:
            return
        if isinstance(action.step, Spill):
            self.forced_spill_bytes += action.bytes or action.step.bytes
        self.last_adaptation_s = now_s
        self._counted[action.id] = None
        while len(self._counted) > COUNTED_MAX:
            del self._counted[next(iter(self._counted))]
        self._write()

    def _write(self) -> None:
        body = {
            "forced_spill_bytes": self.forced_spill_bytes,
            "last_adaptation_s": self.last_adaptation_s,
            "counted": list(self._counted),
        }
        replaced(self.file, json.dumps(body))
