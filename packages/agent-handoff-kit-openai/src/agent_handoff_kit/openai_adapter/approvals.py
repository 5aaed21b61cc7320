"""Human approval: decisions are stored before anything runs, and applied where the replayed run waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_handoff_kit.errors import AlreadyDecided
from agent_handoff_kit.journal import WHOLE_RUN, Journal
from agent_handoff_kit.openai_adapter import _sdk

_PREFIX = "decision:"


@dataclass(frozen=True)
class Decision:
    """A person's word on one tool call; ``always`` for every later call of the tool, too."""

    call_id: str
    approved: bool
    tool: str | None = None
    agent: str | None = None
    always: bool = False
    message: str | None = None

    def covers(self, item: _sdk.ToolApprovalItem) -> bool:
        """Whether this decides on a waiting call."""
        if _sdk.call_id_of(item) == self.call_id:
            return True
        return self.always and self.tool == item.tool_name and self.agent == item.agent.name


def decided(
    waiting: Iterable[Any], *, approved: bool, always: bool = False, message: str | None = None
) -> list[Decision]:
    """The same decision on several calls, each given by its call id or as the waiting item."""
    return [_on_item(one, approved, always, message) for one in waiting]


def decisions_in(state: _sdk.RunState[Any, Any]) -> list[Decision]:
    """The decisions that a caller made on the SDK's own state of the waiting run."""
    found: list[Decision] = []
    for item in state.get_interruptions():
        status, always, message = _sdk.decision_on(state, item)
        if status is not None:
            found.append(_on_item(item, status, always, message))
    return found


async def keep_decisions(journal: Journal, decisions: Sequence[Decision]) -> None:
    """Store decisions durably. The first one on a call stands: the tool may have run on it.

    Raises:
        AlreadyDecided: another decision on the call is stored; none of these is stored.
    """
    if not decisions:
        return
    before = {one.call_id: one.approved for one in await kept_decisions(journal)}
    for one in decisions:
        if before.setdefault(one.call_id, one.approved) != one.approved:
            decision = "approved" if before[one.call_id] else "rejected"
            raise AlreadyDecided(journal.run_id, one.call_id, decision)
    await journal.put(WHOLE_RUN, {f"{_PREFIX}{one.call_id}": asdict(one) for one in decisions})


async def kept_decisions(journal: Journal) -> list[Decision]:
    """All decisions of the run, the oldest first."""
    records = await journal.load(WHOLE_RUN)
    return [Decision(**record) for key, record in records.items() if key.startswith(_PREFIX)]


def apply_decisions(state: _sdk.RunState[Any, Any], decisions: Sequence[Decision]) -> bool:
    """Apply to the live state what was decided; whether anything was."""
    any_applied = False
    for item in state.get_interruptions():
        decision = _newest(decisions, item)
        if decision is None:
            continue
        any_applied = True
        if decision.approved:
            state.approve(item, always_approve=decision.always)
        else:
            state.reject(item, always_reject=decision.always, rejection_message=decision.message)
    return any_applied


def _newest(decisions: Sequence[Decision], item: _sdk.ToolApprovalItem) -> Decision | None:
    return next((one for one in reversed(decisions) if one.covers(item)), None)


def _on_item(item: Any, approved: bool, always: bool, message: str | None) -> Decision:
    if isinstance(item, str):
        return Decision(item, approved, None, None, always, message)
    return Decision(_sdk.call_id_of(item), approved, item.tool_name, item.agent.name, always, message)
