"""A fork in the middle of work leaves both sides with a store that works."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agent_handoff_kit import Relay

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def test_forks_disturb_neither_readers_nor_writers_and_the_child_can_do_both(tmp_path: Path) -> None:
    ended = threading.Event()
    errors: list[BaseException] = []
    written = [0, 0]

    def work(relay: Relay, worker: int) -> None:
        try:
            while not ended.is_set():
                relay.handoff(f"w{worker}", "a", "b", {"n": written[worker]})
                written[worker] += 1
                relay.history("child", limit=1)
                relay.recover("first")
        except BaseException as error:
            errors.append(error)

    with Relay(tmp_path / "run.db") as relay:
        relay.handoff("first", "a", "b", {})
        threads = [threading.Thread(target=work, args=(relay, worker)) for worker in range(2)]
        for thread in threads:
            thread.start()
        codes = [fork_and_write(relay, number) for number in range(20)]
        ended.set()
        for thread in threads:
            thread.join()
        assert errors == []
        assert codes == [0] * 20
        assert [one.context["n"] for one in relay.history("child")] == list(range(20))
        for worker in range(2):
            assert [one.context["n"] for one in relay.history(f"w{worker}")] == list(range(written[worker]))


def fork_and_write(relay: Relay, number: int) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert relay.recover("first") is not None
            relay.handoff("child", "a", "b", {"n": number})
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
