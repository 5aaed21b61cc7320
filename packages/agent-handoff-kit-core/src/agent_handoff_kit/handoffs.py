"""What a handoff is, as plans of store requests. User code (redact, schema, checks) runs here, outside transactions."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from agent_handoff_kit._kinds import is_model, type_of
from agent_handoff_kit._redaction import redacted
from agent_handoff_kit._shapes import as_type
from agent_handoff_kit.errors import CheckpointNotFound, HandoffVerificationError, RunAlreadyCompleted
from agent_handoff_kit.models import (
    Checkpoint,
    HandoffStatus,
    checkpoint_state,
    context_to_mapping,
    is_handoff_envelope,
    make_handoff_envelope,
)
from agent_handoff_kit.serialization import require_equal
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.payloads import decode_state, encode_state
from agent_handoff_kit.store.requests import Plan
from agent_handoff_kit.verification import LAMBDA, Verdict, check_name, judge, require_keys, require_usable

T = TypeVar("T")


class Parties(NamedTuple):
    """The run, the sender and the receiver."""

    run_id: str
    from_agent: str
    to_agent: str


class Terms(NamedTuple):
    """What the state must satisfy."""

    required_keys: tuple[Any, ...] = ()
    schema: Any = None
    checks: tuple[Callable[[Any], Any], ...] = ()

    @property
    def schema_name(self) -> str | None:
        return None if self.schema is None else check_name(self.schema)

    @property
    def check_names(self) -> tuple[str, ...]:
        return tuple(check_name(check) for check in self.checks)


def terms_of(required_keys: Iterable[Any], schema: Any = None, checks: Iterable[Callable[[Any], Any]] = ()) -> Terms:
    """The terms that a caller gave.

    Raises:
        TypeError: they cannot be used; says why.
    """
    if callable(checks):
        raise TypeError(f"checks is the callable {check_name(checks)}; give a list of callables")
    given = tuple(checks)
    require_usable(schema, given)
    return Terms(require_keys(required_keys), schema, given)


def checkpoint(
    store: CheckpointStore,
    parties: Parties,
    context: Any,
    terms: Terms,
    op_id: str | None,
    redact: Callable[[Any], Any] | None,
) -> Plan[Checkpoint]:
    """Write a PENDING checkpoint."""
    made = _checkpoint(parties, _stored_form(context_to_mapping(context), redact), terms, op_id)
    return (yield from _save(store, made, None, _encoded(store, made, context, redact)))


def handoff(
    store: CheckpointStore,
    parties: Parties,
    context: Any,
    terms: Terms,
    op_id: str | None,
    redact: Callable[[Any], Any] | None,
    new_messages: list[Any] | None,
) -> Plan[Checkpoint]:
    """Judge the bytes that will be stored, then write the checkpoint VERIFIED, or FAILED and raise."""
    mapping = context_to_mapping(context)
    if new_messages is None:
        mapping = _stored_form(mapping, redact)
    else:
        envelope = _stored_form(_with_messages(mapping, new_messages, parties), redact)
        mapping, new_messages = _taken_apart(envelope)
    made = _checkpoint(parties, mapping, terms, op_id)
    state = _encoded(store, made, context, redact)
    verdict = judge(*_as_stored(store, made, state, terms), terms.schema, terms.checks)
    error = None if verdict.ok else _error(made, verdict)
    made.status = HandoffStatus.VERIFIED if error is None else HandoffStatus.FAILED
    made.error = None if error is None else str(error)
    yield from _save(store, made, new_messages, state)
    if error is not None:
        raise error
    if made.status is HandoffStatus.FAILED:
        # Done before under the same operation id, and refused then.
        raise _refused(made, made.error or "it was refused before")
    return made


def verify(
    store: CheckpointStore, given: Checkpoint, schema: Any, checks: tuple[Callable[[Any], Any], ...]
) -> Plan[Checkpoint]:
    """Judge the stored bytes and record the verdict."""
    require_usable(schema, checks)
    stored = yield from store.find(given.run_id, given.checkpoint_id)
    if stored.status is HandoffStatus.VERIFIED:
        given.status, given.error = stored.status, stored.error
        return given
    terms = Terms(tuple(stored.required_keys), schema or given.schema, checks or given.checks)
    refusal = _not_judgeable(stored, terms, given)
    if refusal is not None:
        raise _refused(stored, refusal)
    verdict = judge(checkpoint_state(stored), terms.required_keys, terms.schema, terms.checks)
    error = None if verdict.ok else _error(stored, verdict)
    status = HandoffStatus.VERIFIED if error is None else HandoffStatus.FAILED
    text = None if error is None else str(error)
    pending = (HandoffStatus.PENDING,)
    before = yield from store.transition(given.run_id, given.checkpoint_id, status, pending, text)
    if before is None:
        raise CheckpointNotFound(given.checkpoint_id)
    if before not in (HandoffStatus.PENDING.value, status.value):
        given.status, given.error = HandoffStatus(before), None
        raise _refused(stored, f"checkpoint {stored.checkpoint_id!r} became {before} meanwhile")
    given.status, given.error = status, text
    if error is not None:
        raise error
    return given


def recover(store: CheckpointStore, run_id: str, to_agent: str | None, allow_rollback: bool) -> Plan[Checkpoint | None]:
    """The checkpoint from which the run goes on, if it is for this agent."""
    found = yield from store.resume_point(run_id, allow_rollback=allow_rollback)
    if found is not None and to_agent is not None and found.to_agent != to_agent:
        return None
    return found


def run_status(store: CheckpointStore, run_id: str) -> Plan[str | None]:
    """The run's status, or None."""
    row = yield from store.read_run(run_id)
    return None if row is None else row.status


