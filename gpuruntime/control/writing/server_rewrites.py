"""What an API server makes of what it is sent: defaults, other spellings, additions of webhooks, whatever they are.

A server does the same to like objects. What it did to a write of ours, in its answer or in a rehearsal, tells its own
hand from somebody else's in every other object that we desire alike.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import orjson

from gpuruntime.control.lru import LRU
from gpuruntime.meta.identity import ResourceKind

__all__ = ["KnownRewrites", "Rewrite", "rewrites"]

Json = Mapping[str, Any]

_NOT_COMPARED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_SCALARS: Final = frozenset({str, int, float, bool})
_ABSENT: Final[Any] = object()
_KEPT: Final = 8192


class Rewrite(NamedTuple):
    """At `path` there is `live` where `sent` was sent; both in JSON, b"" if there is nothing.

    `beside` is what was desired beside it, in the same map: what a server fills in often depends on that, as the pull
    policy does on the image.
    """

    path: str
    beside: bytes
    sent: bytes
    live: bytes


def rewrites(sent: Json, live: Json, desired: Json | None = None) -> Iterator[Rewrite]:
    """Every place at which a live object is not, to the letter, what was sent; metadata and status aside.

    `desired` is what we ask for of what was sent; the rest of that was carried over from the live object, such as
    addresses, and is different for each.
    """
    asked = sent if desired is None else desired
    yield from _maps("", _compared(sent), _compared(live), _compared(asked))


class KnownRewrites:
    """The rewrites that a server was seen to make, at most 8,192 of them, by the kind and namespace of the object."""

    def __init__(self) -> None:
        self._known: LRU[tuple[ResourceKind, str, Rewrite], bool] = LRU(_KEPT)

    def explain(self, kind: ResourceKind, namespace: str, found: Iterable[Rewrite]) -> bool:
        """Whether all of these are the server's own."""
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
