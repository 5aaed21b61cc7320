"""Replay, or call and record: what an attempt does about each model call and each tool call."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from agent_handoff_kit.companions import companion
from agent_handoff_kit.errors import HandoffKitError, PayloadError, RunDiverged
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.attempt import ROOT, WITH_CALL, Attempt, KitFailure, Scope, active
from agent_handoff_kit.openai_adapter.plain import as_dict
from agent_handoff_kit.openai_adapter.responses import (
    completed_event,
    revived_response,
    stored_response,
    stored_streamed_response,
)
from agent_handoff_kit.serialization import encode
from agent_handoff_kit.store.call_scripts import CallKey
from agent_handoff_kit.store.steps import PutRecord

_logger = logging.getLogger(__name__)


@dataclass
class Turn:
    """The right to one model call of a run loop, given by the input filter just before it."""

    path: str
    number: int
    agent: _sdk.Agent[Any]
    input_hash: str
    taken: bool = False


turn: ContextVar[Turn | None] = ContextVar("agent_handoff_kit_turn", default=None)


@dataclass(frozen=True)
class ModelCall:
    """A model call, as the SDK makes it."""

    arguments: dict[str, Any]

    @property
    def input_hash(self) -> str:
        """A hash of the input items."""
        return hash_of(self.arguments["input"])

    @property
    def setting_hash(self) -> str:
        """A hash of what else the model is told: instructions, tools and handoffs."""
        tools = [getattr(tool, "name", "") for tool in self.arguments["tools"]]
        handoffs = [entry.tool_name for entry in self.arguments["handoffs"]]
        return hash_of([self.arguments["system_instructions"], tools, handoffs])


async def respond(scope: Scope, call: ModelCall, ask: Callable[[ModelCall], Awaitable[Any]]) -> Any:
    """The recorded response of a model call, or the model's own, recorded before it is used."""
    attempt = scope.attempt
    attempt.check()
    with_turn = _taken_turn(scope)
    try:
        key, record = await _looked_up(attempt, scope, call, with_turn)
        if record is not None:
            return revived_response(record["response"])
        context = attempt.port.taken() if scope.path == ROOT else None
        response = await _asked(attempt, ask(_as_before(attempt, call, with_turn)))
        await attempt.keep({key: _record(call, with_turn, stored_response(response), context)})
    except BaseException:
        _give_back(with_turn)
        raise
    _note(attempt, scope, response.response_id)
    return response


async def stream(
    scope: Scope, call: ModelCall, ask: Callable[[ModelCall], AsyncIterator[Any]]
) -> AsyncGenerator[Any, None]:
    """As ``respond`` for a streamed call: a recorded one is a single completed event."""
    attempt = scope.attempt
    attempt.check()
    with_turn = _taken_turn(scope)
    try:
        key, record = await _looked_up(attempt, scope, call, with_turn)
        if record is not None:
            yield completed_event(record["response"])
            return
        context = attempt.port.taken() if scope.path == ROOT else None
        items: list[Any] = []
        async for event in _streamed(attempt, ask(_as_before(attempt, call, with_turn))):
            kind = getattr(event, "type", "")
            if kind == "response.output_item.done":
                items.append(event.item)
            if kind == "response.completed":
                response = stored_streamed_response(event.response, items)
                await attempt.keep({key: _record(call, with_turn, response, context)})
                _note(attempt, scope, response["response_id"])
            yield event
    except BaseException:
        _give_back(with_turn)
        raise


async def invoke(
    scope: Scope, tool: _sdk.FunctionTool, context: Any, arguments: str, body: Callable[[Any, str], Awaitable[Any]]
) -> Any:
    """The recorded result of a tool call, or its body's own, recorded before it is used."""
    attempt = scope.attempt
    call_id = str(getattr(context, "tool_call_id", ""))
    number = attempt.turn(scope.path)
    inside = Scope(attempt, f"{scope.path}/{number}.{call_id}")
    try:
        attempt.check()
        if _sdk.agent_in_tool(tool) is not None:
            return await _within(inside, body(context, arguments))
        key = f"tool:{scope.path}:{number}:{call_id}"
        _restore_turn(attempt, f"tool:{scope.path}:{number}:")
        record = attempt.records.take(key)
        if record is not None:
            return _replayed_result(attempt, context, record)
        await attempt.leave_replay()
        work = _run_and_record(attempt, inside, key, context, body(context, arguments))
        return await (attempt.settling(work) if _sdk.runs_in_thread(tool) else work)
    except KitFailure:
        raise
    except BaseException as error:
        if (own := _of_the_kit(error)) is not None:
            _latch(attempt, own)
            raise KitFailure(own) from None
        attempt.softened[call_id] = f"tool:{scope.path}:{number}:{call_id}"
        attempt.from_calls.append(error)
        raise


