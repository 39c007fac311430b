"""A journal of what the runs of a controller wrote, for read-your-writes.

The journal sits between the client and the transport, so that every write is in it. A write belongs to the run whose
task makes it, tasks that the run started included.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal
from urllib.parse import unquote

from attrs import evolve, frozen

from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport.middleware import Middleware
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.resource_version import ResourceVersionError, newer

__all__ = ["Journal", "JournalingTransport", "Written"]

# Longer than the longest backoff, so that a key whose runs fail is still remembered when it is tried again.
_MEMORY_SECONDS = 1800.0
_OF_NAMESPACES = frozenset({"status", "finalize"})
# Responses to writes of other subresources need not be the object: a Scale has its version and not its labels.
_WHOLE = frozenset({"", "status", "finalize"})
Fate = Literal["present", "gone", "unknown"]
Labels = Mapping[str, str]


@frozen
class Written:
    """What a write left behind: an object at a version, an object that is being deleted, or an unknown outcome.

    `collection` is the path of the kind in its namespace ("/api/v1/namespaces/a/pods"); `key` is None where the outcome
    is unknown, `labels` where the response does not have them. `earlier` has the versions at which the same run gave
    the object other labels.
    """

    collection: str
    fate: Fate
    key: ObjectKey | None = None
    uid: str = ""
    version: str = ""
    labels: Labels | None = None
    earlier: tuple[tuple[str, Labels | None], ...] = ()

    @property
    def states(self) -> tuple[tuple[str, Labels | None], ...]:
        """The versions that the run made, the last one of each set of labels, with the labels."""
        return (*self.earlier, (self.version, self.labels))

    @property
    def namespace(self) -> str:
        """The namespace of the collection, "" if it has none."""
        return self.collection.partition("/namespaces/")[2].partition("/")[0]


_Traces = dict[tuple[str, ObjectKey | None], Written]
_current: ContextVar[_Traces | None] = ContextVar("gpuruntime_journal", default=None)


class Journal:
    """The writes of each key's last run, the newest of each object, until the next run has seen them.

    Writes of keys without a further run are forgotten after half an hour.
    """

    def __init__(self) -> None:
        self._traces: OrderedDict[Hashable, tuple[float, _Traces]] = OrderedDict()

    @contextmanager
    def recording(self, key: Hashable) -> Iterator[None]:
        """Record what is written inside the block as the writes of `key`, however the block ends."""
        traces: _Traces = {}
        token = _current.set(traces)
        try:
            yield
        finally:
            _current.reset(token)
            if traces:
                self._keep(key, traces)
            self._forget_the_old()

    def traces(self, key: Hashable) -> Sequence[Written]:
        """What the last run of `key` wrote, until it is settled."""
        known = self._traces.get(key)
        if known is None:
            return ()
        self._keep(key, known[1])
        return tuple(known[1].values())

    def settled(self, key: Hashable) -> None:
        """Forget the writes of `key`: the caches show them."""
        self._traces.pop(key, None)

    def __len__(self) -> int:
        return len(self._traces)

    def _keep(self, key: Hashable, traces: _Traces) -> None:
        self._traces[key] = (asyncio.get_running_loop().time(), traces)
        self._traces.move_to_end(key)

    def _forget_the_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - _MEMORY_SECONDS
        while self._traces and next(iter(self._traces.values()))[0] < oldest:
            self._traces.popitem(last=False)


class JournalingTransport(Middleware):
    """Middleware that records writes in the journal of the run that makes them.

    A write that is cancelled or gets no response may have been executed: its outcome is unknown. So are the outcomes of
    deletions of whole collections, evictions and bindings, whose responses do not have the object. Dry runs, and writes
    that store no object, such as reviews, are not recorded.
    """

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        traces = None if request.is_read else _current.get()
        if traces is None or request.is_dry_run:
            return await self.inner.send(request)
        collection, name, subresource = _place(request.path)
        try:
            response = await self.inner.send(request)
        except asyncio.CancelledError:
            _note(traces, Written(collection, "unknown"))
            raise
        except KubeError as error:
            if error.outcome_unknown:
                _note(traces, Written(collection, "unknown"))
            raise
        written = _read(request.method, collection, name, response)
        _note(traces, written if written is None or subresource in _WHOLE else evolve(written, labels=None))
        return response


def _note(traces: _Traces, written: Written | None) -> None:
    if written is None:
        return
    place = (written.collection, written.key)
    known = traces.get(place)
    if known is None:
        traces[place] = written
        return
    if written.fate == "gone" and not written.version:
        written = evolve(written, version=known.version)  # a deletion whose response has no version
    late = written.fate == "present" and _is_newer(known.version, written.version)
    before, last = (written, known) if late else (known, written)
    states = (*known.earlier, (before.version, before.labels))
    traces[place] = evolve(last, earlier=tuple(state for state in states if state[1] != last.labels))


def _is_newer(version: str, than: str) -> bool:
    """Whether a version is certainly newer: responses to concurrent writes come in any order."""
    try:
        return newer(version, than)
    except ResourceVersionError:
        return False


def _read(method: str, collection: str, name: str, response: Response) -> Written | None:
    unknown = Written(collection, "unknown")
    if method == "DELETE" and not name:
        return unknown
    try:
        value = response.json_object()
    except KubeError:
        return unknown
    if value.get("kind") == "Status":
        if method != "DELETE":
            return unknown
        # A deletion that is complete: the response has the UID, and not the object.
        uid = str((value.get("details") or {}).get("uid", ""))
        return Written(collection, "gone", ObjectKey(unknown.namespace, name), uid)
    metadata = value.get("metadata") or {}
    key = ObjectKey(str(metadata.get("namespace", "")), str(metadata.get("name", "")))
    version, uid = str(metadata.get("resourceVersion", "")), str(metadata.get("uid", ""))
    if not version or not key.name:
        return None
    # An update that removes the last finalizer of an object that is being deleted deletes it.
    ending = method == "DELETE" or bool(metadata.get("deletionTimestamp"))
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    gone = ending and not held
    # The labels of such an update are never stored: the server deletes the object as it was.
    labels = None if gone and method != "DELETE" else metadata.get("labels") or {}
    return Written(collection, "gone" if gone else "present", key, uid, version, labels)


def _place(path: str) -> tuple[str, str, str]:
    """The path of the collection that a write goes to; the object's name and subresource if the path has them."""
    parts = path.strip("/").split("/")
    root = 2 if parts[0] == "api" else 3
    if len(parts) > root + 2 and parts[root] == "namespaces" and parts[root + 2] not in _OF_NAMESPACES:
        root += 2
    name, subresource = (*parts[root + 1 : root + 3], "", "")[:2]
    return "/" + "/".join(parts[: root + 1]), unquote(name), subresource
