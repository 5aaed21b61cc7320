"""Payload bytes: tagged JSON that gives back what it was given, types included.

Plain JSON data goes straight to the encoder after one look; everything else is rewritten with small
tag objects such as ``{"$ahk": "dec", "v": "10.50"}``. Nothing is ever imported or executed by a stored name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

from agent_handoff_kit._kinds import is_dict, is_model, type_of
from agent_handoff_kit._plain import portability
from agent_handoff_kit._registered import alike, data_fields, model_fields, registry
from agent_handoff_kit._tagged_read import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_TEXT,
    ORJSON,
    plain_bytes,
    tree_bytes,
    untag,
    whole,
)
from agent_handoff_kit._tagged_write import Encoder, complain
from agent_handoff_kit.errors import PayloadError, UnreadablePayload


def encode(
    value: Any,
    *,
    strict: bool = False,
    max_bytes: int = MAX_BYTES,
    types: Sequence[type] = (),
    root: str = "$",
    noted: list[str] | None = None,
) -> bytes:
    """Turn a value into tagged JSON on one line.

    Args:
        value: what to store.
        strict: refuse a value that would lose something, instead of simplifying it with a warning.
        max_bytes: the largest result allowed.
        types: enums, dataclasses, pydantic models and subclasses of builtin types that are to come back as themselves.
        root: what paths in errors start with.
        noted: given for the fields of a record, which its type makes again: takes the paths of values that by
            themselves come back as another type, instead of a complaint about them.

    Returns:
        JSON without a raw line break.

    Raises:
        PayloadError: for a cycle, too much nesting, too many bytes, or a lossy value under ``strict``.
    """
    try:
        portable = portability([value], max_bytes)
        data = None if portable is None else plain_bytes(value, portable=portable)
        if data is None:
            encoder = Encoder(strict, max_bytes, types, root, noted=noted)
            data = tree_bytes(encoder.walk(value, 1), portable=encoder.portable)
    except RecursionError:
        raise PayloadError(root, "nested too deeply for the remaining stack") from None
    require_size(len(data), max_bytes, root)
    return data


def require_size(size: int, max_bytes: int, root: str) -> None:
    """Refuse a payload over its size limit.

    Args:
        size: its bytes.
        max_bytes: the limit.
        root: what it is.

    Raises:
        PayloadError: it is larger.
    """
    if size > max_bytes:
        raise PayloadError(root, f"the payload is over its size limit: {size} bytes, {max_bytes} allowed")


def canonical(value: Any, *, root: str = "$") -> bytes:
    """The bytes of a value for comparison: equal for equal values in every process and with every encoder.

    Args:
        value: what to compare; the order of a dict's keys does not count.
        root: what paths in errors start with.

    Returns:
        Tagged JSON with sorted keys, written by the standard library.

    Raises:
        PayloadError: the value has no lossless form.
    """
    try:
        tree = Encoder(True, MAX_BYTES, (), root, noted=[]).walk(value, 1)
    except RecursionError:
        raise PayloadError(root, "nested too deeply for the remaining stack") from None
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def require_equal(value: Any, make_again: Callable[[Any], Any], stored: Any, *, strict: bool, root: str = "$") -> None:
    """Complain about a record that its type does not make again as it was.

    Args:
        value: the dataclass instance or pydantic model that was given.
        make_again: makes a record of its stored fields.
        stored: the fields as they are read back.
        strict: refuse it.
        root: the path of the value.

    Raises:
        PayloadError: under ``strict``.
    """
    try:
        back = make_again(stored)
    except Exception as error:
        what = f"cannot be made again from its fields ({error}); it is read as a dict"
    else:
        if type(back) is type(value) and alike(_fields(back), _fields(value)):
            return
        what = "does not come back equal when it is made again from its fields"
    complain(root, type_of(value), what, strict=strict)


def _fields(value: Any) -> Any:
    if is_model(value):
        return model_fields(value)
    return data_fields(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def all_plain(values: Sequence[Any]) -> bool:
    """Whether every value is plain JSON by exact type, so that encoding changes nothing."""
    return portability(values, MAX_BYTES) is not None


def encode_messages(
    messages: Sequence[Any], *, strict: bool = False, max_bytes: int = MAX_BYTES, types: Sequence[type] = ()
) -> list[bytes]:
    """Encode each message by itself.

    Args:
        messages: the messages, oldest first.
        strict: as for `encode`.
        max_bytes: the limit for all of them.
        types: as for `encode`.

    Returns:
        One line of bytes per message.

    Raises:
        PayloadError: naming the message, as ``messages[3]``.
    """
    lines: list[bytes] = []
    size = 0
    for index, message in enumerate(messages):
        lines.append(encode(message, strict=strict, max_bytes=max_bytes, types=types, root=f"messages[{index}]"))
        size += len(lines[-1])
        require_size(size, max_bytes, "messages")
    return lines


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse(data: bytes) -> Any:
    if ORJSON is not None:
        try:
            return ORJSON.loads(data)
        except ValueError:
            pass  # The other parser reads a few texts more, such as escaped half surrogates.
    return json.loads(data, parse_constant=_refuse_constant)


def decode(data: bytes, *, types: Sequence[type] = (), root: str = "$") -> Any:
    """Read back what `encode` wrote.

    Args:
        data: the stored bytes.
        types: the classes registered when it was written.
        root: what the bytes are, for errors.

    Returns:
        The value, with its types.

    Raises:
        UnreadablePayload: when a value's type is not registered, or does not take the value any more.
        PayloadError: when the bytes are broken.
    """
    try:
        tree = _parse(data)
    except (ValueError, RecursionError) as exc:
        raise PayloadError(root, f"the stored payload cannot be read: {exc}") from exc
    if b'"$ahk"' not in data:
        return tree
    try:
        return untag(tree, registry(tuple(types)))
    except Exception as exc:  # Types of the user's are made here.
        raise UnreadablePayload(root, f"a stored value cannot be made again: {exc}") from exc


def digest(run_id: str, op_id: str, kind: str, *parts: bytes) -> bytes:
    """Hash payload parts together with the place they belong to.

    Args:
        run_id: the run.
        op_id: the operation that writes them.
        kind: what sort of payload it is.
        parts: the exact stored bytes, in order.

    Returns:
        A SHA-256 digest of 32 bytes.
    """
    total = hashlib.sha256(b"ahk1")
    for part in (*(text.encode("utf-8", "surrogatepass") for text in (run_id, op_id, kind)), *parts):
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.digest()


def check_text(name: str, value: object) -> str:
    """Check an id, agent name or key before anything is written.

    Args:
        name: the field's name, for the error.
        value: what the caller gave.

    Returns:
        The text.

    Raises:
        PayloadError: when it is not text, empty, over 255 characters, or holds NUL or half a surrogate pair.
    """
    text = check_searched(name, value)
    if not text:
        raise PayloadError(name, "must not be empty")
    if len(text) > MAX_TEXT:
        raise PayloadError(name, f"is {len(text)} characters long, {MAX_TEXT} are allowed")
    return text


def check_searched(name: str, value: object) -> str:
    """Check an id or key that is only looked for: one that an older release accepted is found.

    Args:
        name: the field's name, for the error.
        value: what the caller gave.

    Returns:
        The text.

    Raises:
        PayloadError: when it is not text, or holds NUL or half a surrogate pair, which not every database can
            look for.
    """
    if not isinstance(value, str):
        raise PayloadError(name, f"must be text, not {type(value).__name__}")
    if "\x00" in value:
        raise PayloadError(name, "must not contain a NUL character")
    if not whole(value):
        raise PayloadError(name, f"contains half a surrogate pair: {value!a}")
    return str.__str__(value)


def storable_text(text: str) -> str:
    """Text for a column that is only read by people: what no database takes is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def json_sanitize(value: Any) -> Any:
    """Reduce a value to JSON structures the way 0.1.0 did, losing types.

    Args:
        value: anything.

    Returns:
        Dicts with text keys, lists and scalars; what is none of these becomes text.

    Raises:
        PayloadError: for a cycle or nesting beyond 200 levels.
    """
    return _sanitize(value, 0, set())


