"""The hot-loop guard: detects identical writes that are repeated because they keep being reverted."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson
from attrs import define, field, frozen

from gpuruntime.aio.lru import LRU
from gpuruntime.control.option_checks import above_zero, at_least_one
from gpuruntime.control.writing.comparison import differences
from gpuruntime.control.writing.managed_fields import last_manager_of, last_writer, managers_of
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport.middleware import Middleware, Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response

__all__ = ["HotLoopError", "HotLoopGuard", "HotLoopSettings"]

_LOG = logging.getLogger(__name__)
_REPEATABLE = frozenset({"PUT", "PATCH", "POST"})
_BOOKKEEPING = frozenset({"resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"})
# Counts the rollouts of a Deployment, including those that a hot loop causes.
_REVISION = "deployment.kubernetes.io/revision"
_STATUS = "/status"
_FIELDS_NAMED = 5
_DIGEST_SIZE = 16


@frozen
class HotLoopSettings:
    """After `writes` identical writes of an object within `window` seconds, more are held back for `pause` seconds.

    `memory` is the number of distinct writes that are tracked, in an LRU.
    """

    writes: int = field(default=5, validator=at_least_one)
    window: float = field(default=60.0, validator=above_zero)
    pause: float = field(default=30.0, validator=above_zero)
    memory: int = field(default=4096, validator=at_least_one)


class HotLoopError(KubeError):
    """The write was held back, because identical writes keep being reverted. Retry after `retry_after` seconds.

    The message names the reverted fields and their field managers, as far as the server knows them.
    """

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@define
class _Repeats:
    """The times of recent identical writes, and until when and why further ones are held back."""

    times: deque[float] = field(factory=deque)
    held_until: float = -math.inf
    reason: str = ""


class HotLoopGuard(Middleware):
    """Middleware that holds back a write that was made too often.

    Guarantees:
        - A write that differs from the earlier writes of its object always passes; so do reads, deletions and dry runs.
        - Only successful writes count.
        - When a write is held back, a single read of the object finds the reverted fields and the field managers that
          set them. Until the pause is over, the same write is refused without a request.
        - A field manager that has written through this guard is never reported as the other writer.

    Caveats:
        Creates count if the object has a name, because it may be deleted repeatedly. Objects with generateName may be
        created any number of times. Updates are identical if everything but the status is equal, updates of the status
        if the status is equal: the server ignores the rest.
    """

    def __init__(self, inner: Wire, manager: str, settings: HotLoopSettings | None = None) -> None:
        """Guard the writes of the field manager `manager`, and of those that requests name in `fieldManager`."""
        super().__init__(inner)
        self._manager = manager
        self._ours = {manager}
        self._settings = settings or HotLoopSettings()
        self._history: LRU[tuple[str, str, bytes], _Repeats] = LRU(self._settings.memory)

    async def send(self, request: Request) -> Response:
        """See `Transport.send`.

        Raises:
            HotLoopError: this write was made too often.
        """
        fingerprint = _fingerprint(request)
        if fingerprint is None or request.is_dry_run:
            return await self.inner.send(request)
        writer = dict(request.params).get("fieldManager", self._manager)
        self._ours.add(writer)
        now = asyncio.get_running_loop().time()
        repeats = self._repeats(request, fingerprint)
        if now < repeats.held_until:
            raise HotLoopError(repeats.reason, retry_after=repeats.held_until - now)
        while repeats.times and repeats.times[0] <= now - self._settings.window:
            repeats.times.popleft()
        if len(repeats.times) >= self._settings.writes:
            raise await self._hold(repeats, now, request, writer)
        response = await self.inner.send(request)
        repeats.times.append(now)
        return response

    def _repeats(self, request: Request, fingerprint: bytes) -> _Repeats:
        name = (request.method, request.path, fingerprint)
        repeats = self._history.get(name)
        if repeats is None:
            repeats = _Repeats()
            self._history.put(name, repeats)
        return repeats

    async def _hold(self, repeats: _Repeats, now: float, request: Request, writer: str) -> HotLoopError:
        settings = self._settings
        repeats.reason = (
            f"{request} was made {len(repeats.times)} times within {settings.window:g} s with the same content,"
            f" held back for {settings.pause:g} s"
        )
        # Held back before the read, so that concurrent writes do not read a second time.
        repeats.held_until = now + settings.pause
        repeats.times.clear()
        if request.method != "POST":
            repeats.reason = f"{repeats.reason}: {await self._explain(request, writer)}"
        _LOG.warning("hot loop detected, write held back", extra={"path": request.path, "reason": repeats.reason})
        return HotLoopError(repeats.reason, retry_after=settings.pause)

    async def _explain(self, request: Request, writer: str) -> str:
        desired = orjson.loads(request.body or b"{}")
        if not isinstance(desired, dict):
            return "the other writer is unknown, because the write is a JSON patch"
        try:
            live = (await self.inner.send(Request("GET", request.path))).json_object()
        except KubeError as error:
            return f"the other writer is unknown, because the object cannot be read ({error})"
        paths = _reverted(request, desired, live)
        if not paths:
            return "nothing differs on the server now, so the controller does not see its own write"
        named = [f"{changed} ({self._origin(changed, live, writer)})" for changed in paths[:_FIELDS_NAMED]]
        more = f" and {len(paths) - _FIELDS_NAMED} more" if len(paths) > _FIELDS_NAMED else ""
        return f"reverted fields: {', '.join(named)}{more}"

    def _origin(self, path: str, live: Mapping[str, Any], writer: str) -> str:
        other = last_manager_of(path, live, except_for=self._ours)
        if other is not None:
            return f"set by {other}"
        ours = managers_of(path, live)
        if not ours:
            # A removed field has no manager.
            other = last_writer(live, except_for=self._ours)
            return f"removed, most likely by {other}, the last writer of the object" if other else "set by unknown"
        if writer not in ours:
            return f"set under {ours[0]}, another field manager of this program: look for a second controller"
        return (
            f"set under our own field manager {writer}: by an admission webhook that changes our write, or by another"
            " program that uses this name"
        )


def _reverted(request: Request, desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[str]:
    if request.path.endswith(_STATUS):
        inside = differences(desired.get("status") or {}, live.get("status") or {}, shared=True)
        return [f"status.{changed}" for changed in inside]
    # A patch says nothing about the fields that it leaves out.
    return list(differences(desired, live, shared=request.method == "PATCH"))


def _fingerprint(request: Request) -> bytes | None:
    """A digest of the content, without what differs in every write; None for writes that may be repeated."""
    body = request.body
    if body is None or request.method not in _REPEATABLE:
        return None
    if body.startswith(b"["):
        return _digest(body)  # a JSON patch
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return _digest(body)
    metadata = value.get("metadata") or {}
    if request.method == "POST":
        # Only the server would add what differs in every write.
        return _digest(body) if metadata.get("name") else None
    value["metadata"] = _without_bookkeeping(metadata)
    if request.method == "PUT":
        status = value.pop("status", None)
        value = status if request.path.endswith(_STATUS) else value
    return _digest(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=_DIGEST_SIZE).digest()


def _without_bookkeeping(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: item for name, item in metadata.items() if name not in _BOOKKEEPING}
    annotations = {name: item for name, item in (metadata.get("annotations") or {}).items() if name != _REVISION}
    return {**kept, "annotations": annotations}
