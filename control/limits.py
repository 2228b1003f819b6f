"""What bounds every decision, whoever makes it. Policies respect these, the arbiter enforces them."""

from __future__ import annotations

from dataclasses import dataclass

from control.snapshot import NO_LIMIT


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers, not switches: a limit that is never reached is off."""

    action_bytes_max: int = NO_LIMIT  # one action moves, spills or cleans up at most this
    daily_bytes_left: int = NO_LIMIT  # of the rolling 24 h budget
    cooldown_s: float = 0.0  # between two adaptations that are not local spills
    receiver_fill_max: float = 1.0  # share of its budget that a receiver may be filled to
    steps_max: int = 1_000
    held: bool = False  # automation is on hold: no new automatic action


OPEN = Limits()
ON_REQUEST = Limits(receiver_fill_max=0.95)  # of what people and rules ask for
