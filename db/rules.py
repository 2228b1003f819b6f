"""Rules, and what each of their evaluations came to: the same again is counted, not repeated."""

from __future__ import annotations

import json

from sqlalchemy import delete, insert, select, update

from control.errors import StoreError
from control.ledger import Evaluation, RuleRow
from db.files import File
from db.kinds import first, made, to_text, values
from db.pages import page
from db.schema import EVALUATIONS, RULES


class Rules:
    def __init__(self, file: File) -> None:
        self.file = file

    def all(self) -> list[RuleRow]:
        with self.file.read() as db:
            return made(RuleRow, db.execute(select(RULES).order_by(RULES.c.name)))

    def find(self, name: str) -> RuleRow | None:
        with self.file.read() as db:
            return first(RuleRow, db.execute(select(RULES).where(RULES.c.name == name)))

    def keep(self, row: RuleRow) -> None:
        with self.file.write() as db:
            wanted = RULES.c.name == row.name
            if not db.execute(update(RULES).where(wanted).values(values(row))).rowcount:
                db.execute(insert(RULES).values(values(row)))

    def drop(self, name: str) -> bool:
        """Its evaluations stay."""
        with self.file.write() as db:
            return bool(db.execute(delete(RULES).where(RULES.c.name == name)).rowcount)

    def fired(self, name: str, fired_s: float, acted_s: float | None) -> None:
        """`acted_s` None: it did nothing this time, and when it last did stays."""
        changed = {"last_fired_s": fired_s}
        if acted_s is not None:
            changed["last_acted_s"] = acted_s
        with self.file.write() as db:
            if not db.execute(update(RULES).where(RULES.c.name == name).values(changed)).rowcount:
                raise StoreError(f"no rule {name!r}", again=False)

    def evaluated(self, evaluation: Evaluation) -> None:
        """Counted when the rule's last one for the query had the same outcome and said the same."""
        c = EVALUATIONS.c
        of_these = (c.rule == evaluation.rule) & (c.query == evaluation.query)
        last = select(EVALUATIONS).where(of_these).order_by(c.id.desc()).limit(1)
        said = json.loads(to_text(evaluation.said))
        with self.file.write() as db:
            found = first(Evaluation, db.execute(last))
            if found is None or (found.outcome, found.said) != (evaluation.outcome, said):
                db.execute(insert(EVALUATIONS).values(values(evaluation, "id")))
                return
            until_s = max(found.until_s, evaluation.until_s)
            changed = {"until_s": until_s, "times": found.times + evaluation.times}
            db.execute(update(EVALUATIONS).where(c.id == found.id).values(changed))

    def evaluations(
        self, *, rule: str = "", before: int | None = None, most: int = 100, since_s: float = 0.0
    ) -> list[Evaluation]:
        """Newest first; `since_s`: those that lasted until then at least."""
        chosen = page(EVALUATIONS, before, most, rule=rule)
        if since_s:
            chosen = chosen.where(EVALUATIONS.c.until_s >= since_s)
        with self.file.read() as db:
            return made(Evaluation, db.execute(chosen))
