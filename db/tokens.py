"""API tokens, found by their SHA-256."""

from __future__ import annotations

from sqlalchemy import insert, select, update

from control.people import Token
from db.files import File
from db.kinds import first, made, values
from db.schema import TOKENS


class Tokens:
    def __init__(self, file: File) -> None:
        self.file = file

    def all(self) -> list[Token]:
        with self.file.read() as db:
            order = (TOKENS.c.user, TOKENS.c.created_s, TOKENS.c.id)
            return made(Token, db.execute(select(TOKENS).order_by(*order)))

    def named(self, id: str) -> Token | None:
        with self.file.read() as db:
            return first(Token, db.execute(select(TOKENS).where(TOKENS.c.id == id)))

    def of(self, user: str) -> list[Token]:
        wanted = select(TOKENS).where(TOKENS.c.user == user)
        with self.file.read() as db:
            return made(Token, db.execute(wanted.order_by(TOKENS.c.created_s, TOKENS.c.id)))

    def find(self, sha256: str) -> Token | None:
        """Revoked and expired ones too: whether it may be used is decided elsewhere."""
        with self.file.read() as db:
            return first(Token, db.execute(select(TOKENS).where(TOKENS.c.sha256 == sha256)))

    def add(self, token: Token) -> None:
        with self.file.write() as db:
            db.execute(insert(TOKENS).values(values(token)))

    def used(self, id: str, now_s: float) -> None:
        with self.file.write() as db:
            db.execute(update(TOKENS).where(TOKENS.c.id == id).values(used_s=now_s))

    def revoke(self, id: str, now_s: float) -> bool:
        """False when there is no such token, or it is revoked already."""
        valid = (TOKENS.c.id == id) & TOKENS.c.revoked_s.is_(None)
        with self.file.write() as db:
            return bool(db.execute(update(TOKENS).where(valid).values(revoked_s=now_s)).rowcount)

    def limit(self, until_s: float) -> int:
        """What ends later than that, or never, ends then."""
        late = TOKENS.c.expires_s.is_(None) | (TOKENS.c.expires_s > until_s)
        valid = late & TOKENS.c.revoked_s.is_(None)
        with self.file.write() as db:
            return db.execute(update(TOKENS).where(valid).values(expires_s=until_s)).rowcount
