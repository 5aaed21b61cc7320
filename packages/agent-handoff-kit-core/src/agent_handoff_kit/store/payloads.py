"""Checkpoints to drafts and back: encode, hash, check, decode. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent_handoff_kit._kinds import is_model
from agent_handoff_kit._redaction import redacted
from agent_handoff_kit._registered import registry
from agent_handoff_kit._shapes import as_it_is
from agent_handoff_kit.errors import StoreDamaged, UnreadablePayload
from agent_handoff_kit.models import Checkpoint, HandoffStatus, is_handoff_envelope
from agent_handoff_kit.serialization import check_text, decode, encode, require_equal, require_size, storable_text
from agent_handoff_kit.store.logs import Log, Snapshot, appended, whole_list
from agent_handoff_kit.store.records import EMPTY_CHAIN, Draft, LogHead, StoredCheckpoint

_NO_LOG = Log((), None, 0, EMPTY_CHAIN, 0, None)


@dataclass(frozen=True)
class Codec:
    """How payloads are written: refuse or sanitise what is unknown, the size limit, the user's types."""

    strict: bool = False
    max_bytes: int = 64 * 2**20
    types: tuple[type, ...] = ()

    def __post_init__(self) -> None:
        registry(self.types)

    def encode(self, value: Any, root: str = "$", noted: list[str] | None = None) -> bytes:
        return encode(value, root=root, noted=noted, **self.options())

    def encode_result(
        self,
        result: Any,
        rebuild: Callable[[Any], Any] = as_it_is,
        redact: Callable[[Any], Any] | None = None,
    ) -> bytes:
        """The bytes of a result that ``rebuild`` makes again of what is read back."""
        noted: list[str] | None = None if rebuild is as_it_is else []
        data = self.encode(redacted(result, redact), "result", noted)
        if noted is not None and redact is None and (noted or is_model(result)):
            require_equal(result, rebuild, self.decode(data), strict=self.strict, root="result")
        return data

    def decode(self, data: bytes, root: str = "$") -> Any:
        return decode(data, types=self.types, root=root)

    def options(self) -> dict[str, Any]:
        return {"strict": self.strict, "max_bytes": self.max_bytes, "types": self.types}


def draft(
    checkpoint: Checkpoint,
    codec: Codec,
    head: LogHead | None,
    snapshot: Snapshot | None,
    new_messages: list[Any] | None = None,
    state: bytes | None = None,
) -> tuple[Draft, Log]:
    """Encode and hash a checkpoint; the log tells what its messages extend, ``state`` is what is encoded already.

    Raises:
        PayloadError: an id is unusable, or the context holds a value that cannot be stored.
    """
    _check_names(checkpoint)
    return drafted(checkpoint, codec, head, snapshot, new_messages, state)


def drafted(
    checkpoint: Checkpoint,
    codec: Codec,
    head: LogHead | None,
    snapshot: Snapshot | None,
    new_messages: list[Any] | None = None,
    state: bytes | None = None,
) -> tuple[Draft, Log]:
    """As ``draft``, for a checkpoint whose ids were accepted before, by this release or an older one."""
    envelope = new_messages is not None or is_handoff_envelope(checkpoint.context)
    if state is None:
        state = encode_state(checkpoint, codec)
    if new_messages is not None:
        log = appended(new_messages, head, **codec.options())
    elif envelope:
        log = whole_list(checkpoint.context["messages"], head, snapshot, **codec.options())
    else:
        log = _NO_LOG
    require_size(len(state) + log.size, codec.max_bytes, "context")
    return _draft(checkpoint, codec, state, log, envelope, appends=new_messages is not None), log


def encode_state(checkpoint: Checkpoint, codec: Codec, noted: list[str] | None = None) -> bytes:
    """The bytes of a checkpoint's context without its messages; what is judged and what is stored.

    Raises:
        PayloadError: it holds a value that cannot be stored.
    """
    context = checkpoint.context
    if is_handoff_envelope(context):
        context = {"state": context["state"], "meta": context["meta"]}
    return codec.encode(context, noted=noted)


def decode_state(checkpoint: Checkpoint, codec: Codec, state: bytes) -> dict[str, Any]:
    """The application state in the bytes of ``encode_state``."""
    context: dict[str, Any] = codec.decode(state)
    return context["state"] if is_handoff_envelope(checkpoint.context) else context


