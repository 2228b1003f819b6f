"""Proposals: open until applied, dismissed, stale or expired, and that once."""

from __future__ import annotations

from sqlalchemy import insert, select, update

from control.ledger import Proposal, ProposalState
from db.files import File
from db.kinds import first, made, values
from db.pages import page_by_seq
from db.schema import PROPOSALS

OPEN = PROPOSALS.c.state == ProposalState.OPEN


class Proposals:
    def __init__(self, file: File) -> None:
        self.file = file

    def add(self, proposal: Proposal) -> None:
        with self.file.write() as db:
            db.execute(insert(PROPOSALS).values(values(proposal)))

    def find(self, id: str) -> Proposal | None:
        with self.file.read() as db:
            return first(Proposal, db.execute(select(PROPOSALS).where(PROPOSALS.c.id == id)))

    def settle(self, id: str, state: ProposalState, *, command: str = "", note: str = "") -> bool:
        """From open to another state; False when somebody was faster."""
        changed = {"state": state, "command": command, "note": note}
        with self.file.write() as db:
            wanted = OPEN & (PROPOSALS.c.id == id)
            return bool(db.execute(update(PROPOSALS).where(wanted).values(changed)).rowcount)

    def page(
        self, *, before: str | None = None, most: int = 100, query: str = "", state: str = ""
    ) -> list[Proposal]:
        if state and state not in set(ProposalState):
            return []
        chosen = page_by_seq(PROPOSALS, before, most, query=query, state=state)
        with self.file.read() as db:
            return made(Proposal, db.execute(chosen))

    def expire(self, now_s: float) -> int:
        late = OPEN & (PROPOSALS.c.expires_s <= now_s)
        with self.file.read() as db:  # asked every second: no lock while there is nothing
            if db.execute(select(PROPOSALS.c.seq).where(late).limit(1)).first() is None:
                return 0
        with self.file.write() as db:
            changed = {"state": ProposalState.EXPIRED}
            return db.execute(update(PROPOSALS).where(late).values(changed)).rowcount
