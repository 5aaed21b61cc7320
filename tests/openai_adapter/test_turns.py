"""``max_turns`` and the usage count the whole run, however often it was resumed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import function_tool
from agents.exceptions import MaxTurnsExceeded

from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.pair import RESOLVERS_FIRST, UNTRACED, pair, provider, run


@function_tool
async def note(text: str) -> str:
    """Note something."""
    return text


def streamed(relay: Relay, agent: Any, **given: Any) -> Any:
    async def read() -> Any:
        result = DurableRunner.run_streamed(
            relay, "r", agent, "Help.", run_config=UNTRACED, max_resume_attempts=0, **given
        )
        _ = [event async for event in result.stream_events()]
        return result

    return asyncio.run(read())


runs = pytest.mark.parametrize("run_of", [run, streamed], ids=["whole", "streamed"])


@runs
@pytest.mark.parametrize("lost", [[], [RESOLVERS_FIRST]], ids=["undisturbed", "resumed"])
def test_the_limit_counts_the_whole_run_and_its_error_names_the_callers_number(
    relay: Relay, run_of: Any, lost: list[int]
) -> None:
    asked = provider(lost)
    for _ in lost:
        with pytest.raises(ConnectionError):
            run_of(relay, pair(asked, [note]), max_turns=3)
    with pytest.raises(MaxTurnsExceeded, match=r"\(3\)") as exceeded:
        run_of(relay, pair(asked, [note]), max_turns=3)
    assert exceeded.value.message == str(exceeded.value)
    assert asked.answers == 3
    assert relay.run_status("r") == "open"


@runs
def test_a_higher_limit_lets_a_later_call_go_on(relay: Relay, run_of: Any) -> None:
    asked = provider()
    for limit in (1, 2, 3):
        with pytest.raises(MaxTurnsExceeded, match=rf"\({limit}\)"):
            run_of(relay, pair(asked, [note]), max_turns=limit)
        assert len(asked.asked) == limit
    result = run_of(relay, pair(asked, [note]), max_turns=4)
    assert (result.final_output, len(asked.asked)) == ("Done.", 4)


@runs
@pytest.mark.parametrize("limit", [1, 2])
def test_a_limit_that_was_passed_before_ends_a_later_call_at_once(relay: Relay, run_of: Any, limit: int) -> None:
    asked = provider(lost=[RESOLVERS_FIRST])
    with pytest.raises(ConnectionError):
        run_of(relay, pair(asked, [note]))
    with pytest.raises(MaxTurnsExceeded, match=rf"\({limit}\)"):
        run_of(relay, pair(asked, [note]), max_turns=limit)
    assert asked.answers == 2


def test_no_limit_stays_none_after_a_resume(relay: Relay) -> None:
    asked = provider(lost=[RESOLVERS_FIRST])
    assert run(relay, pair(asked, [note]), max_turns=None, max_resume_attempts=1).final_output == "Done."


def test_a_handler_of_the_limit_is_told_the_callers_number(relay: Relay) -> None:
    asked = provider(lost=[RESOLVERS_FIRST])
    told: list[str] = []

    def handler(data: Any) -> str:
        told.append(str(data.error))
        return "Too long."

    given: dict[str, Any] = {"max_turns": 3, "error_handlers": {"max_turns": handler}, "max_resume_attempts": 1}
    result = run(relay, pair(asked, [note]), **given)
    assert (result.final_output, told) == ("Too long.", ["Max turns (3) exceeded"])