def restore(stored: StoredCheckpoint, codec: Codec, location: str) -> Checkpoint:
    """The checkpoint in a row; its messages are checked, and its context decoded, at the first touch.

    The touch raises what is wrong with the row. One whose terms cannot be read has no required keys, no schema and
    no checks before.

    Raises:
        StoreDamaged: at the touch, the bytes are not those that were written; names the checkpoint.
        UnreadablePayload: at the touch, a type is not at hand; names the type and the checkpoint.
    """
    try:
        checkpoint = _without_context(stored, _terms_of(stored, codec, location))
    except (StoreDamaged, UnreadablePayload):
        checkpoint = _without_context(stored, {"required_keys": []})
        checkpoint.defer_context(lambda: _terms_of(stored, codec, location))
    else:
        checkpoint.defer_context(lambda: _context(stored, codec, location))
    return checkpoint


def restore_whole(stored: StoredCheckpoint, codec: Codec, location: str) -> Checkpoint:
    """The checkpoint in a row, its messages checked and its context decoded.

    Raises:
        StoreDamaged, UnreadablePayload: as at the first touch of what ``restore`` gives.
    """
    checkpoint = restore(stored, codec, location)
    checkpoint.context  # noqa: B018 - the first touch
    return checkpoint


@contextmanager
def _damage_reported(stored: StoredCheckpoint, location: str) -> Generator[None, None, None]:
    place = f"checkpoint {stored.op_id!r} of run {stored.run_id!r}"
    try:
        yield
    except UnreadablePayload as error:
        raise UnreadablePayload(place, error.reason) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(location, "read", f"{place}: {error}") from error


def _terms_of(stored: StoredCheckpoint, codec: Codec, location: str) -> dict[str, Any]:
    with _damage_reported(stored, location):
        if not stored.row_is_whole():
            raise ValueError("the stored bytes do not match their digest")
        terms: dict[str, Any] = codec.decode(stored.terms)
        return {"required_keys": list(terms["required_keys"]), **terms}


def _context(stored: StoredCheckpoint, codec: Codec, location: str) -> dict[str, Any]:
    with _damage_reported(stored, location):
        if not stored.log_is_whole():
            raise ValueError("the stored messages do not match their digest")
        context: dict[str, Any] = codec.decode(stored.state)
        if not stored.envelope:
            return context
        messages = [codec.decode(line) for line in stored.lines()]
        return {"state": context["state"], "messages": messages, "meta": context["meta"]}


def _without_context(stored: StoredCheckpoint, terms: dict[str, Any]) -> Checkpoint:
    return Checkpoint(
        run_id=stored.run_id,
        from_agent=stored.from_agent,
        to_agent=stored.to_agent,
        context={},
        required_keys=terms["required_keys"],
        checkpoint_id=stored.op_id,
        created_at=stored.created_at,
        status=HandoffStatus(stored.status),
        error=stored.error,
        seq=stored.seq,
        schema_name=terms.get("schema"),
        check_names=tuple(terms.get("checks", ())),
    )


def _check_names(checkpoint: Checkpoint) -> None:
    check_text("run_id", checkpoint.run_id)
    check_text("from_agent", checkpoint.from_agent)
    check_text("to_agent", checkpoint.to_agent)
    check_text("checkpoint_id", checkpoint.checkpoint_id)


def _draft(checkpoint: Checkpoint, codec: Codec, state: bytes, log: Log, envelope: bool, *, appends: bool) -> Draft:
    return Draft(
        run_id=checkpoint.run_id,
        op_id=checkpoint.checkpoint_id,
        status=checkpoint.status.value,
        from_agent=checkpoint.from_agent,
        to_agent=checkpoint.to_agent,
        envelope=envelope,
        lines=log.lines,
        extends=log.extends,
        log_len=log.length,
        log_digest=log.digest,
        state=state,
        terms=_terms(checkpoint, codec),
        error=None if checkpoint.error is None else storable_text(checkpoint.error),
        created_at=checkpoint.created_at or time.time(),
        appends=appends,
    )


def _terms(checkpoint: Checkpoint, codec: Codec) -> bytes:
    keys = checkpoint.required_keys
    if all(type(key) is str for key in keys):
        return _known_terms(codec, tuple(keys), checkpoint.schema_name, checkpoint.check_names)
    return _encoded_terms(codec, list(keys), checkpoint.schema_name, checkpoint.check_names)


@lru_cache(maxsize=1024)
def _known_terms(codec: Codec, keys: tuple[str, ...], schema: str | None, checks: tuple[str, ...]) -> bytes:
    # A program names the same few terms again and again.
    return _encoded_terms(codec, list(keys), schema, checks)


def _encoded_terms(codec: Codec, keys: list[Any], schema: str | None, checks: tuple[str, ...]) -> bytes:
    terms: dict[str, Any] = {"required_keys": keys}
    if schema is not None:
        terms["schema"] = schema
    if checks:
        terms["checks"] = list(checks)
    return codec.encode(terms, "required_keys")
