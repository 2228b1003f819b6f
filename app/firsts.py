"""What a data folder gets when it is first used: an admin, the local client's token, the demo, shipped rules; and what of
it is looked after later: the local token is renewed, the file with the first password goes.

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
from control.handling.base import TOKEN_S
from control.ledger import QueryRow, RuleRow, Wanted
from control.people import AuditLine, Role, Source, Token, User
from control.ports import Store

ADMIN = "admin"
FIRST_PASSWORD = "first-password"  # a file of mode 0600 in the data folder
LOCAL_TOKEN = "this machine's ctl"
MADE = "first_things"
DAY_S = 86_400.0


def first_admin(store: Store, passwords: Passwords, now_s: float) -> str:
    """Where there is no user yet: an admin; its password, to be told once. Empty where there is. Whoever signs in with
    it chooses another one first."""
    if store.users.all():
        return ""
    password = secrets.token_urlsafe(12)
    admin = User(ADMIN, Role.ADMIN, passwords.hash(password), False, now_s, must_change=True)
    with store.together():
        store.users.add(admin)
        _noted(store, "user.add", ADMIN, now_s)
    return password


def keep_first_password(data: Path, password: str) -> Path:
    """Where the output is not a terminal, others may read it: the password goes into a file of its owner's."""
    path = data / FIRST_PASSWORD
    _private(path, f"{password}\n")
    return path


def drop_first_password(store: Store, data: Path) -> None:
    """Once the admin has another one, the file says nothing that is true."""
    path = data / FIRST_PASSWORD
    if not path.exists():
        return
    admin = store.users.find(ADMIN)
    if admin is None or not admin.must_change:
        path.unlink(missing_ok=True)


def local_token(store: Store, path: Path, url: str, now_s: float, life_s: float = TOKEN_S) -> None:
    """The token that `run.py ctl` uses on this machine: whoever can read the file can read the store, too. A new one is
    made before the old one ends, which goes on working until then."""
    known = _known(path)
    if _good(store, known, now_s + life_s / 2):
        if _url(path) != url:
            _private(path, json.dumps({"url": url, "token": known}) + "\n")
        return
    admins = [u.name for u in store.users.all() if u.role is Role.ADMIN and not u.disabled]
    if not admins:
        return
    plain = secrets.token_urlsafe(32)
    token = Token(
        f"local-{secrets.token_hex(6)}",
        admins[0],
        LOCAL_TOKEN,
        _sha(plain),
        Role.ADMIN,
        now_s,
        now_s + life_s,
        local=True,
    )
    with store.together():
        store.tokens.add(token)
        _noted(store, "token.add", admins[0], now_s, f"{LOCAL_TOKEN}: {token.id}")
    _private(path, json.dumps({"url": url, "token": plain}) + "\n")


def _good(store: Store, plain: str, until_s: float) -> bool:
    """Whether it will still be good then: not revoked, with an end that is later, of an admin who is not disabled."""
    token = store.tokens.find(_sha(plain)) if plain else None
    if token is None or token.revoked_s is not None:
        return False
    owner = store.users.find(token.user)
    is_admin = owner is not None and owner.role is Role.ADMIN and not owner.disabled
    return is_admin and token.expires_s is not None and token.expires_s > until_s


def limit_tokens(store: Store, now_s: float, life_s: float) -> int:
    """Tokens that never end, or later than the longest life allows from now on, end then: those of before this was so,
    and all of them when the setting becomes shorter. How many."""
    with store.together():
        count = store.tokens.limit(now_s + life_s)
        if count:
            what = f"{count} tokens end in {life_s / DAY_S:g} days now"
            _noted(store, "token.limit", "", now_s, what)
    return count


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


def _noted(
    store: Store, what: str, subject: str, now_s: float, detail: str = "first start"
) -> None:
    line = AuditLine(now_s, "run.py up", Source.SYSTEM, "", what, subject, "accepted", detail)
    store.audit.add(line)


def _known(path: Path) -> str:
    return _field(path, "token")


def _url(path: Path) -> str:
    return _field(path, "url")


def _field(path: Path, name: str) -> str:
    try:
        return str(json.loads(path.read_text())[name])
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
