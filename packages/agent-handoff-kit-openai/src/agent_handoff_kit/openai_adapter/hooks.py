"""The kit's own hooks and input filter, in front of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_handoff_kit.errors import HandoffKitError
from agent_handoff_kit.openai_adapter import _sdk, journal
from agent_handoff_kit.openai_adapter.attempt import ROOT, Attempt, Pending, active
from agent_handoff_kit.openai_adapter.checkpoints import snapshot, write_checkpoint
from agent_handoff_kit.openai_adapter.handoffs import verify_handoff
from agent_handoff_kit.openai_adapter.instrument import instrument_graph
from agent_handoff_kit.openai_adapter.roster import Roster

RequiredKeys = Mapping[str, Sequence[Any]]


class AttemptHooks(_sdk.RunHooksBase[Any, Any]):
    """Verifies handoffs and notes what a checkpoint needs, then calls the user's hooks.

    Args:
        attempt: what the hooks belong to.
        roster: the agents of the run.
        required_keys: by the receiver's name.
        user: the user's hooks.
    """

    def __init__(self, attempt: Attempt, roster: Roster, required_keys: RequiredKeys, user: Any) -> None:
        self._attempt = attempt
        self._roster = roster
        self._required_keys = required_keys
        self._user = user

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Snapshot the context before anything of the receiver's has touched it."""
        # Not before the run begins: it is reset there.
        _sdk.isolate_agent_tools(self._attempt.wrapper)
        pending = self._attempt.pending
        if pending is not None and pending.context is None:
            snapshot(self._attempt, pending)
        instrument_graph(agent)
        await self.told("on_agent_start", context, agent)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Verify what the receiver needs; announce the checkpoint."""
        attempt = self._attempt
        attempt.check()
        announced, attempt.announced = attempt.announced, None
        sender, receiver = self._roster.name_of(from_agent), self._roster.name_of(to_agent)
        keys = tuple(self._required_keys.get(to_agent.name, ()))
        if attempt.records.exhausted:
            await attempt.leave_replay()
        if keys:
            await verify_handoff(attempt, sender, receiver, attempt.port.taken(), keys, list(context.turn_input))
        if announced is None:
            attempt.pending = Pending(sender, receiver, receiver, to_agent, keys)
        else:
            names = (announced.from_agent, announced.to_agent)
            attempt.pending = Pending(*names, receiver, to_agent, announced.required_keys, announced.state)
        await self.told("on_handoff", context, from_agent=from_agent, to_agent=to_agent)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Note which agents have used tools, as the SDK does."""
        if any(str(getattr(item, "type", "")).endswith("_call") for item in response.output):
            self._attempt.used_tools.add(agent.name)
        await self.told("on_llm_end", context, agent, response)

    async def told(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Call the user's hook of this name."""
        if self._user is None:
            return
        try:
            await getattr(self._user, name)(*args, **kwargs)
        except BaseException as error:
            self._attempt.from_user.append(error)
            raise


def _forwarded(name: str) -> Callable[..., Any]:
    async def hook(self: AttemptHooks, *args: Any, **kwargs: Any) -> None:
        await self.told(name, *args, **kwargs)

    return hook


for _name in dir(_sdk.RunHooksBase):
    if _name.startswith("on_") and _name not in vars(AttemptHooks):
        setattr(AttemptHooks, _name, _forwarded(_name))


def input_filter(user: Callable[[Any], Any] | None, session_count: Callable[[], int | None]) -> Callable[[Any], Any]:
    """The filter in front of every model call of a run loop, nested ones too.

    Args:
        user: the user's own filter, called after it.
        session_count: how many items the run has seen in its session.
    """

    async def filtered(data: Any) -> Any:
        scope = active.get()
        if scope is None or scope.attempt.closed:
            return await _by_user(None, user, data)
        attempt = scope.attempt
        attempt.check()
        items = list(data.model_data.input)
        await journal.keep_softened(scope, items)
        if scope.path == ROOT and attempt.pending is not None:
            await _stored(attempt, items, session_count())
        number = attempt.next_turn(scope.path)
        journal.turn.set(journal.Turn(scope.path, number, data.agent, journal.hash_of(items)))
        return await _by_user(attempt, user, data)

    return filtered


async def _stored(attempt: Attempt, items: list[Any], session_count: int | None) -> None:
    await attempt.guardrails.settled.wait()
    if attempt.guardrails.stopped_by is not None:
        raise attempt.guardrails.stopped_by
    pending, attempt.pending = attempt.pending, None
    assert pending is not None
    try:
        await write_checkpoint(attempt, pending, items, session_count)
    except HandoffKitError as error:
        attempt.fail(error)


async def _by_user(attempt: Attempt | None, user: Callable[[Any], Any] | None, data: Any) -> Any:
    if user is None:
        return data.model_data
    try:
        updated = user(data)
        return await updated if inspect.isawaitable(updated) else updated
    except BaseException as error:
        if attempt is not None:
            attempt.from_user.append(error)
        raise
