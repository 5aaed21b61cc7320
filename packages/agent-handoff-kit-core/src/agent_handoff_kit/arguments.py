"""The arguments of a call, bound to its signature, and their digest: equal in every process for equal arguments."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Collection
from typing import Any

from agent_handoff_kit._callables import OWN_PARAMETERS
from agent_handoff_kit.errors import LossyPayloadWarning, PayloadError
from agent_handoff_kit.serialization import canonical

# The contexts that the OpenAI Agents SDK hands to tools: they differ in every run and say nothing of the call.
_CONTEXTS = ("RunContextWrapper", "ToolContext")


def bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, defaults applied.

    Raises:
        TypeError: they do not fit the signature.
    """
    arguments = signature.bind(*args, **kwargs)
    arguments.apply_defaults()
    return dict(arguments.arguments)


def digest_of(arguments: dict[str, Any], ignore: Collection[str], tool: str) -> bytes:
    """The digest of what identifies a call's arguments.

    Left out: ``self`` and ``cls``, contexts of the SDK, names in ``ignore``, and values without a lossless form,
    about which it warns.
    """
    hashed = hashlib.sha256()
    for name in sorted(arguments):
        data = None if name in ignore else _identifying(name, arguments[name], tool)
        if data is not None:
            hashed.update(f"{name}={len(data)}:".encode("utf-8", "surrogatepass") + data)
    return hashed.digest()


def signature_of(tool: Callable[..., Any]) -> inspect.Signature:
    """The tool's signature; one that takes anything where it has none to show."""
    try:
        return inspect.signature(tool)
    except ValueError:
        kinds = (("args", inspect.Parameter.VAR_POSITIONAL), ("kwargs", inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in kinds])


def _identifying(name: str, value: Any, tool: str) -> bytes | None:
    if name in OWN_PARAMETERS or any(kind.__name__ in _CONTEXTS for kind in type(value).__mro__):
        return None
    try:
        return canonical(value, root=name)
    except PayloadError as error:
        warnings.warn(
            LossyPayloadWarning(f"argument {name!r} of {tool!r} does not tell its calls apart: {error}"), stacklevel=2
        )
        return None
