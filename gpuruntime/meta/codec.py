"""The codec between JSON and typed objects: lossless, and without type coercion.

Guarantees: `encode(decode(cls, value)) == value` for every value that decodes, except that `apiVersion` and `kind` of a
typed kind are written even if they were absent, as in the items of a list. "3" is not an int, 1 is not a str, true and
3.0 are not ints. All problems of a value are reported in one `DecodeError`; invalid input raises nothing else. Hooks
are compiled once per class.
"""

from typing import Any, Final, TypeVar

import orjson
from attrs import evolve
from cattrs.preconf.orjson import OrjsonConverter, make_converter

from gpuruntime.meta.conversion.struct_hooks import register_struct_hooks
from gpuruntime.meta.conversion.value_hooks import UnsupportedTypeError, register_value_hooks
from gpuruntime.meta.decode_errors import DecodeError, Mismatch
from gpuruntime.meta.objects import KubeObject
from gpuruntime.meta.structs import Struct

__all__ = ["DecodeError", "UnsupportedTypeError", "decode", "decode_bytes", "encode", "encode_bytes", "parse_json"]

S = TypeVar("S", bound=Struct)


def _make_converter() -> OrjsonConverter:
    converter = make_converter(detailed_validation=False)
    register_value_hooks(converter)
    register_struct_hooks(converter)
    return converter


CONVERTER: Final = _make_converter()


def decode(cls: type[S], value: Any, *, at: tuple[str | int, ...] = ()) -> S:
    """Decode a JSON value to a deeply immutable typed object. `at` is its path in a larger document, for messages.

    Parts of the value may be typed objects already.

    Raises:
        DecodeError: the value does not match the type.
        UnsupportedTypeError: the declaration of the type is invalid.
    """
    try:
        decoded: S = CONVERTER.get_structure_hook(cls)(value, cls)
    except Mismatch as error:
        located = [evolve(failure, path=at + failure.path) for failure in error.failures]
        raise DecodeError(_subject(cls, value), map(str, located)) from None
    except RecursionError as error:
        raise DecodeError(_subject(cls, value), ["the value is nested too deeply @ $"]) from error
    return decoded


def decode_bytes(cls: type[S], data: bytes) -> S:
    """Decode a JSON text; text that is not UTF-8 or not JSON raises `DecodeError` as well."""
    return decode(cls, parse_json(data, cls.__qualname__))


def parse_json(data: bytes, subject: str) -> Any:
    """Parse a JSON text; `subject` names it in error messages.

    Raises:
        DecodeError: the text is not UTF-8 or not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DecodeError(subject, [f"expected JSON, got {len(data)} invalid bytes: {error} @ $"]) from error


def encode(obj: Struct | KubeObject) -> dict[str, Any]:
    """Encode a typed or dynamic object to plain dicts and lists that the caller may modify."""
    encoded: dict[str, Any] = CONVERTER.unstructure(obj)
    return encoded


def encode_bytes(obj: Struct | KubeObject) -> bytes:
    """Encode a typed or dynamic object to a JSON text."""
    return orjson.dumps(encode(obj))


def _subject(cls: type[Struct], value: Any) -> str:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        return cls.__qualname__
    parts = [part for part in (metadata.get("namespace"), metadata.get("name")) if isinstance(part, str) and part]
    return f"{cls.__qualname__} {'/'.join(parts)}".rstrip()
