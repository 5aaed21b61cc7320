"""A fork in the middle of work leaves both sides with a store that works."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreError
from agent_handoff_kit.store.steps import Script, WriteRun

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


def test_threads_that_fork_at_the_same_moment_disturb_each_other_in_nothing(tmp_path: Path) -> None:
    codes: list[int] = []
    with Relay(tmp_path / "run.db") as relay, Relay(tmp_path / "other.db") as other:
        for one in (relay, other):
            one.handoff("first", "a", "b", {})
        begin = threading.Barrier(4)

        def fork_again_and_again(number: int) -> None:
            begin.wait()
            for turn in range(8):
                codes.append(fork_and_write(relay, 100 * number + turn))

        def open_again_and_again() -> None:
            begin.wait()
            for _ in range(8):
                with Relay(tmp_path / "run.db") as third:
                    third.handoff("third", "a", "b", {})

        threads = [threading.Thread(target=fork_again_and_again, args=(number,)) for number in range(3)]
        threads.append(threading.Thread(target=open_again_and_again))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == [0] * 24
        assert len(relay.history("child")) == 24
        assert len(relay.history("third")) == 8
        other.handoff("first", "b", "c", {})


def test_a_child_forked_inside_an_operation_is_refused_by_name_and_disturbs_nothing(tmp_path: Path) -> None:
    codes: list[int] = []

    def opening() -> Script[None]:
        codes.append(fork_and_be_refused(relay))
        yield WriteRun("r", "open", None, None, 0.0)

    with Relay(tmp_path / "run.db") as relay:
        relay.handoff("first", "a", "b", {})
        relay.store.backend.write(opening)
        assert codes == [0]
        assert relay.run_status("r") == "open"
        relay.handoff("first", "b", "c", {})


def fork_and_be_refused(relay: Relay) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for attempt in (lambda: relay.handoff("r", "a", "b", {}), lambda: Relay(relay.store.db_path)):
                with pytest.raises(StoreError, match="forked in the middle"):
                    attempt()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
