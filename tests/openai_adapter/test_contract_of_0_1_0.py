"""Names, signatures and behaviour of the adapter that 0.1.0 published."""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, RunConfig, function_tool, handoff
from pydantic import BaseModel

from agent_handoff_kit import HandoffStatus, Relay, openai_adapter
from agent_handoff_kit.errors import HandoffVerificationError, RunMismatch
from agent_handoff_kit.openai_adapter import (
    DurableRunner,
    RunAlreadyCompleted,
    build_envelope_from_run_context,
    context_from_run_context,
    make_idempotent_function_tool,
    messages_from_run_context,
    relayed_handoff,
    resume_run,
    resume_with_agent,
    wrap_handoff,
    wrap_on_handoff,
)
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider
from tests.support.served import served

UNTRACED = RunConfig(tracing_disabled=True)
PUBLISHED = {
    "DurableRunner.run": "relay, run_id, starting_agent, user_input, *, context=None, agents=None, "
    "max_resume_attempts=1, **runner_kwargs",
    "build_envelope_from_run_context": "ctx, *, from_agent, to_agent, input_data=None, extract_context=None",
    "context_from_run_context": "ctx, input_data=None",
    "make_idempotent_function_tool": "relay_or_store, run_id, fn, key_fn, **function_tool_kwargs",
    "messages_from_run_context": "ctx",
    "relayed_handoff": "relay, run_id, from_agent, to_agent, agent, required_keys, *, on_handoff=None, "
    "extract_context=None, input_type=None, **handoff_kwargs",
    "resume_run": "relay, run_id, *, mark_recovered=False",
    "resume_with_agent": "relay, run_id, agent, *, prompt=None, mark_recovered=True, **runner_kwargs",
    "wrap_handoff": "relay, run_id, from_agent, to_agent, on_handoff, required_keys, extract_context=None",
    "wrap_on_handoff": "relay, run_id, from_agent, to_agent, required_keys, on_handoff=None, extract_context=None",
}
QUICKSTART = """
from agents import Agent
from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner, relayed_handoff

relay = Relay("support.db")
run_id = "ticket-42"

resolver = Agent(name="Resolver", instructions="Resolve the ticket.")
triage = Agent(
    name="Triage",
    instructions="Hand off to Resolver.",
    handoffs=[
        relayed_handoff(
            relay, run_id, "triage", "resolver", resolver,
            required_keys=["ticket_id", "summary"],
        )
    ],
)

await DurableRunner.run(
    relay,
    run_id,
    triage,
    "I was double-charged",
    context={"ticket_id": "T-1", "summary": "Double charge"},
    agents={"triage": triage, "resolver": resolver},
)
"""


