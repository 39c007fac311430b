"""Decoding that shares equal specs.

A spec changes rarely, but is part of every version of its object: of the response to each write, and of the watch event
of each status change. Decoding it is most of the cost of decoding the object.
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
# Values that are not JSON, such as dates of a YAML loader, must not be hashed as the text they would be encoded to.
_STRICT: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
# Specs that are still referenced, by the type of their object and a digest of their JSON.
_cache: Final[WeakValueDictionary[tuple[type, bytes], Struct]] = WeakValueDictionary()


def decode_sharing_spec(cls: type[K], raw: dict[str, Any]) -> K:
    """Decode an object like `decode`, but share its spec with other live objects of the type that have an equal one.

    Raises:
        DecodeError: the value does not match the type.
    """
    spec = raw.get(_SPEC)
    if type(spec) is not dict:
        return decode(cls, raw)
    try:
        key = cls, blake2b(orjson.dumps(spec, option=_STRICT), digest_size=_DIGEST_SIZE).digest()
    except TypeError:
        return decode(cls, raw)  # raises DecodeError with the problem
    cached = _cache.get(key)
    if cached is not None:
        return decode(cls, {**raw, _SPEC: cached})
    decoded = decode(cls, raw)
    shared = getattr(decoded, _SPEC, None)
    # A spec that equals its default is kept in `extra` as it was written.
    if isinstance(shared, Struct) and _SPEC not in decoded.extra:
        _cache[key] = shared
    return decoded