def _save(store: CheckpointStore, made: Checkpoint, new_messages: list[Any] | None, state: bytes) -> Plan[Checkpoint]:
    try:
        return (yield from store.saving(made, new_messages=new_messages, state=state))
    except RunAlreadyCompleted:
        result = yield from store.run_result(made.run_id)
        raise RunAlreadyCompleted(made.run_id, result) from None


def _stored_form(mapping: dict[str, Any], redact: Callable[[Any], Any] | None) -> dict[str, Any]:
    return mapping if redact is None else context_to_mapping(redacted(mapping, redact))


def _with_messages(mapping: dict[str, Any], new: list[Any], parties: Parties) -> dict[str, Any]:
    if not is_handoff_envelope(mapping):
        return make_handoff_envelope(
            mapping, from_agent=parties.from_agent, to_agent=parties.to_agent, messages=new, sdk="python"
        )
    if mapping["messages"]:
        raise ValueError("give the messages in the envelope or in new_messages=, not in both")
    return {**mapping, "messages": new}


def _taken_apart(envelope: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    if not is_handoff_envelope(envelope):
        raise ValueError("redact made something else of an envelope; it has to keep state, messages and meta")
    return {**envelope, "messages": []}, envelope["messages"]


def _checkpoint(parties: Parties, mapping: dict[str, Any], terms: Terms, op_id: str | None) -> Checkpoint:
    return Checkpoint(
        *parties,
        mapping,
        list(terms.required_keys),
        checkpoint_id=os.urandom(16).hex() if op_id is None else op_id,
        schema_name=terms.schema_name,
        check_names=terms.check_names,
        schema=terms.schema,
        checks=terms.checks,
    )


def _encoded(store: CheckpointStore, made: Checkpoint, context: Any, redact: Callable[[Any], Any] | None) -> bytes:
    """The one encoding of the context: what is judged, and what is stored."""
    if isinstance(context, dict):
        return encode_state(made, store.codec)
    noted: list[str] = []
    data = encode_state(made, store.codec, noted)
    if redact is None and (noted or is_model(context)):
        make_again = functools.partial(as_type, type(context))
        require_equal(context, make_again, decode_state(made, store.codec, data), strict=store.codec.strict)
    return data


def _as_stored(
    store: CheckpointStore, made: Checkpoint, data: bytes, terms: Terms
) -> tuple[dict[str, Any], Sequence[Any]]:
    """The state and the required keys as the store will give them back."""
    live: Any = made.context["state"] if is_handoff_envelope(made.context) else made.context
    keys = terms.required_keys
    # Text keys survive encoding as they are, so without schema and checks a plain live state tells the same.
    if terms.schema is None and not terms.checks and type_of(live) is dict and _all_text(live) and _all_text(keys):
        return live, keys
    codec = store.codec
    return decode_state(made, codec, data), codec.decode(codec.encode(list(keys), "required_keys"))


def _all_text(keys: Iterable[Any]) -> bool:
    return all(type(key) is str for key in keys)


def _not_judgeable(stored: Checkpoint, terms: Terms, given: Checkpoint) -> str | None:
    if stored.status is not HandoffStatus.PENDING:
        return f"checkpoint {stored.checkpoint_id!r} is {stored.status.value}, only a PENDING one is verified"
    if stored.schema_name is not None and stored.schema_name != terms.schema_name:
        return f"the checkpoint names schema {stored.schema_name!r}; pass it as schema="
    absent = sorted((Counter(stored.check_names) - Counter(terms.check_names)).elements())
    if absent:
        return f"the checkpoint names checks {absent}; pass them as checks="
    strange = [one for one in terms.checks if check_name(one) == LAMBDA and not any(one is own for own in given.checks)]
    if strange and LAMBDA in stored.check_names:
        return (
            "a lambda cannot be known by its name; verify the object that checkpoint() returned, or give checks a def"
        )
    return None


def _refused(stored: Checkpoint, reason: str) -> HandoffVerificationError:
    return HandoffVerificationError(stored.run_id, stored.from_agent, stored.to_agent, (), (reason,))


def _error(made: Checkpoint, verdict: Verdict) -> HandoffVerificationError:
    return HandoffVerificationError(
        made.run_id, made.from_agent, made.to_agent, tuple(verdict.missing), tuple(verdict.reasons)
    )
