"""A talk that grows costs what is new, in the file and in the checkpoint."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay, make_handoff_envelope

MESSAGES = [{"role": "user", "content": f"{number:04} " + "x" * 2000} for number in range(200)]
PAYLOAD = len(json.dumps(MESSAGES))


def whole(messages: list[Any]) -> dict[str, Any]:
    return make_handoff_envelope({"n": len(messages)}, from_agent="a", to_agent="b", messages=messages)


@pytest.mark.parametrize("form", ["the whole list", "new messages only"])
def test_a_file_grows_with_the_talk_and_not_with_its_square(face: Any, path: str, form: str) -> None:
    for count, message in enumerate(MESSAGES, 1):
        if form == "the whole list":
            face.handoff("r", "a", "b", whole(MESSAGES[:count]), ["n"])
        else:
            face.handoff("r", "a", "b", {"n": count}, ["n"], new_messages=[message])
    face.relay.close()
    assert Path(path).stat().st_size <= 1.3 * PAYLOAD
    with Relay(path) as later:
        found = later.recover("r")
        assert found is not None
        assert found.context["messages"] == MESSAGES
        lengths = [(one.context["state"]["n"], len(one.context["messages"])) for one in later.history("r")]
    assert lengths == [(count, count) for count in range(1, 201)]


def test_runs_that_take_turns_store_each_message_once(face: Any, path: str) -> None:
    for count in range(1, 51):
        for run_id in ("r", "s"):
            face.handoff(run_id, "a", "b", whole(MESSAGES[:count]))
    face.relay.close()
    assert Path(path).stat().st_size <= 1.7 * 2 * len(json.dumps(MESSAGES[:50]))


def test_a_new_process_goes_on_with_the_stored_talk(face: Any, path: str) -> None:
    for count in range(1, 51):
        with Relay(path) as fresh:
            fresh.handoff("r", "a", "b", whole(MESSAGES[:count]))
    assert face.recover("r").context["messages"] == MESSAGES[:50]
    face.relay.close()
    assert Path(path).stat().st_size <= 1.7 * len(json.dumps(MESSAGES[:50]))


def test_a_talk_that_is_rewritten_costs_its_own_size_and_keeps_every_version(face: Any, path: str) -> None:
    versions = [[{"n": number}, *MESSAGES[:10]] for number in range(5)]
    for messages in versions:
        face.handoff("r", "a", "b", whole(messages))
    assert [one.context["messages"] for one in face.history("r")] == versions
    connection = sqlite3.connect(path)
    (logs,) = connection.execute("SELECT count(DISTINCT log_seq) FROM checkpoint").fetchone()
    connection.close()
    assert logs == 5