def _sanitize(value: Any, depth: int, above: set[int]) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if id(value) in above:
        raise PayloadError("$", "the value contains itself (a cycle)")
    if depth >= MAX_DEPTH:
        raise PayloadError("$", f"nested more than {MAX_DEPTH} levels deep")
    above = above | {id(value)}
    if is_dict(value):
        return {str(k): _sanitize(v, depth + 1, above) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sanitize(item, depth + 1, above) for item in cast("list[Any]", value)]
    for method in ("model_dump", "dict"):
        dump = getattr(value, method, None)
        if callable(dump):
            try:
                return _sanitize(dump(), depth + 1, above)
            except PayloadError:
                raise
            except Exception:
                continue
    return str(value)


def dumps_safe(value: Any) -> str:
    """Write JSON text after `json_sanitize`.

    Args:
        value: anything.

    Returns:
        JSON text as 0.1.0 wrote it.

    Raises:
        PayloadError: for a cycle or nesting beyond 200 levels.
    """
    return json.dumps(json_sanitize(value))


def loads_field(raw: str, field_name: str) -> Any:
    """Read the JSON text of one checkpoint field.

    Args:
        raw: the stored text.
        field_name: the field, for the error.

    Returns:
        The value.

    Raises:
        ValueError: when the text is not JSON; it names the field.
    """
    try:
        return json.loads(raw)
    except json.JSONDecodeError as exc:
        raise ValueError(f"Corrupt JSON in checkpoint field {field_name!r}: {exc}") from exc
