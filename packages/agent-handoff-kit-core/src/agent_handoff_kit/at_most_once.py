"""A tool call at most once: look up, claim, run, record. What decides, as a plan of requests."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agent_handoff_kit._callables import discard, unfinished
from agent_handoff_kit.arguments import bound, digest_of
from agent_handoff_kit.calls import Applied, Call, NotApplied, Unknown, current
from agent_handoff_kit.companions import companion
from agent_handoff_kit.errors import (
    CallInDoubt,
    CallInProgress,
    HandoffKitError,
    LostOwnership,
    RunMismatch,
    StoreError,
)
from agent_handoff_kit.heartbeat import heartbeat
from agent_handoff_kit.open_calls import OpenCall, open_calls
from agent_handoff_kit.runs import current_run
from agent_handoff_kit.serialization import check_searched, check_text, digest, storable_text
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.call_scripts import (
    Answer,
    CallClaim,
    CallKey,
    claim_call,
    complete_call,
    end_call,
    forsake_call,
    look_up,
)
from agent_handoff_kit.store.fences import fences_on
from agent_handoff_kit.store.requests import Invoke, Pause, Plan, Read, Write
from agent_handoff_kit.store.steps import RenewCall

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tool:
    """A tool and how its calls are to be treated; the fields are those of ``idempotent_tool``."""

    store: CheckpointStore
    function: Callable[..., Any]
    signature: inspect.Signature
    name: str
    run_id: str | Callable[..., str] | None
    key_fn: Callable[..., str]
    on_in_doubt: str | Callable[[Call], Any]
    not_applied: tuple[type[BaseException], ...]
    wait: float
    ttl: float | None
    is_global: bool
    ignore: Collection[str]
    rebuild: Callable[[Any], Any]
    redact: Callable[[Any], Any] | None
    lease_ttl: float
    awaited: bool

    @property
    def policy(self) -> str:
        return self.on_in_doubt if isinstance(self.on_in_doubt, str) else "reconcile"


@dataclass(frozen=True)
class _Started:
    """A call that this caller runs; renewed by the heartbeat while it does."""

    store: CheckpointStore
    key: CallKey
    owner: str
    ttl: float

    @property
    def renewal(self) -> RenewCall:
        return RenewCall(*self.key, self.owner, self.ttl)

    def noted(self, *, held: bool, sent_at: float) -> None:
        """A call goes on when it lost its lease: its end is refused then."""


def call_tool(tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan[Any]:
    """Run the tool, or give back what the call with its key returned."""
    arguments = bound(tool.signature, args, kwargs)
    key = CallKey(_run_of(tool, args, kwargs), _key_of(tool, args, kwargs), tool.name)
    if any((one.run_id, one.key, one.tool) == key for one in current.get()):
        raise _in_progress(key, "it would wait for itself")
    claim = CallClaim(
        key,
        digest_of(arguments, tool.ignore, tool.name),
        "",
        tool.lease_ttl,
        (),
        tool.policy,
        None if tool.ttl is None else time.time() - tool.ttl,
    )
    body = functools.partial(tool.function, *args, **kwargs)
    return (yield from _until_settled(tool, claim, arguments, body))


def _until_settled(tool: Tool, claim: CallClaim, arguments: dict[str, Any], body: Callable[[], Any]) -> Plan[Any]:
    deadline, pause = time.monotonic() + tool.wait, 0.05
    while True:
        answer: Answer | None = yield Read(functools.partial(look_up, claim))
        if answer is not None:
            return _replayed(tool, claim, answer)
        _check_new(claim.call)
        owner = f"{tool.store.backend.owner_name()}:{uuid.uuid4().hex[:12]}"
        running = open_calls.enter(tool.store.identity, claim.call, owner, awaited=tool.awaited)
        if running is not None:
            yield from _wait_here(tool, claim.call, running, deadline)
            continue
        try:
            here = open_calls.owners(tool.store.identity)
            settled = yield from _claimed(tool, claim._replace(owner=owner, here=here), arguments, body)
        finally:
            open_calls.leave(tool.store.identity, claim.call)
        if settled is not None:
            return settled.value
        if time.monotonic() > deadline:
            raise _in_progress(claim.call, f"its owner did not end within {tool.wait} s")
        yield Pause(min(pause, max(deadline - time.monotonic(), 0.0)))
        pause = min(pause * 2, 1.0)


def _wait_here(tool: Tool, key: CallKey, running: OpenCall, deadline: float) -> Plan[None]:
    if running.awaited and not tool.awaited and running.thread == threading.get_ident():
        raise _in_progress(key, "it runs in the event loop of this thread, which cannot go on while this waits")
    left = deadline - time.monotonic()
    ended = left > 0 and (yield Pause(left, running.ended))
    if not ended:
        raise _in_progress(key, f"its owner did not end within {tool.wait} s")


def _claimed(tool: Tool, claim: CallClaim, arguments: dict[str, Any], body: Callable[[], Any]) -> Plan[Applied | None]:
    answer: Answer = yield from _claim(tool, claim)
    if answer.kind == "wait":
        return None
    if answer.kind == "replay":
        return Applied(_replayed(tool, claim, answer))
    if answer.kind in ("doubt", "unkept"):
        reason = answer.row.error if answer.row is not None else None
        raise CallInDoubt(*_names(claim.call), reason or "its outcome was not recorded")
    call = Call(claim.call.run_id, claim.call.tool, claim.call.key, answer.attempt, arguments)
    started = _Started(tool.store, claim.call, claim.owner, claim.ttl)
    with _beating(started):
        known = (yield from _asked(tool, started, call)) if answer.kind == "ask" else None
        if known is None:
            known = Applied((yield from _run(tool, started, call, body)))
        return Applied((yield from _recorded(tool, started, known.value)))


def _claim(tool: Tool, claim: CallClaim) -> Plan[Answer]:
    try:
        answer: Answer = yield Write(tool.store.fenced(claim_call, claim))
        return answer
    except HandoffKitError:
        raise
    except BaseException:
        # Interrupted or cancelled, the claim may be written all the same. This is queued behind it.
        with contextlib.suppress(StoreError):
            tool.store.backend.submit(functools.partial(forsake_call, claim, now=time.time()))
        raise


@contextmanager
def _beating(started: _Started) -> Generator[None, None, None]:
    heartbeat.add(started)
    try:
        yield
    finally:
        heartbeat.remove(started)


def _asked(tool: Tool, started: _Started, call: Call) -> Plan[Applied | None]:
    """The reconciler's word on a call in doubt: its result, or None when the tool is to be run."""
    reconcile = tool.on_in_doubt
    assert callable(reconcile)
    try:
        word = yield Invoke(functools.partial(reconcile, call))
    except BaseException as error:
        yield from _ended(started, "in_doubt", f"reconcile raised {error!r}")
        raise
    if isinstance(word, Applied):
        return word
    if word is NotApplied or isinstance(word, NotApplied):
        return None
    reason = word.reason if isinstance(word, Unknown) else Unknown().reason
    if word is not Unknown and not isinstance(word, Unknown):
        reason = f"reconcile returned {word!r}, which is no Applied, NotApplied or Unknown"
    yield from _ended(started, "in_doubt", reason)
    raise CallInDoubt(*_names(started.key), reason)


