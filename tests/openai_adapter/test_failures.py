"""Which failures of a run are met by another attempt within the same call, and what is left of the others."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import Agent, RunConfig, UserError, exceptions, function_tool
from agents.exceptions import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    MCPToolCancellationError,
    ModelBehaviorError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimeoutError,
)

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import (
    CallInDoubt,
    CallInProgress,
    HandoffVerificationError,
    KeyConflict,
    LostOwnership,
    RunDiverged,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider

# The client's HTTP library goes by another name since its third version.
httpx: Any = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")
REQUEST = httpx.Request("POST", "http://localhost/responses")
SCRIPTS: dict[str, list[list[Any]]] = {"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]}


def status(code: int, kind: str | None = None) -> openai.APIStatusError:
    """The SDK client's error for an HTTP status."""
    response = httpx.Response(code, request=REQUEST)
    kinds = {
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        403: openai.PermissionDeniedError,
        404: openai.NotFoundError,
        409: openai.ConflictError,
        422: openai.UnprocessableEntityError,
        429: openai.RateLimitError,
    }
    made = kinds.get(code, openai.InternalServerError if code >= 500 else openai.APIStatusError)
    return made(f"status {code}", response=response, body={"code": kind} if kind else None)


def of(kind: type[Exception], cause: BaseException | None = None, text: str = "it failed") -> BaseException:
    """An error of the SDK's, without calling constructors that want a whole run."""
    error = kind.__new__(kind)
    Exception.__init__(error, text)
    error.__cause__ = cause
    if isinstance(error, AgentsException):
        error.run_data = None
    return error


class Unforeseen(Exception):
    """What a model of the user's own may raise."""


RESUMED: dict[str, BaseException] = {
    "connection": ConnectionResetError("reset"),
    "timeout": TimeoutError("late"),
    "asyncio timeout": asyncio.TimeoutError("late"),
    "no such host": socket.gaierror(-2, "unknown"),
    "httpx connect": httpx.ConnectError("refused"),
    "httpx read": httpx.ReadTimeout("late"),
    "httpx protocol": httpx.RemoteProtocolError("cut"),
    "api connection": openai.APIConnectionError(request=REQUEST),
    "api timeout": openai.APITimeoutError(request=REQUEST),
    **{f"status {code}": status(code) for code in (408, 409, 429, 500, 502, 503)},
    "provider failed": of(ModelBehaviorError, text="Responses stream ended with terminal event response.failed."),
    "user error of a passing cause": of(UserError, ConnectionError("lost")),
    "unforeseen": Unforeseen("what is this"),
}
if hasattr(exceptions, "ModelTimeoutError"):  # since 0.21
    RESUMED["model timeout"] = of(exceptions.ModelTimeoutError)
REFUSED: dict[str, BaseException] = {
    "refusal": of(exceptions.ModelRefusalError),
    **{f"status {code}": status(code) for code in (400, 401, 403, 404, 422)},
    "no quota": status(429, "insufficient_quota"),
    "max turns": of(MaxTurnsExceeded),
    "misbehaviour": of(ModelBehaviorError, text="Tool nonesuch not found in agent Resolver"),
    "user error": of(UserError),
    "user error of a lasting cause": of(UserError, status(400)),
    "input guardrail": of(InputGuardrailTripwireTriggered),
    "output guardrail": of(OutputGuardrailTripwireTriggered),
    "tool input guardrail": of(ToolInputGuardrailTripwireTriggered),
    "tool output guardrail": of(ToolOutputGuardrailTripwireTriggered),
    "in doubt": CallInDoubt("r", "pay", "k", "killed"),
    "in progress": CallInProgress("r", "pay", "k", "it runs"),
    "conflict": KeyConflict("r", "k"),
    "lost ownership": LostOwnership("r", "other", 2),
    "verification": HandoffVerificationError("r", "a", "b", ["n"], []),
    "diverged": RunDiverged("r", "model:root:1", "Resolver"),
    "store busy": StoreBusy("run.db", "write", "locked"),
    "store full": StoreFull("run.db", "write", "full"),
    "store unavailable": StoreUnavailable("run.db", "write", "gone"),
    "store damaged": StoreDamaged("run.db", "read", "torn"),
    "cancelled": asyncio.CancelledError(),
}


