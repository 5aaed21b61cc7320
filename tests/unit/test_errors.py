"""Errors keep their fields, their words and their place in the tree."""

from __future__ import annotations

import pickle

import pytest

from agent_handoff_kit import errors as e

STORE = ("run.db", "save", "no answer")
ALL = [
    e.HandoffKitError("x"),
    e.HandoffVerificationError("r", "a", "b", ["x"], ["bad"]),
    e.RunAlreadyCompleted("r", {"n": 1}),
    e.RunInProgress("r", "me", "host", 7, 1.5),
    e.LostOwnership("r", "me", 3),
    e.RunInputMismatch("r"),
    e.RunMismatch("r", "s"),
    e.RunDiverged("r", "model:root:1", "Resolver"),
    e.NothingToResume("r"),
    e.UnknownAgent("r", "Resolver", ["Triage"]),
    e.AmbiguousCheckpoint("c", ["r", "s"]),
    e.AlreadyDecided("r", "p1", "approved"),
    e.CallInProgress("r", "pay", "k", "it runs"),
    e.CallInDoubt("r", "pay", "k", "its owner ended"),
    e.CheckpointNotFound("c"),
    e.KeyConflict("r", "k"),
    e.PayloadError("$.a", "broken"),
    e.UnreadablePayload("result of run 'r'", "type 'Item' is not registered here"),
    e.UnsupportedSDK("0.1", ">=0.2"),
    e.StoreError(*STORE),
    e.StoreBusy(*STORE),
    e.StoreUnavailable(*STORE),
    e.StoreFull(*STORE),
    e.StoreDamaged(*STORE),
    e.SchemaMismatch("run.db", 9, 2),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_fields_and_text(error: e.HandoffKitError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert vars(back) == vars(error)
    assert str(back) == str(error)


def test_missing_keys_are_worded_as_in_0_1_0() -> None:
    assert "missing required keys: ['x']" in str(e.HandoffVerificationError("r", "a", "b", ("x",)))


def test_reasons_are_all_in_the_text() -> None:
    text = str(e.HandoffVerificationError("r", "a", "b", ["x"], ["one", "two"]))
    assert "one" in text
    assert "two" in text


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (e.RunAlreadyCompleted, RuntimeError),
        (e.CheckpointNotFound, LookupError),
        (e.PayloadError, ValueError),
        (e.UnreadablePayload, e.PayloadError),
        (e.SchemaMismatch, e.StoreError),
        (e.LossyPayloadWarning, UserWarning),
    ],
)
def test_errors_are_caught_by_their_builtin_kin(kind: type, base: type) -> None:
    assert issubclass(kind, base)
