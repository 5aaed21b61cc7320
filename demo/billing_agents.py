"""A billing desk of two agents for the demos: triage hands over to the resolver, which refunds once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Usage
from agents.models.multi_provider import MultiProvider
from dotenv import load_dotenv
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import make_idempotent_function_tool

QUESTION = "I was charged twice for order 77. Please refund it."


def require_key() -> None:
    """Leave with status 2 unless an API key is at hand, in the environment or a .env file."""
    load_dotenv()
    if not os.environ.get("OPENAI_API_KEY"):
        print("the live demo needs OPENAI_API_KEY, in the environment or in a .env file", file=sys.stderr)
        raise SystemExit(2)


def build(relay: Relay, ledger: Path, triage_model: Any, resolver_model: Any) -> Agent[Any]:
    """The agents, built as without the kit but for the refund, which is declared to happen once."""

    def refund(order: str, amount: int) -> str:
        """Refund an order in cents."""
        with ledger.open("a") as file:
            file.write(f"{order} {amount}\n")
        print(f"  refund of {amount} for order {order} applied", flush=True)
        return f"refunded {amount} for order {order}"

    def key_of(order: str, amount: int) -> str:
        return f"refund:{order}:{amount}"

    refund_once = make_idempotent_function_tool(relay, None, refund, key_of)
    resolver = Agent(
        name="Resolver",
        instructions="Call refund once with order 77 and amount 500, then tell the customer in one sentence.",
        model=resolver_model,
        tools=[refund_once],
    )
    return Agent(
        name="Triage",
        instructions="Hand every billing question over to the Resolver.",
        model=triage_model,
        handoffs=[resolver],
    )


def scripted_triage() -> Scripted:
    """A model that hands over."""
    return Scripted("triage", [call("transfer_to_resolver", "h1")])


def scripted_resolver() -> Scripted:
    """A model that refunds, then answers."""
    return Scripted("resolver", [call("refund", "r1", order="77", amount=500)], [message("Order 77 is refunded.")])


class Scripted(Model):
    """A model without a network: it answers by how many tool results it has been shown."""

    def __init__(self, name: str, *answers: list[Any]) -> None:
        self._name = name
        self._answers = answers

    def answer_to(self, items: list[dict[str, Any]]) -> list[Any]:
        results = [one for one in items if one.get("type") == "function_call_output" and one["call_id"] != "h1"]
        print(f"  the {self._name}'s model is asked", flush=True)
        return self._answers[min(len(results), len(self._answers) - 1)]

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(self.answer_to(input), Usage(requests=1), response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        response = Response(
            id="scripted",
            created_at=0,
            model=self._name,
            object="response",
            output=self.answer_to(input),
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


class FailsOnce(Model):
    """A model whose first call fails as a lost connection does."""

    def __init__(self, inner: Model | None = None) -> None:
        self._inner = inner or MultiProvider().get_model(None)
        self._failed = False

    def _fail(self) -> None:
        if not self._failed:
            self._failed = True
            print("  the model's connection is lost, after the handoff", flush=True)
            raise ConnectionError("the connection to the model was lost")

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        self._fail()
        return await self._inner.get_response(*args, **kwargs)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self._fail()
        return self._inner.stream_response(*args, **kwargs)


def call(tool: str, call_id: str, **arguments: Any) -> ResponseFunctionToolCall:
    """A model's wish to call a tool."""
    return ResponseFunctionToolCall(
        name=tool, call_id=call_id, arguments=json.dumps(arguments), type="function_call", id=f"fc_{call_id}"
    )


def message(text: str) -> ResponseOutputMessage:
    """A model's answer."""
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="msg_1", content=[content], role="assistant", status="completed", type="message")
