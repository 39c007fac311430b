"""Equal specs, decoded once.

A spec changes seldom, and comes again with every state of its object: in the answer to whoever wrote it, in the event
that tells of the write, in one more event for each step that the status makes. To decode it is most of the work of
decoding the object.
"""

from hashlib import blake2b
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import orjson

from gpuruntime.meta.codec import decode
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["decode_sharing_spec"]

K = TypeVar("K", bound=TypedObject)

_SPEC: Final = "spec"
_DIGEST_SIZE: Final = 16
# What is no JSON, as YAML has it, must not pass for the text that it would become.
_STRICTLY: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
# Specs that somebody holds, by the type of the object and by a digest of their JSON.
_known: Final[WeakValueDictionary[tuple[type, bytes], Struct]] = WeakValueDictionary()


def decode_sharing_spec(cls: type[K], raw: dict[str, Any]) -> K:
    """`decode` of an object that was read from JSON, with the very spec of another object of the type whose spec was
    the same text, as long as there is one.

    Raises:
        DecodeError: the value does not fit the type.
    """
    spec = raw.get(_SPEC)
    if type(spec) is not dict:
        return decode(cls, raw)
    try:
        name = cls, blake2b(orjson.dumps(spec, option=_STRICTLY), digest_size=_DIGEST_SIZE).digest()
    except TypeError:
        return decode(cls, raw)  # which says what is wrong with it
    known = _known.get(name)
    if known is not None:
        return decode(cls, {**raw, _SPEC: known})
    decoded = decode(cls, raw)
    shared = getattr(decoded, _SPEC, None)
    # One that says no more than the defaults is kept in `extra`, as it was written.
    if isinstance(shared, Struct) and _SPEC not in decoded.extra:
        _known[name] = shared
    return decoded