def _run(tool: Tool, started: _Started, call: Call, body: Callable[[], Any]) -> Plan[Any]:
    token = current.set((*current.get(), call))
    try:
        return (yield Invoke(functools.partial(_result_of, body, tool)))
    except _NeverBegun as error:
        yield from _ended(started, "free", str(error))
        raise TypeError(str(error)) from None
    except tool.not_applied as error:
        yield from _ended(started, "free", repr(error))
        raise
    except BaseException as error:
        yield from _ended(started, "in_doubt", f"it raised {error!r}")
        raise
    finally:
        current.reset(token)


class _NeverBegun(Exception):
    """The tool returned a coroutine or generator of which nothing ran."""


def _result_of(body: Callable[[], Any], tool: Tool) -> Any:
    result = body()
    if tool.awaited and inspect.isawaitable(result):
        return _awaited(result, tool)
    return _finished(result, tool)


async def _awaited(result: Awaitable[Any], tool: Tool) -> Any:
    return _finished(await result, tool)


def _finished(result: Any, tool: Tool) -> Any:
    what = unfinished(result)
    if what is None:
        return result
    reason = f"{tool.name!r} returned {what} in place of its result; make it `async def`, or return the result itself"
    raise (_NeverBegun if discard(result) else TypeError)(reason)


