"""The pipeline that crash tests kill: three steps, two of which call a tool with an effect."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_handoff_kit import Pipeline, Relay, Step
from agent_handoff_kit.errors import CallInDoubt
from agent_handoff_kit.idempotency import Applied, Call, NotApplied, idempotent_tool
from tests.support.crashing import Outcome, Point, run_and_die

RESULT = {"order": "O-1", "reserved": "reserve:O-1", "refunded": "refund:O-1"}
KEYS = ["reserve:O-1", "refund:O-1"]


@dataclass
class Place:
    """Where a case keeps its store, and the ledger of the service downstream, which survives every kill."""

    folder: Path
    policy: str
    forgetful: bool = False
    doubts: int = 0

    @property
    def database(self) -> Path:
        return self.folder / "run.db"

    def ledger(self, name: str = "ledger") -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def append(self, line: str, name: str = "ledger") -> None:
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)


def work(place: Place, point: Point) -> Any:
    """The process under test: three steps, two of them with a tool that has an effect."""
    with Relay(place.database) as relay:
        policy: Any = {"reconcile": functools.partial(reconcile, place)}.get(place.policy, place.policy)
        declare = functools.partial(idempotent_tool, relay, None, on_in_doubt=policy)

        def effect(key: str) -> str:
            point(f"before {key}")
            # With "retry" the service downstream knows keys, as the policy requires.
            if place.policy != "retry" or place.forgetful or key not in place.ledger():
                place.append(key)
            point(f"after {key}")
            return key

        reserve = declare(key_fn=lambda order: f"reserve:{order}", name="reserve")(
            lambda order: effect(f"reserve:{order}")
        )
        refund = declare(key_fn=lambda order: f"refund:{order}", name="refund")(lambda order: effect(f"refund:{order}"))
        steps = [
            Step("triage", lambda context: {**context, "reserved": reserve(context["order"])}),
            Step("resolver", lambda context: {**context, "refunded": refund(context["order"])}, ["reserved"]),
            Step("closer", dict, ["refunded"]),
        ]

        def passed(event: Any) -> None:
            if event.kind == "step_started":
                place.append(event.step, "started")
            point(f"{event.kind} {event.step}")

        return Pipeline(relay, steps).run("r", {"order": "O-1"}, on_event=passed)


def reconcile(place: Place, call: Call) -> Any:
    return Applied(call.key) if call.key in place.ledger() else NotApplied


def settle(place: Place, doubt: CallInDoubt) -> None:
    """What an operator does: look at the service, then say what happened."""
    place.doubts += 1
    with Relay(place.database) as relay:
        relay.store.resolve_call("r", doubt.key, applied=doubt.key in place.ledger(), result=doubt.key)


def resume(place: Place) -> Outcome:
    """Start the process again until it ends, settling what is in doubt."""
    for _ in range(4):
        outcome = run_and_die(functools.partial(work, place))
        if not isinstance(outcome.error, CallInDoubt):
            return outcome
        settle(place, outcome.error)
    raise AssertionError("the run does not get out of doubt")


def check(place: Place, outcome: Outcome) -> str:
    """Hold the outcome against the invariants; ``ok``, ``in doubt`` or ``doubled``."""
    assert outcome.error is None, outcome.error
    assert outcome.value == RESULT
    effects = Counter(place.ledger())
    assert set(effects) == set(KEYS)
    with Relay(place.database) as relay:
        assert relay.run_status("r") == "completed"
        handed = [one.to_agent for one in relay.history("r")]
        # A step that started had been handed to, durably; it is the first one that needs no handoff.
        assert {name for name in place.ledger("started") if name != "triage"} <= set(handed)
        assert handed == ["resolver", "closer"]
    connection = sqlite3.connect(place.database)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    if max(effects.values()) > 1:
        return "doubled"
    return "in doubt" if place.doubts else "ok"
