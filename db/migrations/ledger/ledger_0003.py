"""The audit's triggers anew, and two more: no line is replaced by INSERT, and lines are added only at the end."""

from __future__ import annotations

from alembic import op

revision = "ledger_0003"
down_revision = "ledger_0002"
REFUSED = "BEGIN SELECT RAISE(ABORT, 'audit lines are never changed'); END"
TRIGGERS = {
    "audit_no_update": "BEFORE UPDATE ON audit",
    "audit_no_delete": "BEFORE DELETE ON audit",
    "audit_no_replace": "BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)",
    "audit_in_order": "AFTER INSERT ON audit "
    "WHEN NEW.id < 1 OR EXISTS (SELECT 1 FROM audit WHERE id > NEW.id)",
}


def upgrade() -> None:
    for name, when in TRIGGERS.items():
        op.execute(f"DROP TRIGGER IF EXISTS {name}")
        op.execute(f"CREATE TRIGGER {name} {when} {REFUSED}")
