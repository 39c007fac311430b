"""Noticing that a controller writes the same thing again and again, because somebody undoes it, or it undoes itself."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson
from attrs import define, field, frozen

from gpuruntime.control.lru import LRU
from gpuruntime.control.option_checks import above_zero, at_least_one
from gpuruntime.control.writing.comparison import differences
from gpuruntime.control.writing.managed_fields import last_manager_of, last_writer, managers_of
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport.middleware import Middleware, Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response

__all__ = ["FightSettings", "HotLoopError", "HotLoopGuard"]

_LOG = logging.getLogger(__name__)
_REPEATABLE = frozenset({"PUT", "PATCH", "POST"})
_BOOKKEEPING = frozenset({"resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"})
# Counts the rollouts of a Deployment, those that a fight leads to as well.
_REVISION = "deployment.kubernetes.io/revision"
_STATUS = "/status"
_FIELDS_NAMED = 5
_DIGEST_SIZE = 16


@frozen
class FightSettings:
    """After `writes` equal writes of one object within `window` seconds, further ones are held for `pause` seconds.

    `memory` is how many different writes are remembered.
    """

    writes: int = field(default=5, validator=at_least_one)
    window: float = field(default=60.0, validator=above_zero)
    pause: float = field(default=30.0, validator=above_zero)
    memory: int = field(default=4096, validator=at_least_one)


class HotLoopError(KubeError):
    """Somebody undoes what we write. The write was not made; `retry_after` says when to try again.

    The message names the fields that were changed back and who did it, as far as the server knows.
    """

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@define
class _Repeats:
    """When one and the same write was made lately, and until when it is held, and why."""

    times: deque[float] = field(factory=deque)
    held_until: float = -math.inf
    story: str = ""


class HotLoopGuard(Middleware):
    """Middleware that lets a write pass unless it was made too often already.

    Guarantees:
        - A write that differs from the earlier ones of its object always passes; so do reads, deletions and dry runs.
        - Only writes that succeeded count.
        - When a write is stopped, one read of the object tells which fields differ from what we want, and which other
          manager set them. While it is held, it is refused without asking the server.
        - None of the field managers that have written through this transport is taken for the other one.

    Caveats:
        Creations count where the object has a name of its own: one that somebody deletes again and again. Any number of
        objects with generated names may be equal. Replacements of an object are equal if all but the status is,
        replacements of its status if the status is: the server ignores the rest.
    """

    def __init__(self, inner: Wire, manager: str, settings: FightSettings | None = None) -> None:
        """Guard the writes of the field manager `manager`, and of those that requests name."""
        super().__init__(inner)
        self._manager = manager
        self._ours = {manager}
        self._settings = settings or FightSettings()
        self._history: LRU[tuple[str, str, bytes], _Repeats] = LRU(self._settings.memory)

    async def send(self, request: Request) -> Response:
        """See `Transport.send`.

        Raises:
            HotLoopError: this very write was made too often.
        """
        fingerprint = _fingerprint(request)
        if fingerprint is None or request.is_dry_run:
            return await self.inner.send(request)
        writer = dict(request.params).get("fieldManager", self._manager)
        self._ours.add(writer)
        now = asyncio.get_running_loop().time()
        repeats = self._repeats(request, fingerprint)
        if now < repeats.held_until:
            raise HotLoopError(repeats.story, retry_after=repeats.held_until - now)
        while repeats.times and repeats.times[0] <= now - self._settings.window:
            repeats.times.popleft()
        if len(repeats.times) >= self._settings.writes:
            raise await self._hold(repeats, now, request, writer)
        answer = await self.inner.send(request)
        repeats.times.append(now)
        return answer

    def _repeats(self, request: Request, fingerprint: bytes) -> _Repeats:
        name = (request.method, request.path, fingerprint)
        repeats = self._history.get(name)
        if repeats is None:
            repeats = _Repeats()
            self._history.put(name, repeats)
        return repeats

    async def _hold(self, repeats: _Repeats, now: float, request: Request, writer: str) -> HotLoopError:
        settings = self._settings
        repeats.story = (
            f"{request} was made {len(repeats.times)} times within {settings.window:g} s with the same content,"
            f" held back for {settings.pause:g} s"
        )
        # Held before the server is asked, so that nobody asks it a second time meanwhile.
        repeats.held_until = now + settings.pause
        repeats.times.clear()
        if request.method != "POST":
            repeats.story = f"{repeats.story}: {await self._explain(request, writer)}"
        about = {"path": request.path, "story": repeats.story}
        _LOG.warning("a write is undone again and again, held back", extra=about)
        return HotLoopError(repeats.story, retry_after=settings.pause)

    async def _explain(self, request: Request, writer: str) -> str:
        desired = orjson.loads(request.body or b"{}")
        if not isinstance(desired, dict):
            return "who undoes it is not known, because it is a JSON patch"
        try:
            live = (await self.inner.send(Request("GET", request.path))).json_object()
        except KubeError as error:
            return f"who undoes it is not known, because it cannot be read ({error})"
        paths = _changed_back(request, desired, live)
        if not paths:
            return "nothing differs on the server now, so the controller does not see its own write"
        named = [f"{changed} ({self._blame(changed, live, writer)})" for changed in paths[:_FIELDS_NAMED]]
        more = f" and {len(paths) - _FIELDS_NAMED} more" if len(paths) > _FIELDS_NAMED else ""
        return f"changed back were {', '.join(named)}{more}"

    def _blame(self, path: str, live: Mapping[str, Any], writer: str) -> str:
        other = last_manager_of(path, live, except_for=self._ours)
        if other is not None:
            return f"set by {other}"
        ours = managers_of(path, live)
        if not ours:
            # What was removed has no manager.
            other = last_writer(live, except_for=self._ours)
            return f"removed, most likely by {other}, which wrote the object last" if other else "set by nobody known"
        if writer not in ours:
            return f"set under {ours[0]}, which is a field manager of this program too: look for a second controller"
        return (
            f"set under our own field manager {writer}: by an admission webhook that changes our write, or by another"
            " program that uses this name"
        )


def _changed_back(request: Request, desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[str]:
    if request.path.endswith(_STATUS):
        inside = differences(desired.get("status") or {}, live.get("status") or {}, shared=True)
        return [f"status.{changed}" for changed in inside]
    # A patch says nothing about the fields that it leaves out.
    return list(differences(desired, live, shared=request.method == "PATCH"))


def _fingerprint(request: Request) -> bytes | None:
    """What is written, apart from what differs in every write; None for what may well be written often."""
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
        # The server has yet to add what differs.
        return _digest(body) if metadata.get("name") else None
    value["metadata"] = _lasting(metadata)
    if request.method == "PUT":
        status = value.pop("status", None)
        value = status if request.path.endswith(_STATUS) else value
    return _digest(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=_DIGEST_SIZE).digest()


def _lasting(metadata: Mapping[str, Any]) -> dict[str, Any]:
    lasting = {name: item for name, item in metadata.items() if name not in _BOOKKEEPING}
    annotations = {name: item for name, item in (metadata.get("annotations") or {}).items() if name != _REVISION}
    return {**lasting, "annotations": annotations}