async def keep_softened(scope: Scope, items: list[Any]) -> None:
    """Record what the model is told about tool calls that failed softly, so that it is told the same again."""
    attempt = scope.attempt
    if not attempt.softened:
        return
    outputs = {item.get("call_id"): item.get("output") for item in items if _is_output(item)}
    mine = [one for one, key in attempt.softened.items() if one in outputs and key.startswith(f"tool:{scope.path}:")]
    context = attempt.port.taken()
    kept = {attempt.softened[one]: {"visible": outputs[one], "context": context} for one in mine}
    if kept:
        await attempt.keep(kept)
    for one in mine:
        del attempt.softened[one]


def hash_of(value: Any) -> str:
    """A hash of plain data that is the same in every process."""
    text = json.dumps(value, sort_keys=True, default=_plain, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def _looked_up(attempt: Attempt, scope: Scope, call: ModelCall, with_turn: Turn | None) -> tuple[str, Any]:
    if with_turn is None:
        base = f"call:{scope.path}:{hash_of([call.input_hash, call.setting_hash])}"
        key = f"{base}:{attempt.occurrence(base)}"
    else:
        key = f"model:{with_turn.path}:{with_turn.number}"
    record = attempt.records.take(key)
    if record is not None and with_turn is not None and record["input"] != with_turn.input_hash:
        record = _diverged(attempt, with_turn, key, record)
    if record is None:
        await attempt.leave_replay()
        return key, None
    if record["setting"] != call.setting_hash:
        _logger.info("run %s: %s is replayed with other instructions or tools", attempt.run.run_id, key)
    attempt.restore(key, record)
    attempt.replayed_models += 1
    attempt.replayed()
    _note(attempt, scope, record["response"]["response_id"])
    return key, record


def _diverged(attempt: Attempt, with_turn: Turn, key: str, record: Any) -> Any:
    if attempt.on_diverged == "raise":
        attempt.fail(RunDiverged(attempt.run.run_id, key, with_turn.agent.name))
    _logger.warning("run %s: %s has other input than was recorded", attempt.run.run_id, key)
    return record if attempt.on_diverged == "replay" else None


def _record(call: ModelCall, with_turn: Turn | None, response: Any, context: dict[str, Any] | None) -> dict[str, Any]:
    input_hash = call.input_hash if with_turn is None else with_turn.input_hash
    record = {"input": input_hash, "setting": call.setting_hash, "response": response}
    return record if context is None else {**record, "context": context}


def _as_before(attempt: Attempt, call: ModelCall, with_turn: Turn | None) -> ModelCall:
    """The call with the tool choice that the SDK would make had it seen the tools used before the resume."""
    if with_turn is None or with_turn.path != ROOT or with_turn.agent.name not in attempt.used_tools_before:
        return call
    if with_turn.agent.reset_tool_choice is not True:
        return call
    settings = replace(call.arguments["model_settings"], tool_choice=None)
    return ModelCall({**call.arguments, "model_settings": settings})


async def _asked(attempt: Attempt, answer: Awaitable[Any]) -> Any:
    token = active.set(None)
    try:
        return await answer
    except BaseException as error:
        attempt.from_calls.append(error)
        raise
    finally:
        active.reset(token)


async def _streamed(attempt: Attempt, events: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    try:
        while True:
            # An async generator shares its consumer's context, so it is changed for each step only.
            token = active.set(None)
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
            finally:
                active.reset(token)
            yield event
    except Exception as error:
        attempt.from_calls.append(error)
        raise


def _note(attempt: Attempt, scope: Scope, response_id: str | None) -> None:
    if scope.path == ROOT:
        attempt.last_response_id = response_id


def _taken_turn(scope: Scope) -> Turn | None:
    given = turn.get()
    if given is None or given.taken or given.path != scope.path:
        return None
    given.taken = True
    return given


def _give_back(with_turn: Turn | None) -> None:
    # The SDK may ask again for the same turn.
    if with_turn is not None:
        with_turn.taken = False


async def _within(scope: Scope, work: Awaitable[Any]) -> Any:
    token = active.set(scope)
    try:
        return await work
    finally:
        active.reset(token)


@dataclass(frozen=True)
class _Companion:
    """Keeps the context with each idempotent call that a tool makes.

    A process may be killed when such a call is recorded and the tool's own result is not. Then the tool runs again
    and its call does not, so that what the call did to the context has to be done by this.
    """

    attempt: Attempt
    tool_key: str

    def kept(self, call: CallKey) -> Sequence[PutRecord]:
        """The context as the call leaves it."""
        if not self.attempt.journaling:
            return ()
        try:
            record = {"context": self.attempt.port.taken()}
            return self.attempt.journal.encoded(self.attempt.records.epoch, {self._key_of(call): record})
        except PayloadError:
            # The record of the tool itself meets the same error and reports it.
            return ()

    def replayed(self, call: CallKey) -> None:
        """Restore the context that an earlier attempt kept with this very call of this very tool call."""
        key = self._key_of(call)
        record = self.attempt.records.take(key)
        if record is not None:
            self.attempt.restore(key, record)

    def _key_of(self, call: CallKey) -> str:
        return f"{WITH_CALL}{self.tool_key}:{call.tool}:{call.key}"


async def _run_and_record(attempt: Attempt, inside: Scope, key: str, context: Any, work: Awaitable[Any]) -> Any:
    before = _totals(context.usage)
    token = companion.set(_Companion(attempt, key))
    try:
        result = await _within(inside, work)
    finally:
        companion.reset(token)
    await attempt.keep({key: _result_record(attempt, context, result, before)})
    return result


def _result_record(attempt: Attempt, context: Any, result: Any, before: tuple[int, ...]) -> dict[str, Any]:
    visible = _sdk.visible_output(context, result)
    record: dict[str, Any] = {"visible": visible, "context": attempt.port.taken()}
    spent = [now - then for now, then in zip(_totals(context.usage), before, strict=True)]
    if any(spent):
        record["usage"] = spent
    if not isinstance(result, str) and _is_exact(result):
        record["value"] = result
    return record


def _is_exact(result: Any) -> bool:
    """Whether a result comes back as it was, and looks the same to the model in every process."""
    try:
        return b'"$ahk":"set"' not in encode(result, strict=True) and b'"frozenset"' not in encode(result, strict=True)
    except PayloadError:
        return False


def _replayed_result(attempt: Attempt, context: Any, record: Any) -> Any:
    attempt.replayed_tools += 1
    attempt.replayed()
    if "usage" in record:
        requests, into, out, total = record["usage"]
        context.usage.add(_sdk.Usage(requests=requests, input_tokens=into, output_tokens=out, total_tokens=total))
    if "value" in record:
        return record["value"]
    return _sdk.tool_from_visible_output(record["visible"])


def _restore_turn(attempt: Attempt, prefix: str) -> None:
    newest = attempt.records.newest(prefix)
    if newest is not None:
        attempt.restore(newest, attempt.records.found[newest])


def _of_the_kit(error: BaseException) -> HandoffKitError | None:
    """The kit's error, by itself or as the cause that the SDK gives for one of its own, as for MCP tools."""
    inner = error.__cause__ if isinstance(error, _sdk.AgentsException) else error
    return inner if isinstance(inner, HandoffKitError) else None


def _latch(attempt: Attempt, error: HandoffKitError) -> None:
    try:
        attempt.fail(error)
    except HandoffKitError:
        return


def _totals(usage: Any) -> tuple[int, ...]:
    return usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens


def _is_output(item: Any) -> bool:
    told = as_dict(item)
    return told is not None and str(told.get("type", "")).endswith("_output")


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if callable(dump) else str(value)
