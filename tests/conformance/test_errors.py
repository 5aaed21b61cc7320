"""Each error of the tree: complete, portable, and of use to whoever reads it."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit import errors as e

STORE = ("/data/run.db", "save", "no answer came")
EXAMPLES: dict[type[e.HandoffKitError], tuple[Any, ...]] = {
    e.HandoffVerificationError: ("run-7", "triage", "resolver", ["ticket_id"], ["amount is negative"]),
    e.RunAlreadyCompleted: ("run-7", {"paid": 1}),
    e.RunInProgress: ("run-7", "owner-3", "host-9", 4711, 1.5),
    e.LostOwnership: ("run-7", "owner-3", 12),
    e.RunMismatch: ("run-7", "run-8"),
    e.AlreadyDecided: ("run-7", "call-1", "approved"),
    e.AmbiguousCheckpoint: ("cp-1", ["run-7", "run-8"]),
    e.NothingToResume: ("run-7",),
    e.RunDiverged: ("run-7", "model:root:2", "Resolver"),
    e.RunInputMismatch: ("run-7",),
    e.UnknownAgent: ("run-7", "resolver", ["triage", "closer"]),
    e.CallInProgress: ("run-7", "refund", "key-2", "its owner did not end"),
    e.CallInDoubt: ("run-7", "refund", "key-2", "its owner ended"),
    e.CheckpointNotFound: ("checkpoint-5",),
    e.KeyConflict: ("run-7", "key-2"),
    e.PayloadError: ("$.items[3]", "the value contains itself (a cycle)"),
    e.UnreadablePayload: ("checkpoint 'c-1' of run 'r'", "type 'Item' is not registered here"),
    e.UnsupportedSDK: ("0.19.1", ">=0.20"),
    e.StoreError: STORE,
    e.StoreBusy: STORE,
    e.StoreUnavailable: STORE,
    e.StoreFull: STORE,
    e.StoreDamaged: STORE,
    e.SchemaMismatch: ("/data/run.db", 9, 2),
}
UNNAMED = {"result"}
kinds = pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)


def tree(root: type[e.HandoffKitError]) -> Iterator[type[e.HandoffKitError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from tree(kind)


def fields(kind: type[e.HandoffKitError]) -> list[str]:
    return [name for name in inspect.signature(kind).parameters if name not in ("args", "kwargs")]


def test_every_error_of_the_tree_has_an_example() -> None:
    assert set(tree(e.HandoffKitError)) == set(EXAMPLES)


@kinds
def test_an_error_keeps_what_it_was_given_as_fields(kind: type[e.HandoffKitError]) -> None:
    given = EXAMPLES[kind]
    error = kind(*given)
    assert [getattr(error, name) for name in fields(kind)] == list(given)


@kinds
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_pickled_and_copied_with_fields_text_and_notes(
    kind: type[e.HandoffKitError], protocol: int
) -> None:
    error = kind(*EXAMPLES[kind])
    for back in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error)):
        assert (type(back), vars(back), str(back)) == (type(error), vars(error), str(error))


@kinds
def test_an_error_says_what_happened_to_which_value(kind: type[e.HandoffKitError]) -> None:
    text = str(kind(*EXAMPLES[kind]))
    for name, value in zip(fields(kind), EXAMPLES[kind], strict=True):
        for part in value if isinstance(value, list) else [value]:
            assert name in UNNAMED or str(part) in text, f"{name} is not in {text!r}"


@kinds
def test_an_error_says_what_to_do_now(kind: type[e.HandoffKitError]) -> None:
    text = str(kind(*EXAMPLES[kind]))
    verbs = "Change|Choose|Convert|Correct|Find|Free|Give|Install|Look|Make|Nothing was written; try|Read|Restore|Stop"
    advice = rf"({verbs}|Try|Use|Was)\b[^.]*"
    assert re.search(rf"{advice}.*[.?]$", text), text


def raise_in_another_process(tmp_path: Path) -> Any:
    code = (
        "import pickle, sys\n"
        "from agent_handoff_kit import Relay\n"
        "with Relay(sys.argv[1]) as relay:\n"
        "    try:\n"
        "        relay.handoff('r', 'a', 'b', {}, ['k'], checks=[lambda state: 'no k'])\n"
        "    except Exception as error:\n"
        "        sys.stdout.buffer.write(pickle.dumps(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run.db")], capture_output=True, check=True)
    return pickle.loads(done.stdout)


def test_a_raised_error_crosses_a_process_border(tmp_path: Path) -> None:
    error = raise_in_another_process(tmp_path)
    assert isinstance(error, e.HandoffVerificationError)
    assert (error.run_id, error.missing, error.reasons) == ("r", ["k"], ["no k"])
    with Relay(tmp_path / "run.db") as relay:
        assert [one.error for one in relay.history("r")] == [str(error)]