def triage(provider: Provider) -> Agent[Any]:
    resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
    return Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[resolver])


async def run(relay: Relay, agent: Agent[Any], streamed: bool, **given: Any) -> Any:
    given = {"run_config": RunConfig(tracing_disabled=True), **given}
    if not streamed:
        return await DurableRunner.run(relay, "r", agent, "Hello", **given)
    result: Any = DurableRunner.run_streamed(relay, "r", agent, "Hello", **given)
    async for _ in result.stream_events():
        pass
    return result


async def is_open_and_free(relay: Relay) -> None:
    assert await relay.arun_status("r") in ("open", "in_doubt")
    async with relay.arun("r", wait=0):
        pass


modes = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@modes
@pytest.mark.parametrize("name", RESUMED)
def test_a_passing_failure_is_met_by_another_attempt(tmp_path: Path, name: str, streamed: bool) -> None:
    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            provider = Provider(SCRIPTS, [1], RESUMED[name])
            result = await run(relay, triage(provider), streamed)
            assert result.final_output == "Done."
            assert [one.agent for one in provider.asked] == ["Triage", "Resolver", "Resolver"]
            assert await relay.arun_status("r") == "completed"

    asyncio.run(scenario())


@modes
@pytest.mark.parametrize("name", REFUSED)
def test_a_lasting_failure_comes_out_as_it_is_and_leaves_the_run_open_and_free(
    tmp_path: Path, name: str, streamed: bool
) -> None:
    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            provider = Provider(SCRIPTS, [1], REFUSED[name])
            with pytest.raises(type(REFUSED[name])) as caught:
                await run(relay, triage(provider), streamed)
            if name != "cancelled":
                assert caught.value is REFUSED[name]
            assert [one.agent for one in provider.asked] == ["Triage", "Resolver"]
            await is_open_and_free(relay)
            result = await run(relay, triage(provider), streamed)
            assert result.final_output == "Done."
            assert [one.agent for one in provider.asked] == ["Triage", "Resolver", "Resolver"]

    asyncio.run(scenario())


def test_the_caller_may_decide_otherwise(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            lasting = Provider(SCRIPTS, [1], status(400))
            asked: list[BaseException] = []

            def resume_on(error: BaseException) -> bool:
                asked.append(error)
                return True

            result = await run(relay, triage(lasting), False, resume_on=resume_on)
            assert result.final_output == "Done."
            assert [type(one) for one in asked] == [openai.BadRequestError]
        with Relay(tmp_path / "other.db") as relay:
            passing = Provider(SCRIPTS, [1], ConnectionError("lost"))
            with pytest.raises(ConnectionError):
                await run(relay, triage(passing), False, resume_on=lambda error: False)
            await is_open_and_free(relay)

    asyncio.run(scenario())


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_a_run_is_resumed_no_more_often_than_asked_for(tmp_path: Path, attempts: int) -> None:
    class Down(Provider):
        def answer(self, asked: Any) -> Any:
            if asked.agent == "Resolver":
                self.asked.append(asked)
                raise ConnectionError("down")
            return super().answer(asked)

    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            provider = Down(SCRIPTS)
            with pytest.raises(ConnectionError):
                await run(relay, triage(provider), False, max_resume_attempts=attempts)
            assert [one.agent for one in provider.asked] == ["Triage", *["Resolver"] * (attempts + 1)]
            await is_open_and_free(relay)

    asyncio.run(scenario())


@modes
@pytest.mark.parametrize("kind", [ToolTimeoutError, MCPToolCancellationError, Unforeseen])
def test_a_tool_that_fails_hard_is_run_again_by_another_attempt(
    tmp_path: Path, kind: type[Exception], streamed: bool
) -> None:
    failures = iter([of(kind)])
    runs: list[str] = []

    @function_tool(failure_error_function=None)
    def pay(order: str) -> str:
        """Pay."""
        runs.append(order)
        for failure in failures:
            raise failure
        return "paid"

    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            provider = Provider({"Payer": [[call("pay", "p1", order="77")], [message("Done.")]]})
            agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[pay])
            result = await run(relay, agent, streamed)
            assert result.final_output == "Done."
            assert len(provider.asked) == 2
            assert runs == ["77", "77"]

    asyncio.run(scenario())
