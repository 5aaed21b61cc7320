"""Model responses as stored data and back: every item as the provider sent it."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.plain import as_plain


def stored_response(response: _sdk.ModelResponse) -> dict[str, Any]:
    """A model's response as plain data.

    Only what was set is kept: an explicit null that the provider did not send would change the next input.
    """
    return _stored(response.output, response.usage, response.response_id, getattr(response, "request_id", None))


def stored_streamed_response(response: Any, items: list[Any]) -> dict[str, Any]:
    """A response that was streamed, as plain data; ``items`` are those of its events, if it lists none itself."""
    request_id = getattr(response, "_request_id", None)
    return _stored(response.output or items, _sdk.usage_of_response(response.usage), response.id, request_id)


def revived_response(stored: dict[str, Any]) -> _sdk.ModelResponse:
    """The response that was stored."""
    usage = revived_usage(stored["usage"]) or _sdk.Usage()
    response = _sdk.ModelResponse([_item(one) for one in stored["output"]], usage, stored["response_id"])
    if hasattr(response, "request_id"):
        response.request_id = stored["request_id"]
    return response


def completed_event(stored: dict[str, Any]) -> Any:
    """The single event that stands for a response that was streamed before."""
    items = [_item(one) for one in stored["output"]]
    return _sdk.completed_event(items, stored["response_id"], revived_usage(stored["usage"]))


def stored_usage(usage: _sdk.Usage) -> Any:
    """Usage as plain data."""
    return json.loads(_usages().dump_json(usage))


def revived_usage(stored: Any) -> _sdk.Usage | None:
    """The usage that was stored."""
    return None if stored is None else _usages().validate_python(stored)


def _stored(
    output: list[Any], usage: _sdk.Usage | None, response_id: str | None, request_id: str | None
) -> dict[str, Any]:
    return {
        "output": [as_plain(item) for item in output],
        "usage": None if usage is None else stored_usage(usage),
        "response_id": response_id,
        "request_id": request_id,
    }


def _item(stored: Any) -> Any:
    try:
        return _items().validate_python(stored)
    except ValidationError:
        return _sdk.constructed_item(stored)


@lru_cache(maxsize=1)
def _usages() -> TypeAdapter[_sdk.Usage]:
    return TypeAdapter(_sdk.Usage)


@lru_cache(maxsize=1)
def _items() -> TypeAdapter[Any]:
    return TypeAdapter(_sdk.OutputItem)
