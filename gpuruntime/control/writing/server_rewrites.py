"""Changes that the API server makes to written objects: defaulting, normalisation, mutating webhooks.

A server changes similar objects in the same way. The changes in its response to one of our writes, or to a dry run,
explain the same changes in every other object with the same desired fields; anything else is drift.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import orjson

from gpuruntime.aio.lru import LRU
from gpuruntime.meta.identity import ResourceKind

__all__ = ["KnownRewrites", "Rewrite", "rewrites"]

Json = Mapping[str, Any]

_NOT_COMPARED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_SCALARS: Final = frozenset({str, int, float, bool})
_ABSENT: Final[Any] = object()
_LRU_SIZE: Final = 8192


class Rewrite(NamedTuple):
    """The server turned `sent` into `live` at `path`; both are JSON, b"" if absent.

    `beside` are the desired scalars of the same map, on which defaults often depend, as the pull policy does on the
    image.
    """

    path: str
    beside: bytes
    sent: bytes
    live: bytes


def rewrites(sent: Json, live: Json, desired: Json | None = None) -> Iterator[Rewrite]:
    """Every exact difference between the sent and the live object, outside of metadata and status.

    `desired` is the part of `sent` that we desire. The rest, such as cluster IPs, was carried over from the live object
    and is specific to it.
    """
    asked = sent if desired is None else desired
    yield from _maps("", _compared(sent), _compared(live), _compared(asked))


class KnownRewrites:
    """The rewrites that the server is known to make, by kind and namespace, in an LRU of 8,192."""

    def __init__(self) -> None:
        self._known: LRU[tuple[ResourceKind, str, Rewrite], bool] = LRU(_LRU_SIZE)

    def explain(self, kind: ResourceKind, namespace: str, found: Iterable[Rewrite]) -> bool:
        """Whether all of these rewrites are known."""
        return all(self._known.get((kind, namespace, rewrite)) for rewrite in found)

    def learn(self, kind: ResourceKind, namespace: str, found: Iterable[Rewrite]) -> None:
        for rewrite in found:
            self._known.put((kind, namespace, rewrite), True)


def _compared(body: Json) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _NOT_COMPARED}


def _maps(path: str, sent: Json, live: Json, desired: Any) -> Iterator[Rewrite]:
    asked = desired if isinstance(desired, Mapping) else {}
    for name in live if live.keys() >= sent.keys() else {**sent, **live}:
        ours, theirs = sent.get(name, _ABSENT), live.get(name, _ABSENT)
        inside = f"{path}.{name}" if path else name
        yield from _values(inside, ours, theirs, asked.get(name), asked)


def _lists(path: str, sent: Sequence[Any], live: Sequence[Any], desired: Any) -> Iterator[Rewrite]:
    asked = desired if isinstance(desired, (list, tuple)) and len(desired) == len(sent) else ()
    for index, (ours, theirs) in enumerate(zip_longest(sent, live, fillvalue=_ABSENT)):
        yield from _values(f"{path}[{index}]", ours, theirs, asked[index] if index < len(asked) else None, {})


def _values(path: str, sent: Any, live: Any, desired: Any, around: Json) -> Iterator[Rewrite]:
    if type(sent) in _SCALARS and type(sent) is type(live):
        if sent == live:
            return
    elif isinstance(sent, dict) and isinstance(live, dict):
        yield from _maps(path, sent, live, desired)
        return
    elif isinstance(sent, (list, tuple)) and isinstance(live, (list, tuple)):
        yield from _lists(path, sent, live, desired)
        return
    elif sent is None and live is None:
        return
    yield Rewrite(path, _scalars(around), _text(sent), _text(live))


def _scalars(around: Json) -> bytes:
    return _text({name: value for name, value in around.items() if type(value) in _SCALARS})


def _text(value: Any) -> bytes:
    return b"" if value is _ABSENT else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
