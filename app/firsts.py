"""What a data folder gets when it is first used: an admin, the local client's token, the demo, shipped rules.

Each is made once, and said to have been made, so that what was removed on purpose does not come back.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from app.auth import Passwords
from control.ledger import QueryRow, RuleRow, Wanted
from control.people import AuditLine, Role, Source, Token, User
from control.ports import Store

ADMIN = "admin"
LOCAL_TOKEN = "this machine's ctl"
MADE = "first_things"


def first_admin(store: Store, passwords: Passwords, now_s: float) -> str:
    """Where there is no user yet: an admin; its password, to be shown once. Empty where there is."""
    if store.users.all():
        return ""
    password = secrets.token_urlsafe(12)
    with store.together():
        store.users.add(User(ADMIN, Role.ADMIN, passwords.hash(password), False, now_s))
        _noted(store, "user.add", ADMIN, now_s)
    return password


def local_token(store: Store, path: Path, url: str, now_s: float) -> None:
    """The token that `run.py ctl` uses on this machine: whoever can read the file can read the store, too."""
    known = _known(path)
    found = store.tokens.find(_sha(known)) if known else None
    if found is None or found.revoked_s is not None:
        known = secrets.token_urlsafe(32)
        admins = [u.name for u in store.users.all() if u.role is Role.ADMIN and not u.disabled]
        if not admins:
            return
        id = f"local-{secrets.token_hex(6)}"
        with store.together():
            store.tokens.add(Token(id, admins[0], LOCAL_TOKEN, _sha(known), Role.ADMIN, now_s))
            _noted(store, "token.add", admins[0], now_s)
    _private(path, json.dumps({"url": url, "token": known}) + "\n")


def demo(store: Store, name: str, text: str, now_s: float) -> bool:
    """The demo query, once."""
    if _made(store, "demo") or store.queries.find(name) is not None:
        return False
    with store.together():
        store.queries.add(QueryRow(name, text, "", None, Wanted.RUNNING, True, now_s))
        _noted(store, "query.register", name, now_s)
        _now_made(store, "demo")
    return True


def rules(store: Store, shipped: Sequence[tuple[str, str, str]], now_s: float) -> None:
    """Rules that come with the product (name, mode, text), once, in the admin's name."""
    editor = next((u.name for u in store.users.all() if u.role is Role.ADMIN), ADMIN)
    if _made(store, "rules"):
        return
    with store.together():
        for name, mode, text in shipped:
            if store.rules.find(name) is None:
                store.rules.keep(RuleRow(name, text, mode, editor, now_s, anchor_s=now_s))
                _noted(store, "rule.save", name, now_s)
        _now_made(store, "rules")


def _made(store: Store, what: str) -> bool:
    return what in (store.kept.get(MADE) or [])


def _now_made(store: Store, what: str) -> None:
    store.kept.put(MADE, sorted({*(store.kept.get(MADE) or []), what}))


def _noted(store: Store, what: str, subject: str, now_s: float) -> None:
    line = AuditLine(
        now_s, "run.py up", Source.SYSTEM, "", what, subject, "accepted", "first start"
    )
    store.audit.add(line)


def _known(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _sha(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _private(path: Path, text: str) -> None:
    """Readable by its owner alone, from the moment that it exists."""
    part = path.with_name(f".{path.name}.new")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(part, path)
