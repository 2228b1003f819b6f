"""The store as control/ports.py wants it: one folder, two files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from control import ports
from db.actions import Actions
from db.alerts import Alerts
from db.audit import Audit
from db.commands import Commands
from db.errors import disk
from db.files import BUSY_S, File, Kind, make
from db.kept import Kept
from db.learning import Learning
from db.metrics import Metrics
from db.metrics_schema import METRICS
from db.metrics_schema import VERSION as METRICS_VERSION
from db.proposals import Proposals
from db.queries import Queries
from db.rules import Rules
from db.schema import LEDGER
from db.schema import VERSION as LEDGER_VERSION
from db.sessions import Sessions
from db.tokens import Tokens
from db.users import Users
from db.webhooks import Webhooks

LEDGER_FILE = Kind("ledger.db", LEDGER, LEDGER_VERSION, "FULL", disposable=False)
METRICS_FILE = Kind("metrics.db", METRICS, METRICS_VERSION, "NORMAL", disposable=True)


class Store:
    """control.ports.Store over two SQLite files. Thread-safe; not to be carried across a fork."""

    def __init__(self, folder: Path, busy_s: float = BUSY_S) -> None:
        self.folder = folder
        self.ledger_file = ledger = File(folder, LEDGER_FILE, busy_s)
        self.metrics_file = File(folder, METRICS_FILE, busy_s)
        self.users: ports.Users = Users(ledger)
        self.sessions: ports.Sessions = Sessions(ledger)
        self.tokens: ports.Tokens = Tokens(ledger)
        self.audit: ports.Audit = Audit(ledger)
        self.commands: ports.Commands = Commands(ledger)
        self.proposals: ports.Proposals = Proposals(ledger)
        self.actions: ports.Actions = Actions(ledger)
        self.rules: ports.Rules = Rules(ledger)
        self.queries: ports.Queries = Queries(ledger)
        self.alerts: ports.Alerts = Alerts(ledger)
        self.webhooks: ports.Webhooks = Webhooks(ledger)
        self.learning: ports.Learning = Learning(ledger)
        self.kept: ports.Kept = Kept(ledger)
        self.metrics: ports.Metrics = Metrics(self.metrics_file)

    def together(self) -> AbstractContextManager[None]:
        """What this thread writes to the ledger inside is one transaction; an error undoes all of it."""
        return self._together()

    @contextmanager
    def _together(self) -> Iterator[None]:
        with self.ledger_file.write():
            yield

    def close(self) -> None:
        self.ledger_file.close()
        self.metrics_file.close()


def open_store(folder: Path, *, create: bool = False, busy_s: float = BUSY_S) -> Store:
    """`create`: an empty ledger where there is none. `busy_s`: how long to wait for another's lock."""
    if create:
        with disk(folder):
            make(folder / LEDGER_FILE.name, LEDGER_FILE)
    return Store(folder, busy_s)


def as_port(store: Store) -> ports.Store:
    """What control and console are given: the type checker sees here that it is what they want."""
    return store
