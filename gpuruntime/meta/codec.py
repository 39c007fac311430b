"""JSON to typed objects and back, without loss and without coercion.

Guarantees: `encode(decode(cls, value)) == value` for every value that decodes, except that `apiVersion` and `kind`
of a typed kind are written even where a list left them out. "3" is not an int, 1 is not a str, true is not an int,
3.0 is not an int. All faults of a value are reported at once, in one `DecodeError`, and nothing else is raised for bad
input. Hooks are compiled once per class.
"""

from typing import Any, Final, TypeVar

import orjson
from attrs import evolve
from cattrs.preconf.orjson import OrjsonConverter, make_converter

from gpuruntime.meta.decode_errors import DecodeError, Mismatch
from gpuruntime.meta.objects import KubeObject
from gpuruntime.meta.struct_hooks import register_struct_hooks
from gpuruntime.meta.structs import Struct
from gpuruntime.meta.value_hooks import UnsupportedTypeError, register_value_hooks

__all__ = ["DecodeError", "UnsupportedTypeError", "decode", "decode_bytes", "encode", "encode_bytes", "parse_json"]

S = TypeVar("S", bound=Struct)


def _make_converter() -> OrjsonConverter:
    converter = make_converter(detailed_validation=False)
    register_value_hooks(converter)
    register_struct_hooks(converter)
    return converter


CONVERTER: Final = _make_converter()


def decode(cls: type[S], value: Any, *, at: tuple[str | int, ...] = ()) -> S:
    """The typed form of a JSON value, deeply immutable. `at` is where the value sits in a document, for messages.

    A part of the value may be in its typed form already.

    Raises:
        DecodeError: the value does not fit the type.
        UnsupportedTypeError: the type itself cannot be decoded; a mistake in its declaration.
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
    """`decode` of a JSON text; text that is not UTF-8 or not JSON is a `DecodeError` too."""
    return decode(cls, parse_json(data, cls.__qualname__))


def parse_json(data: bytes, subject: str) -> Any:
    """The JSON value of a text; `subject` is what an error says was read.

    Raises:
        DecodeError: the text is not UTF-8 or not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DecodeError(subject, [f"expected JSON, got {len(data)} bytes with a fault: {error} @ $"]) from error


def encode(obj: Struct | KubeObject) -> dict[str, Any]:
    """The JSON object of a typed or dynamic object, in plain dicts and lists that the caller may edit."""
    encoded: dict[str, Any] = CONVERTER.unstructure(obj)
    return encoded


def encode_bytes(obj: Struct | KubeObject) -> bytes:
    """The JSON text of a typed or dynamic object."""
    return orjson.dumps(encode(obj))


def _subject(cls: type[Struct], value: Any) -> str:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        return cls.__qualname__
    parts = [part for part in (metadata.get("namespace"), metadata.get("name")) if isinstance(part, str) and part]
    return f"{cls.__qualname__} {'/'.join(parts)}".rstrip()
