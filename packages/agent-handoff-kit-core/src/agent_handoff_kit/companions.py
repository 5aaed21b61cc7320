"""What a runner keeps with an idempotent call: in the transaction that completes it, so that neither is there alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Protocol

from agent_handoff_kit.store.call_scripts import CallKey
from agent_handoff_kit.store.steps import PutRecord


class Companion(Protocol):
    """Goes with the calls that are made where it is set."""

    def kept(self, call: CallKey) -> Sequence[PutRecord]:
        """Journal records of one run, to be written when the call completes, if the run is still the caller's."""
        ...

    def replayed(self, call: CallKey) -> None:
        """Told that the call's recorded result is given back."""
        ...


companion: ContextVar[Companion | None] = ContextVar("agent_handoff_kit_companion", default=None)