def signature_of(parameters: str) -> inspect.Signature:
    scope: dict[str, Any] = {}
    exec(f"def published({parameters}): ...", scope)
    return inspect.signature(scope["published"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_signature_holds(name: str) -> None:
    function: Any = openai_adapter
    for part in name.split("."):
        function = getattr(function, part)
    have = inspect.signature(function).parameters
    published = signature_of(PUBLISHED[name]).parameters
    assert {one: (have[one].kind, have[one].default) for one in published} == {
        one: (parameter.kind, parameter.default) for one, parameter in published.items()
    }
    positional = [one for one, parameter in have.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    assert positional == [one for one in published if published[one].kind is have[one].POSITIONAL_OR_KEYWORD]
    assert all(
        parameter.default is not parameter.empty
        for one, parameter in have.items()
        if one not in published and parameter.kind is not parameter.VAR_KEYWORD
    )


@pytest.mark.parametrize("failing", [False, True], ids=["undisturbed", "resumed"])
def test_the_published_quickstart_runs_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    code = compile(QUICKSTART, "quickstart", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    scope: dict[str, Any] = {}
    failure = [503] if failing else []
    with served([[handover("Resolver", "h1")], *failure, [message("Refunded.")]]) as requests:
        asyncio.run(eval(code, scope))
        with pytest.raises(RunAlreadyCompleted) as refused:
            asyncio.run(eval(code, scope))
    assert len(requests) == 2 + len(failure)
    assert all(one["input"] == requests[1]["input"] for one in requests[1:])
    assert refused.value.result == "Refunded."
    assert isinstance(refused.value, RuntimeError)
    with scope["relay"] as relay:
        (checkpoint,) = relay.history("ticket-42")
        assert (checkpoint.from_agent, checkpoint.to_agent) == ("triage", "resolver")
        assert checkpoint.context["state"] == {"ticket_id": "T-1", "summary": "Double charge"}
        assert relay.run_status("ticket-42") == "completed"


def pair(provider: Provider, relay: Relay, run_id: str | None, **given: Any) -> Agent[Any]:
    """Triage, which hands over to a resolver that needs a ticket's id."""
    resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
    to_resolver = relayed_handoff(relay, run_id, "triage", "resolver", resolver, ["ticket_id"], **given)
    return Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[to_resolver])


def provider(lost: tuple[int, ...] = ()) -> Provider:
    return Provider({"Triage": [[handover("Resolver", "h1")]] * 2, "Resolver": [[message("Done.")]] * 2}, lost)


def run(relay: Relay, run_id: str, agent: Agent[Any], **given: Any) -> Any:
    given = {"context": {"ticket_id": "T-1"}, "run_config": UNTRACED, **given}
    return asyncio.run(DurableRunner.run(relay, run_id, agent, "Help.", **given))


def test_one_set_of_agents_serves_many_runs_where_the_handoff_names_none(relay: Relay) -> None:
    agent = pair(provider(), relay, None)
    for number in (1, 2):
        run(relay, f"ticket-{number}", agent, context={"ticket_id": number})
    for number in (1, 2):
        (checkpoint,) = relay.history(f"ticket-{number}")
        assert checkpoint.context["state"] == {"ticket_id": number}


def test_a_handoff_bound_to_another_run_is_refused_before_anything_is_written(relay: Relay) -> None:
    asked = provider()
    with pytest.raises(RunMismatch) as refused:
        run(relay, "ticket-2", pair(asked, relay, "ticket-1"))
    assert (refused.value.run_id, refused.value.running) == ("ticket-1", "ticket-2")
    assert [one.agent for one in asked.asked] == ["Triage"]
    assert relay.history("ticket-1") == relay.history("ticket-2") == []
    assert (relay.run_status("ticket-1"), relay.run_status("ticket-2")) == (None, "open")


def test_a_handoff_without_a_run_needs_a_run_id(relay: Relay) -> None:
    verified = wrap_on_handoff(relay, None, "triage", "resolver", [])
    with pytest.raises(ValueError, match="run_id"):
        asyncio.run(verified(SimpleNamespace(context={}, turn_input=[])))


def test_a_context_that_lacks_a_key_is_refused_and_its_receiver_never_runs(relay: Relay) -> None:
    asked = provider()
    with pytest.raises(HandoffVerificationError) as refused:
        run(relay, "r", pair(asked, relay, "r"), context={"other": 1})
    assert refused.value.missing == ["ticket_id"]
    assert [one.agent for one in asked.asked] == ["Triage"]
    assert [one.status for one in relay.history("r")] == [HandoffStatus.FAILED]
    assert resume_run(relay, "r") is None


class Reason(BaseModel):
    reason: str


@pytest.mark.parametrize("awaited", [False, True])
def test_the_callback_is_called_after_the_verification_with_the_input(relay: Relay, awaited: bool) -> None:
    seen: list[Any] = []

    def on_handoff(ctx: Any, given: Reason) -> Any:
        seen.append((ctx.context["ticket_id"], given.reason))
        return asyncio.sleep(0) if awaited else None

    script: dict[str, list[list[Any]]] = {
        "Triage": [[call("transfer_to_resolver", "h1", reason="billing")]],
        "Resolver": [[message("Done.")]],
    }
    agent = pair(Provider(script), relay, "r", on_handoff=on_handoff, input_type=Reason)
    run(relay, "r", agent)
    assert seen == [("T-1", "billing")]
    (checkpoint,) = relay.history("r")
    assert checkpoint.context["state"] == {"ticket_id": "T-1", "reason": "billing"}


def extract_of_context(ctx: Any) -> dict[str, Any]:
    return {"ticket_id": ctx.context["id"]}


def extract_of_both(ctx: Any, given: Any) -> dict[str, Any]:
    return {"ticket_id": ctx.context["id"], "given": given}


@pytest.mark.parametrize(
    "extract, state",
    [(extract_of_context, {"ticket_id": "T-1"}), (extract_of_both, {"ticket_id": "T-1", "given": None})],
)
def test_the_state_may_be_extracted_and_the_context_is_still_restored(relay: Relay, extract: Any, state: Any) -> None:
    context = {"id": "T-1"}
    run(relay, "r", pair(provider(lost=(1,)), relay, "r", extract_context=extract), context=context)
    (checkpoint,) = relay.history("r")
    assert checkpoint.context["state"] == state
    assert context == {"id": "T-1"}


@pytest.mark.parametrize("wrap", ["wrap_on_handoff", "wrap_handoff"])
def test_a_wrapped_callback_checkpoints_outside_a_durable_run_too(relay: Relay, wrap: str) -> None:
    seen: list[Any] = []
    parts = ("r", "triage", "resolver")
    verified = (
        wrap_on_handoff(relay, *parts, ["ticket_id"], seen.append)
        if wrap == "wrap_on_handoff"
        else wrap_handoff(relay, *parts, seen.append, ["ticket_id"])
    )
    ctx = SimpleNamespace(context={"ticket_id": "T-1"}, turn_input=[{"role": "user", "content": "Help."}])
    asyncio.run(verified(ctx))
    assert seen == [ctx]
    assert resume_run(relay, "r") == {
        "state": {"ticket_id": "T-1"},
        "messages": [{"role": "user", "content": "Help."}],
        "meta": {"from_agent": "triage", "to_agent": "resolver", "sdk": "openai-agents"},
    }


def test_a_wrapped_callback_fits_the_sdks_own_handoff(relay: Relay) -> None:
    asked = provider()
    verified = wrap_on_handoff(relay, "r", "triage", "resolver", ["ticket_id"])

    async def on_handoff(ctx: Any) -> None:
        await verified(ctx)

    resolver = Agent[Any](name="Resolver", model=asked.model("Resolver"))
    triage = Agent[Any](name="Triage", model=asked.model("Triage"), handoffs=[handoff(resolver, on_handoff=on_handoff)])
    run(relay, "r", triage)
    assert [(one.from_agent, one.to_agent) for one in relay.history("r")] == [("triage", "resolver")]


@pytest.mark.parametrize("name", ["resolver", "Resolver", "RESOLVER"])
def test_an_agent_is_found_by_its_name_in_any_case(relay: Relay, name: str) -> None:
    asked = provider(lost=(1,))
    with pytest.raises(ConnectionError):
        run(relay, "r", pair(asked, relay, "r"), max_resume_attempts=0)
    alone = Agent[Any](name="Triage", model=asked.model("Triage"))
    other = Agent[Any](name="Other name", model=asked.model("Resolver"))
    assert run(relay, "r", alone, agents={name: other}).final_output == "Done."


def failed_run(relay: Relay) -> Provider:
    """A run whose receiver lost its connection."""
    asked = provider(lost=(1,))
    with pytest.raises(ConnectionError):
        run(relay, "r", pair(asked, relay, "r"), max_resume_attempts=0)
    return asked


def resumed(relay: Relay, agent: Agent[Any], **given: Any) -> Any:
    return asyncio.run(resume_with_agent(relay, "r", agent, run_config=UNTRACED, **given))


def test_one_agent_resumes_by_hand_on_what_it_would_have_seen(relay: Relay) -> None:
    asked = failed_run(relay)
    result = resumed(relay, Agent[Any](name="Stand-in", model=asked.model("Resolver")))
    assert result.final_output == "Done."
    assert result.context_wrapper.context == {"ticket_id": "T-1"}
    assert asked.asked[-1].input == asked.asked[-2].input
    assert relay.run_status("r") == "completed"
    assert [one.status for one in relay.history("r")] == [HandoffStatus.RECOVERED]
    with pytest.raises(RunAlreadyCompleted):
        resumed(relay, Agent[Any](name="Stand-in", model=asked.model("Resolver")))


@pytest.mark.parametrize("prompt", ["Go on with T-1.", lambda state: f"Go on with {state['ticket_id']}."])
def test_one_agent_resumes_by_hand_on_a_prompt(relay: Relay, prompt: Any) -> None:
    asked = failed_run(relay)
    resumed(relay, Agent[Any](name="Stand-in", model=asked.model("Resolver")), prompt=prompt, mark_recovered=False)
    assert asked.asked[-1].input == [{"role": "user", "content": "Go on with T-1."}]
    assert relay.run_status("r") == "open"
    assert [one.status for one in relay.history("r")] == [HandoffStatus.VERIFIED]


def test_a_checkpoint_written_by_hand_is_told_to_the_agent_that_resumes(relay: Relay) -> None:
    asked = provider()
    relay.verify(relay.checkpoint("r", "triage", "resolver", {"ticket_id": "T-1"}, ["ticket_id"]))
    resumed(relay, Agent[Any](name="Stand-in", model=asked.model("Resolver")))
    (item,) = asked.asked[0].input
    assert '{"ticket_id": "T-1"}' in item["content"]


def test_a_run_without_a_verified_checkpoint_cannot_be_resumed_by_hand(relay: Relay) -> None:
    with pytest.raises(RuntimeError, match="'r'"):
        resumed(relay, Agent[Any](name="Stand-in"))


def test_marking_recovered_by_hand_leaves_nothing_to_resume(relay: Relay) -> None:
    failed_run(relay)
    found = resume_run(relay, "r", mark_recovered=True)
    assert found is not None
    assert found["state"] == {"ticket_id": "T-1"}
    assert resume_run(relay, "r") is None


@pytest.mark.parametrize(
    "context, state",
    [
        ({"a": 1}, {"a": 1}),
        ({"state": {"a": 1}, "messages": [], "meta": {}}, {"a": 1}),
        (Reason(reason="x"), {"reason": "x"}),
        (None, {}),
        (object(), {}),
    ],
)
def test_the_state_of_a_run_context_is_read(context: Any, state: dict[str, Any]) -> None:
    ctx = SimpleNamespace(context=context, turn_input=None)
    assert context_from_run_context(ctx) == state
    assert context_from_run_context(ctx, Reason(reason="given")) == {**state, "reason": "given"}
    assert context_from_run_context(ctx, {"b": 2}) == {**state, "b": 2}


def test_the_messages_of_a_run_context_are_reduced_to_json() -> None:
    assert messages_from_run_context(SimpleNamespace(turn_input=[Reason(reason="x"), {"n": 1}])) == [
        {"reason": "x"},
        {"n": 1},
    ]
    assert messages_from_run_context(SimpleNamespace(turn_input="text")) == []
    assert messages_from_run_context(object()) == []


def test_an_extract_that_is_no_dict_is_refused_and_its_own_errors_are_shown() -> None:
    ctx = SimpleNamespace(context={}, turn_input=[])
    names = {"from_agent": "a", "to_agent": "b"}

    def listing(ctx: Any) -> Any:
        return [1]

    with pytest.raises(TypeError, match="list"):
        build_envelope_from_run_context(ctx, **names, extract_context=listing)
    calls: list[Any] = []

    def failing(ctx: Any) -> dict[str, Any]:
        calls.append(ctx)
        raise TypeError("a bug of its own")

    with pytest.raises(TypeError, match="a bug of its own"):
        build_envelope_from_run_context(ctx, **names, extract_context=failing)
    assert len(calls) == 1


def test_an_idempotent_function_tool_runs_once_per_key_and_is_told_the_same(relay: Relay) -> None:
    effects: list[str] = []

    def refund(order: str) -> str:
        """Refund an order."""
        effects.append(order)
        return f"refunded {order}"

    tool = make_idempotent_function_tool(relay, None, refund, lambda order: f"refund:{order}", name_override="pay_back")
    assert (tool.name, type(tool)) == ("pay_back", type(function_tool(refund)))
    script: dict[str, list[list[Any]]] = {
        "Triage": [[call("pay_back", "c1", order="7"), call("pay_back", "c2", order="7")], [message("Done.")]]
    }
    asked = Provider(script)
    run(relay, "r", Agent[Any](name="Triage", model=asked.model("Triage"), tools=[tool]))
    assert effects == ["7"]
    outputs = [item["output"] for item in asked.asked[-1].input if item.get("type") == "function_call_output"]
    assert outputs == ["refunded 7"] * 2
