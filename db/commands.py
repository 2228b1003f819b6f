"""Commands on their way to the engine: queued by whoever asks, taken once, ended with an outcome."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from control.errors import StoreConflict, StoreError
from control.ledger import Command, CommandState, Json
from db.files import File
from db.kinds import first, made, values
from db.pages import bounded, page_by_seq
from db.schema import COMMANDS

ENDS = frozenset(state.value for state in CommandState if state.over)
QUEUED = COMMANDS.c.state == CommandState.QUEUED


class Commands:
    def __init__(self, file: File) -> None:
        self.file = file

    def add(self, command: Command) -> None:
        with self.file.write() as db:
            db.execute(insert(COMMANDS).values(values(command)))

    def find(self, id: str) -> Command | None:
        with self.file.read() as db:
            return first(Command, db.execute(select(COMMANDS).where(COMMANDS.c.id == id)))

    def take(self, now_s: float, most: int = 16) -> list[Command]:
        """Queued ones in order, now taken; those past `expires_s` become expired instead."""
        with self.file.read() as db:  # nothing waits, most of the time: no lock for that
            if db.execute(select(COMMANDS.c.seq).where(QUEUED).limit(1)).first() is None:
                return []
        with self.file.write() as db:
            _expire(db, now_s)
            waiting = select(COMMANDS.c.seq).where(QUEUED).order_by(COMMANDS.c.seq)
            taken = list(db.execute(waiting.limit(bounded(most))).scalars())
            these = COMMANDS.c.seq.in_(taken)
            changed = {"state": CommandState.TAKEN, "taken_s": now_s}
            db.execute(update(COMMANDS).where(these).values(changed))
            return made(Command, db.execute(select(COMMANDS).where(these).order_by("seq")))

    def taken(self) -> list[Command]:
        """Taken and not over: what a restart finds."""
        wanted = select(COMMANDS).where(COMMANDS.c.state == CommandState.TAKEN)
        with self.file.read() as db:
            return made(Command, db.execute(wanted.order_by(COMMANDS.c.seq)))

    def end(self, id: str, state: str, outcome: Json, now_s: float) -> None:
        """The same end told twice is told once; another end of what is over is a conflict."""
        wanted = COMMANDS.c.id == id
        with self.file.write() as db:
            found = db.execute(select(COMMANDS.c.state).where(wanted)).scalar()
            if found is None:
                raise StoreError(f"no command {id}", again=False)
            if found.over and found == state:
                return
            if found.over or state not in ENDS:
                raise StoreConflict(f"it is {found} and cannot become {state}", where=id)
            changed = {"state": CommandState(state), "outcome": outcome, "ended_s": now_s}
            db.execute(update(COMMANDS).where(wanted).values(changed))

    def page(self, *, before: str | None = None, most: int = 100, query: str = "") -> list[Command]:
        with self.file.read() as db:
            return made(Command, db.execute(page_by_seq(COMMANDS, before, most, query=query)))


def _expire(db: Connection, now_s: float) -> None:
    late = QUEUED & (COMMANDS.c.expires_s <= now_s)
    outcome = {"text": "the engine did not take it in time", "actions": [], "refusals": []}
    changed = {"state": CommandState.EXPIRED, "ended_s": now_s, "outcome": outcome}
    db.execute(update(COMMANDS).where(late).values(changed))
