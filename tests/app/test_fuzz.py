"""The API fuzzed from its own OpenAPI document, bounded: what is right and what is wrong, at places that are
there and at any. No 5xx but 503 with Retry-After; statuses, types and answers as the document says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from app.settings import BODY_BYTES_MAX
from control.people import Role
from tests.app.asking import RULE
from tests.app.made import QUERY, Console, action_row, begin, with_query

SECONDS_MAX = 60.0
EXAMPLES = 5
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
THERE = {"query": QUERY, "rule": "balance", "operator": "join", "node": 1, "group": 1, "number": 1}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Something of everything."""
    console = begin(Path(tmp_path_factory.mktemp("fuzz")))
    with_query(console)
    now_s = console.clock()
    made = console.post(f"/queries/{QUERY}/proposals", {"do": "spill", "node": 0, "percent": 30})
    assert made.status_code == 200
    console.store.actions.keep([action_row("a1", now_s), action_row("a2", now_s, over=False)])
    console.store.alerts.raised("lag", "market", "behind", now_s)
    assert console.post("/rules", {"text": RULE}).status_code == 200
    yield console
    console.store.close()


def test_no_answer_is_an_error_of_ours(full: Console) -> None:
    schema = schemathesis.openapi.from_dict(_with_tokens(full.get("/openapi.json")))
    schema.app = full.app
    proposal = full.get("/proposals")["items"][0]["id"]
    ids = {"proposals": proposal, "actions": "a2", "commands": "none"}
    begun, done = time.process_time(), 0
    for found in schema.get_all_operations():
        operation = found.ok()
        noun = operation.path.split("/")[3]
        there = {**THERE, "id": ids.get(noun, "none"), "name": "olga"}
        wanted = {p.name: there[p.name] for p in operation.path_parameters}
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            for places in (wanted, None) if wanted else (None,):
                _fuzz(full, operation, mode, places)
        done += 1
        assert time.process_time() - begun < SECONDS_MAX, f"{done} routes took too long"
    assert done > 60


def _with_tokens(told: Any) -> Any:
    """What a token can call; wrong tokens are test_guard.py's, so nothing is said of them here."""
    for path in told["paths"].values():
        for method in [method for method, operation in path.items() if not operation["security"]]:
            del path[method]
        for operation in path.values():
            del operation["security"]
    return told


def _fuzz(full: Console, operation: Any, mode: GenerationMode, places: Any) -> None:
    options: dict[str, Any] = {"generation_mode": mode}
    if places is not None:
        options["path_parameters"] = places
    token = full.token(Role.ADMIN)

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(**options))
    def run(case: Any) -> None:
        sent = {"Authorization": f"Bearer {token}"}
        sent = {
            **sent,
            "Accept-Encoding": "identity",
        }  # schemathesis does not unpack what it asked for
        answer = case.call(headers=sent)
        if answer.status_code >= 500:
            assert answer.status_code == 503, answer.text
            assert "retry-after" in {name.lower() for name in answer.headers}
            return
        assert answer.status_code != 401
        if answer.status_code == 413:  # schemathesis does not know it as a way of saying no
            assert len(answer.request.body) > BODY_BYTES_MAX
            return
        case.validate_response(answer, checks=CHECKS, headers=sent)

    try:
        run()
    except Unsatisfiable:  # nothing can be wrong with a route that takes nothing
        assert mode is GenerationMode.NEGATIVE
