"""Handoffs that are verified before their receiver runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import HandoffKitError, RunMismatch
from agent_handoff_kit.models import make_handoff_envelope
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.attempt import ROOT, Announced, Attempt, active
from agent_handoff_kit.openai_adapter.context import (
    ExtractContext,
    build_envelope_from_run_context,
    extracted_state,
    messages_from_run_context,
    takes_two,
)
from agent_handoff_kit.runs import current_run
from agent_handoff_kit.verification import judge

OnHandoff = Callable[..., Any]


def relayed_handoff(
    relay: Relay,
    run_id: str | None,
    from_agent: str,
    to_agent: str,
    agent: Any,
    required_keys: Sequence[Any],
    *,
    on_handoff: OnHandoff | None = None,
    extract_context: ExtractContext | None = None,
    input_type: Any = None,
    **handoff_kwargs: Any,
) -> Any:
    """The SDK's ``handoff`` with a verified checkpoint at the transfer.

    Args:
        relay: where checkpoints are kept.
        run_id: the run, or None for the run being run, so that agents built once serve many runs.
        from_agent: who hands over, as checkpoints name it.
        to_agent: who receives.
        agent: the receiving agent.
        required_keys: what it needs in the state.
        on_handoff: called after the verification, with the run context and, with ``input_type``, the input.
        extract_context: gives the state from the run context (and the input); the whole context by default.
        input_type: the type of the handoff's input.
        handoff_kwargs: passed on to the SDK's ``handoff``.

    Raises, when the handoff happens:
        HandoffVerificationError: the state lacks what the receiver needs; the receiver does not run.
        RunMismatch: ``run_id`` is not the run being run.
    """
    verified = wrap_on_handoff(relay, run_id, from_agent, to_agent, required_keys, on_handoff, extract_context)
    if input_type is None:

        async def without_input(ctx: Any) -> Any:
            return await verified(ctx, None)

        return _sdk.handoff(agent, on_handoff=without_input, **handoff_kwargs)

    async def with_input(ctx: Any, input_data: Any) -> Any:
        return await verified(ctx, input_data)

    return _sdk.handoff(agent, on_handoff=with_input, input_type=input_type, **handoff_kwargs)


def wrap_on_handoff(
    relay: Relay,
    run_id: str | None,
    from_agent: str,
    to_agent: str,
    required_keys: Sequence[Any],
    on_handoff: OnHandoff | None = None,
    extract_context: ExtractContext | None = None,
) -> Callable[..., Any]:
    """An ``on_handoff`` callback that verifies, then calls the given one; arguments as ``relayed_handoff``."""

    async def verified(ctx: Any, input_data: Any = None) -> Any:
        scope = active.get()
        _refuse_other_run(run_id)
        if scope is None or scope.attempt.relay.store is not relay.store:
            await _written_here(
                relay, _run_of(run_id), from_agent, to_agent, required_keys, ctx, input_data, extract_context
            )
            return await _called(on_handoff, ctx, input_data)
        attempt = scope.attempt
        try:
            state = extracted_state(ctx, input_data, extract_context)
        except BaseException as error:
            attempt.from_user.append(error)
            raise
        messages = messages_from_run_context(ctx)
        await verify_handoff(attempt, from_agent, to_agent, state, tuple(required_keys), messages)
        if scope.path == ROOT:
            attempt.announced = Announced(from_agent, to_agent, tuple(required_keys), state)
        try:
            return await _called(on_handoff, ctx, input_data)
        except BaseException as error:
            attempt.from_user.append(error)
            raise

    return verified


def wrap_handoff(
    relay: Relay,
    run_id: str | None,
    from_agent: str,
    to_agent: str,
    on_handoff: OnHandoff,
    required_keys: Sequence[Any],
    extract_context: ExtractContext | None = None,
) -> Callable[..., Any]:
    """``wrap_on_handoff`` with the arguments in the order of earlier releases."""
    return wrap_on_handoff(relay, run_id, from_agent, to_agent, required_keys, on_handoff, extract_context)


async def verify_handoff(
    attempt: Attempt,
    from_agent: str,
    to_agent: str,
    state: dict[str, Any],
    required_keys: tuple[Any, ...],
    messages: list[Any],
) -> None:
    """Judge a state before the receiver has it. A failure is stored; success is, at the receiver's first model call.

    Raises:
        HandoffVerificationError: the state lacks what the receiver needs.
    """
    if judge(state, required_keys).ok:
        return
    envelope = make_handoff_envelope(state, from_agent=from_agent, to_agent=to_agent, messages=messages)
    try:
        await attempt.relay.ahandoff(attempt.run.run_id, from_agent, to_agent, envelope, required_keys)
    except HandoffKitError as error:
        attempt.fail(error)


def _refuse_other_run(run_id: str | None) -> None:
    running = current_run()
    if run_id is not None and running is not None and running.run_id != run_id:
        raise RunMismatch(run_id, running.run_id)


def _run_of(run_id: str | None) -> str:
    running = current_run()
    if run_id is not None:
        return run_id
    if running is None:
        raise ValueError("run_id is None outside a run; use DurableRunner, or give run_id")
    return running.run_id


async def _written_here(
    relay: Relay,
    run_id: str,
    from_agent: str,
    to_agent: str,
    required_keys: Sequence[Any],
    ctx: Any,
    input_data: Any,
    extract_context: ExtractContext | None,
) -> None:
    envelope = build_envelope_from_run_context(
        ctx, from_agent=from_agent, to_agent=to_agent, input_data=input_data, extract_context=extract_context
    )
    await relay.ahandoff(run_id, from_agent, to_agent, envelope, required_keys)


async def _called(on_handoff: OnHandoff | None, ctx: Any, input_data: Any) -> Any:
    if on_handoff is None:
        return None
    result = on_handoff(ctx, input_data) if takes_two(on_handoff) else on_handoff(ctx)
    return await result if inspect.isawaitable(result) else result
