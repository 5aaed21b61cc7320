"""What a caller asks for must be something that can be judged, by whoever verifies."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from agent_handoff_kit import Checkpoint, HandoffStatus, HandoffVerificationError, Relay
from agent_handoff_kit.pipeline import Pipeline, Step


@dataclass
class Ticket:
    ticket_id: int


@dataclass
class Other:
    ticket_id: int


def positive(state: Any) -> bool:
    return bool(state["ticket_id"] > 0)


async def later(state: Any) -> bool:
    return False


class Later:
    async def __call__(self, state: Any) -> bool:
        return False


class Holder:
    """Cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, state: Any) -> None:
        return None


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(":memory:") as one:
        yield one


def by_checkpoint(relay: Relay, **terms: Any) -> Any:
    return relay.checkpoint("r", "a", "b", {"ticket_id": 1}, **terms)


def by_handoff(relay: Relay, **terms: Any) -> Any:
    return relay.handoff("r", "a", "b", {"ticket_id": 1}, **terms)


def by_guard(relay: Relay, **terms: Any) -> Any:
    return relay.guarded_handoff("r", "a", "b", **terms)(lambda context: None)({"ticket_id": 1})


def by_pipeline(relay: Relay, **terms: Any) -> Any:
    return Pipeline(relay, [Step("one", lambda context: context, **terms)]).run("r", {"ticket_id": 1})


def by_verify(relay: Relay, **terms: Any) -> Any:
    if "required_keys" in terms:
        raise TypeError(f"verify takes no {terms['required_keys']}")
    try:
        return relay.verify(relay.checkpoint("r", "a", "b", {"ticket_id": 1}), **terms)
    finally:
        assert [one.status for one in relay.history("r")] == [HandoffStatus.PENDING]
        relay.prune("r")


ways = pytest.mark.parametrize("way", [by_checkpoint, by_handoff, by_guard, by_pipeline, by_verify])
UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"required_keys": "ticket_id"}, "ticket_id"),
    ({"required_keys": b"ticket_id"}, "ticket_id"),
    ({"required_keys": ["ticket_id", ["a"]]}, "'a'"),
    ({"schema": int}, "int"),
    ({"schema": Ticket(1)}, "Ticket"),
    ({"checks": [later]}, "later is async"),
    ({"checks": [functools.partial(later)]}, "later is async"),
    ({"checks": [Later()]}, "Later is async"),
    ({"checks": ["positive"]}, "positive"),
]


@ways
@pytest.mark.parametrize(("terms", "named"), UNUSABLE, ids=lambda value: str(value)[:30])
def test_terms_that_cannot_be_used_are_refused_at_the_call(
    relay: Relay, way: Callable[..., Any], terms: dict[str, Any], named: str
) -> None:
    with pytest.raises(TypeError, match=named):
        way(relay, **terms)
    assert [one.status for one in relay.history("r")] in ([], [HandoffStatus.PENDING])
    assert relay.recover("r") is None


@pytest.mark.parametrize("steps", [1, 2])
def test_a_check_that_turns_out_to_be_async_is_no_reason(relay: Relay, steps: int) -> None:
    checks = [lambda state: later(state)]
    with pytest.raises(TypeError, match="async"):
        if steps == 1:
            by_handoff(relay, checks=checks)
        else:
            relay.verify(by_checkpoint(relay, checks=checks))
    assert [one.status for one in relay.history("r")] == [HandoffStatus.PENDING] * (steps - 1)


def test_a_key_whose_stored_form_is_no_key_is_missing(relay: Relay) -> None:
    @dataclass(frozen=True)
    class Key:
        n: int

    with pytest.raises(HandoffVerificationError) as caught:
        by_handoff(relay, required_keys=[Key(1)])
    assert caught.value.missing == [{"n": 1}]


def test_another_schema_than_the_one_named_is_refused(relay: Relay) -> None:
    made = by_checkpoint(relay, schema=Ticket)
    with pytest.raises(HandoffVerificationError, match="Ticket"):
        relay.verify(made, schema=Other)
    assert relay.verify(made, schema=Ticket).status is HandoffStatus.VERIFIED


def test_a_lambda_does_not_pass_for_another(relay: Relay) -> None:
    refuse, accept = (lambda state: "no"), (lambda state: None)
    by_checkpoint(relay, checks=[refuse])
    (stored,) = relay.history("r")
    for checks in ([accept], [functools.partial(accept)], []):
        with pytest.raises(HandoffVerificationError, match="lambda"):
            relay.verify(stored, checks=checks)
    assert relay.history("r")[0].status is HandoffStatus.PENDING


def test_a_lambda_is_judged_by_in_the_process_that_gave_it(relay: Relay) -> None:
    accept = lambda state: None  # noqa: E731
    made = by_checkpoint(relay, checks=[accept, positive])
    assert relay.verify(made, checks=[positive, accept]).status is HandoffStatus.VERIFIED
    with pytest.raises(HandoffVerificationError, match="no way"):
        relay.verify(by_checkpoint(relay, checks=[lambda state: "no way"]))


def test_each_of_several_checks_of_one_name_is_needed(relay: Relay) -> None:
    made = by_checkpoint(relay, checks=[positive, functools.partial(positive)])
    (stored,) = relay.history("r")
    with pytest.raises(HandoffVerificationError, match="positive"):
        relay.verify(stored, checks=[positive])
    assert relay.verify(made).status is HandoffStatus.VERIFIED


@pytest.mark.parametrize("decoded", [True, False])
def test_a_checkpoint_pickles_whatever_its_checks_are(relay: Relay, decoded: bool) -> None:
    @dataclass
    class Local:
        ticket_id: int

    made = by_checkpoint(relay, schema=Local, checks=[positive, Holder(), lambda state: None])
    one = made if decoded else relay.history("r")[0]
    back: Checkpoint = pickle.loads(pickle.dumps(one))
    assert back == one
    assert (back.schema, back.checks) == (None, (positive,) if decoded else ())
    with pytest.raises(HandoffVerificationError, match="schema 'Local'"):
        relay.verify(back)


def test_a_copy_keeps_its_checks_and_a_deep_one_has_a_context_of_its_own(relay: Relay) -> None:
    check = lambda state: None  # noqa: E731
    made = relay.checkpoint("r", "a", "b", {"items": [1]}, schema=None, checks=[check])
    for duplicate in (copy.copy, copy.deepcopy):
        twin = duplicate(made)
        assert (twin, twin.checks) == (made, (check,))
    copy.deepcopy(made).context["items"].append(2)
    assert made.context == {"items": [1]}
