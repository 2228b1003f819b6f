"""Queries as those may see them who may not see the passwords in their files: everybody but admins."""

from __future__ import annotations

from dataclasses import replace

from control.ledger import QueryRow
from control.people import Role
from control.redaction import redacted_file, redacted_json, secrets_in_file, without


def seen_by(row: QueryRow, role: Role) -> QueryRow:
    """A query's row for this role. What the engine says of a query has secrets for nobody."""
    known = secrets_in_file(row.text)
    text = row.text if role.covers(Role.ADMIN) else redacted_file(row.text)
    about = redacted_json(row.about, known)
    return replace(row, text=text, error=without(row.error, known), about=about)
