"""`make bench-watchers`: fifty people look at one console — how soon it answers, and what they cost.

The console is `run.py console` as a process of its own, over a store as it is after days of use. Its engine is
played: a tick each second, of 100 nodes and 10 000 groups, written as the recorder writes it. With `--engine` the
same is done to a whole `run.py up`, to see what watchers do to the demo's ticks.
Exit code 1 when an answer was an error.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from app.auth import Passwords
from control.ledger import QueryRow, RuleRow, Wanted
from control.people import Role, User
from control.rules import shipped_rules
from control.samples import Heartbeat
from db.open import Store, open_store
from db.schema import QUERIES as _TABLE  # noqa: F401  (the store's schema must be known before it is filled)
from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.replay import Account, Recording, Session, Tally, record, replay
from tests.bench.report import machine
from tests.bench.store_fill import FULL, QUERY, Scale, World, fill
from tests.up import Up, free_port, until

P95_MS_MOST = 100.0
RSS_MB_MOST = 300.0
