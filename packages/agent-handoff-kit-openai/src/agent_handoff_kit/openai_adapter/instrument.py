"""Puts the journal onto models, tools and guardrails: in place, once per object, at work only inside a run."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_handoff_kit.openai_adapter import _sdk, journal
from agent_handoff_kit.openai_adapter.attempt import ROOT, active

_MARK = "_agent_handoff_kit_instrumented"
_ONCE = threading.Lock()
_ABSENT: Any = object()


def instrument_graph(start: _sdk.Agent[Any]) -> dict[str, _sdk.Agent[Any]]:
    """Instrument every agent that can be reached, through handoffs and agent tools; the agents by identity."""
    reached = list(_reached(start))
    for agent in reached:
        instrument_agent(agent)
    return identified(reached)


def identified(agents: list[_sdk.Agent[Any]]) -> dict[str, _sdk.Agent[Any]]:
    """Agents by a name of their own: several of one name get their place among them."""
    named: dict[str, _sdk.Agent[Any]] = {}
    for agent in agents:
        count = sum(one.name == agent.name for one in named.values())
        named[agent.name if not count else f"{agent.name}#{count + 1}"] = agent
    return named


def instrument_agent(agent: _sdk.Agent[Any]) -> None:
    """Instrument one agent's model, tools and input guardrails."""
    if isinstance(agent.model, _sdk.Model):
        instrument_model(agent.model)
    for tool in agent.tools:
        _instrument_tool(tool)
    for guardrail in agent.input_guardrails:
        instrument_guardrail(guardrail)
    for entry in agent.handoffs:
        if isinstance(entry, _sdk.Handoff):
            _once(entry, _instrument_handoff)
    if agent.mcp_servers:
        _once(agent, _instrument_listing)


def instrument_provider(provider: _sdk.ModelProvider) -> None:
    """Instrument each model that a provider gives."""
    _once(provider, _instrument_provider)


def instrument_model(model: _sdk.Model) -> None:
    """Instrument a model's calls."""
    _once(model, _instrument_model)


def instrument_guardrail(guardrail: _sdk.InputGuardrail[Any]) -> None:
    """Let the attempt know when an input guardrail has spoken."""
    _once(guardrail, _instrument_guardrail)


def _reached(start: _sdk.Agent[Any]) -> Iterator[_sdk.Agent[Any]]:
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        agent = waiting.pop(0)
        if id(agent) in seen:
            continue
        seen.add(id(agent))
        yield agent
        targets = [_sdk.target_of(entry) for entry in agent.handoffs]
        inside = [_sdk.agent_in_tool(tool) for tool in agent.tools]
        waiting.extend(one for one in (*targets, *inside) if one is not None)


@dataclass(frozen=True)
class _Instrumented:
    """Whose attributes were replaced, and what they were; a copy of the object carries the mark of the original."""

    owner: int
    before: Mapping[str, Any]

    def __deepcopy__(self, memo: Any) -> _Instrumented:
        return self

    def undo(self, held: dict[str, Any]) -> None:
        """Give a copy back what the original had, so that it does not go on calling the original."""
        for name, value in self.before.items():
            if value is _ABSENT:
                held.pop(name, None)
            else:
                held[name] = value


def _once(target: Any, work: Callable[[Any], None]) -> None:
    held: dict[str, Any] = target.__dict__
    with _ONCE:
        mark = held.get(_MARK)
        if mark is not None and mark.owner == id(target):
            return
        if mark is not None:
            mark.undo(held)
        before = dict(held)
        work(target)
        changed = {name: before.get(name, _ABSENT) for name in held if held[name] is not before.get(name)}
        held[_MARK] = _Instrumented(id(target), changed)


def _instrument_tool(tool: Any) -> None:
    if not isinstance(tool, _sdk.FunctionTool):
        return

    def around(body: _sdk.Invoke) -> _sdk.Invoke:
        async def invoke(context: Any, arguments: str) -> Any:
            scope = active.get()
            if scope is None or scope.attempt.closed:
                return await body(context, arguments)
            return await journal.invoke(scope, tool, context, arguments, body)

        return invoke

    with _ONCE:
        _sdk.wrap_invoker(tool, around)


def _instrument_listing(agent: _sdk.Agent[Any]) -> None:
    # Tools of MCP servers are made anew for each turn.
    listed = agent.get_all_tools

    async def get_all_tools(run_context: Any) -> list[Any]:
        tools = await listed(run_context)
        for tool in tools:
            _instrument_tool(tool)
        return tools

    vars(agent)["get_all_tools"] = get_all_tools


def _instrument_handoff(handoff: Any) -> None:
    handoff.on_invoke_handoff = blamed(handoff.on_invoke_handoff)
    if handoff.input_filter is not None:
        handoff.input_filter = blamed(handoff.input_filter)


def blamed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable of the user's, whose errors say nothing of the run and are never met by another attempt."""

    def note(error: BaseException) -> None:
        scope = active.get()
        if scope is not None:
            scope.attempt.from_user.append(error)

    async def awaited(result: Any) -> Any:
        try:
            return await result
        except BaseException as error:
            note(error)
            raise

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            note(error)
            raise
        return awaited(result) if inspect.isawaitable(result) else result

    return called


def _instrument_provider(provider: Any) -> None:
    found = provider.get_model

    def get_model(model_name: str | None) -> _sdk.Model:
        model: _sdk.Model = found(model_name)
        instrument_model(model)
        return model

    provider.get_model = get_model


def _instrument_model(model: Any) -> None:
    whole, streamed = model.get_response, model.stream_response
    signature = inspect.signature(_sdk.Model.get_response)

    def named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return dict(list(signature.bind(model, *args, **kwargs).arguments.items())[1:])

    async def get_response(*args: Any, **kwargs: Any) -> Any:
        scope = active.get()
        if scope is None or scope.attempt.closed:
            return await whole(*args, **kwargs)
        call = journal.ModelCall(named(args, kwargs))
        return await journal.respond(scope, call, lambda one: whole(**one.arguments))

    def stream_response(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        scope = active.get()
        if scope is None or scope.attempt.closed:
            events: AsyncIterator[Any] = streamed(*args, **kwargs)
            return events
        call = journal.ModelCall(named(args, kwargs))
        return journal.stream(scope, call, lambda one: streamed(**one.arguments))

    model.get_response = get_response
    model.stream_response = stream_response


def _instrument_guardrail(guardrail: Any) -> None:
    spoken = guardrail.run

    async def run(*args: Any, **kwargs: Any) -> Any:
        scope = active.get()
        if scope is None or scope.path != ROOT or scope.attempt.closed:
            return await spoken(*args, **kwargs)
        watched = scope.attempt.guardrails
        if watched.passed_before:
            passed = _sdk.GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)
            return _sdk.InputGuardrailResult(guardrail=guardrail, output=passed)
        try:
            result = await spoken(*args, **kwargs)
        except BaseException as error:
            scope.attempt.from_user.append(error)
            watched.ended(error)
            raise
        tripped = result.output.tripwire_triggered
        watched.ended(_sdk.InputGuardrailTripwireTriggered(result) if tripped else None)
        return result

    guardrail.run = run
