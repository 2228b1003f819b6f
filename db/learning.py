"""What the cost model has learned: its coefficients, and the line of figures behind each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, insert, select, update

from control.ledger import Learned
from db.files import File
from db.kinds import made, values
from db.pages import page
from db.schema import ACTIONS, ESTIMATES, LEARNED


class Learning:
    def __init__(self, file: File) -> None:
        self.file = file

    def estimates(self) -> Mapping[str, Mapping[str, float]]:
        with self.file.read() as db:
            rows = db.execute(select(ESTIMATES).order_by(ESTIMATES.c.coefficient))
            return {row.coefficient: row.body for row in rows}

    def learn(self, lines: Sequence[Learned], estimates: Mapping[str, Mapping[str, float]]) -> None:
        """Lines are added; the coefficients given replace what they were, others stay."""
        with self.file.write() as db:
            if lines:
                db.execute(insert(LEARNED), [values(line, "id") for line in lines])
            if estimates:
                these = ESTIMATES.c.coefficient.in_(list(estimates))
                db.execute(delete(ESTIMATES).where(these))
                rows = [{"coefficient": n, "body": dict(body)} for n, body in estimates.items()]
                db.execute(insert(ESTIMATES), rows)

    def page(
        self, *, before: int | None = None, most: int = 100, action: str = ""
    ) -> list[Learned]:
        with self.file.read() as db:
            return made(Learned, db.execute(page(LEARNED, before, most, action=action)))

    def marked(self, actions: Sequence[str]) -> None:
        """Learned from; not offered again."""
        with self.file.write() as db:
            these = ACTIONS.c.id.in_(list(actions))
            db.execute(update(ACTIONS).where(these).values(learned=True))