def _recorded(tool: Tool, started: _Started, result: Any) -> Plan[Any]:
    try:
        data = tool.store.codec.encode_result(result, tool.rebuild, tool.redact)
        mark = digest(started.key.run_id, started.key.key, "call", data)
        records = () if (kept := companion.get()) is None else kept.kept(started.key)
        script = functools.partial(complete_call, started.key, started.owner, data, mark, records, now=time.time())
        fences = fences_on(tool.store.identity)
        held: bool = yield Write(functools.partial(script, fences=fences))
    except Exception as error:  # The user's redact may raise anything.
        reason = f"it ran, and its result was not kept: {error}"
        yield from _ended(started, "unkept", reason)
        raise CallInDoubt(*_names(started.key), reason) from error
    if not held:
        raise LostOwnership(started.key.run_id, started.owner, 0)
    return tool.rebuild(tool.store.codec.decode(data))


def _ended(started: _Started, status: str, error: str) -> Plan[None]:
    text = storable_text(error)
    try:
        yield Write(functools.partial(end_call, started.key, started.owner, status, None, None, text, now=time.time()))
    except StoreError:
        # The call stays started. Its owner no longer runs it, so it counts as in doubt all the same.
        _logger.warning("%s: the state %r could not be recorded", started.key, status, exc_info=True)


def _replayed(tool: Tool, claim: CallClaim, answer: Answer) -> Any:
    assert answer.row is not None
    _logger.info("%s returns its recorded result", claim.call)
    kept = companion.get()
    if kept is not None:
        kept.replayed(claim.call)
    return tool.rebuild(tool.store.call_result(claim.call.run_id, claim.call.key, answer.row))


def _run_of(tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if tool.is_global:
        return ""
    running = current_run()
    if callable(tool.run_id):
        return _named_run(tool.run_id(*args, **kwargs))
    if tool.run_id is None:
        if running is None:
            raise ValueError(f"{tool.name!r} has run_id=None and was called outside a run; use relay.run(run_id)")
        return running.run_id
    if running is not None and running.store is tool.store and running.run_id != tool.run_id:
        raise RunMismatch(tool.run_id, running.run_id)
    return _named_run(tool.run_id)


def _named_run(run_id: object) -> str:
    # An empty one would be the scope of all runs.
    return check_searched("run_id", run_id) or check_text("run_id", run_id)


def _check_new(key: CallKey) -> None:
    """Check what is to be written; what an older release wrote under other keys was looked up before."""
    check_text("key", key.key)
    if key.run_id:
        check_text("run_id", key.run_id)


def _key_of(tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    key: Any = tool.key_fn(*args, **kwargs)
    if not isinstance(key, str) or not key:
        raise TypeError(f"key_fn of {tool.name!r} returned {key!r}; return non-empty text")
    return check_searched("key", key)


def _names(key: CallKey) -> tuple[str, str, str]:
    return key.run_id, key.tool, key.key


def _in_progress(key: CallKey, reason: str) -> CallInProgress:
    return CallInProgress(*_names(key), reason)
