"""What a tool and its author see of a call: the call itself, and the words for its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One idempotent call: what a tool passes on downstream, and what ``reconcile`` is asked about.

    Attributes:
        run_id: the run; empty for a call with ``scope="global"``.
        tool: the tool's name.
        key: the idempotency key; pass it on, for example as the ``Idempotency-Key`` header.
        attempt: 1 for the first start of the call.
        arguments: the arguments by name, defaults included.
    """

    run_id: str
    tool: str
    key: str
    attempt: int = 1
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Applied:
    """``reconcile``'s answer: the effect happened, and this is its result."""

    value: Any = None


@dataclass(frozen=True)
class Unknown:
    """``reconcile``'s answer: it cannot be told; the call stays in doubt."""

    reason: str = "reconcile could not tell"


class NotApplied(Exception):
    """Nothing happened. Raised by a tool it frees the key; returned by ``reconcile`` it runs the tool."""


current: ContextVar[tuple[Call, ...]] = ContextVar("agent_handoff_kit_calls", default=())


def current_call() -> Call | None:
    """The idempotent call whose body is running; None outside one."""
    calls = current.get()
    return calls[-1] if calls else None
