"""A provider of scripted model responses that outlives the processes which ask it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents import Model, ModelResponse, Usage
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItemDoneEvent, ResponseUsage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

Output = Sequence[Any]


@dataclass(frozen=True)
class Asked:
    """One call, as the provider saw it."""

    agent: str
    input: Any
    instructions: str | None
    tool_choice: Any
    tools: tuple[str, ...]
    handoffs: tuple[str, ...]
    previous_response_id: str | None
    conversation_id: str | None


class Provider:
    """Gives each agent the outputs of its script, one for each call that it answers.

    An answered call that is made again would take the next output, so the run would show it.

    Args:
        scripts: by agent, the output of each of its calls.
        lost: which answers, counted over all agents, fail the first time they are asked for.
        failure: what is raised then; a lost connection by default.
    """

    def __init__(
        self, scripts: Mapping[str, Sequence[Output]], lost: Collection[int] = (), failure: BaseException | None = None
    ) -> None:
        self.asked: list[Asked] = []
        self.answers = 0
        self._waiting = {agent: list(outputs) for agent, outputs in scripts.items()}
        self._lost = set(lost)
        self._failure = failure

    def model(self, agent: str) -> Model:
        """The agent's model, a new object for each process."""
        return ProvidedModel(self, agent)

    def answer(self, asked: Asked) -> ModelResponse:
        """The next output, or a lost connection."""
        self.asked.append(asked)
        if self.answers in self._lost:
            self._lost.remove(self.answers)
            raise self._failure or ConnectionError(f"lost before answer {self.answers}")
        self.answers += 1
        output = copy.deepcopy(list(self._waiting[asked.agent].pop(0)))
        return ModelResponse(output=output, usage=_usage(self.answers), response_id=f"resp_{self.answers}")


class ProvidedModel(Model):
    """One agent's way to a provider."""

    def __init__(self, provider: Provider, agent: str) -> None:
        self._provider = provider
        self._agent = agent

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        *,
        previous_response_id: Any = None,
        conversation_id: Any = None,
        prompt: Any = None,
    ) -> ModelResponse:
        asked = Asked(
            self._agent,
            copy.deepcopy(input),
            system_instructions,
            model_settings.tool_choice,
            tuple(tool.name for tool in tools),
            tuple(one.tool_name for one in handoffs),
            previous_response_id,
            conversation_id,
        )
        return self._provider.answer(asked)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        response = await self.get_response(*args, **kwargs)
        for place, item in enumerate(response.output):
            yield ResponseOutputItemDoneEvent(
                item=item, output_index=place, sequence_number=place, type="response.output_item.done"
            )
        yield whole_response(response)


def _usage(number: int) -> Usage:
    return Usage(requests=1, input_tokens=10 * number, output_tokens=number, total_tokens=11 * number)


def whole_response(response: ModelResponse) -> ResponseCompletedEvent:
    """The event that ends the stream of a response."""
    number = len(response.output)
    return ResponseCompletedEvent(response=_whole(response), sequence_number=number, type="response.completed")


def _whole(response: ModelResponse) -> Response:
    usage = ResponseUsage.model_construct(
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        total_tokens=response.usage.total_tokens,
        input_tokens_details=InputTokensDetails.model_construct(cached_tokens=0, cache_write_tokens=0),
        output_tokens_details=OutputTokensDetails.model_construct(reasoning_tokens=0),
    )
    return Response.model_construct(
        id=response.response_id,
        created_at=0.0,
        model="scripted",
        object="response",
        output=response.output,
        tool_choice="auto",
        tools=[],
        parallel_tool_calls=True,
        status="completed",
        usage=usage,
    )
