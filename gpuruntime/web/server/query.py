"""Query parameters as values of a flat Struct, as strict as a body."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from attrs import frozen
from multidict import MultiMapping

from gpuruntime.control.definitions.schema import schema_of
from gpuruntime.meta import Struct
from gpuruntime.web.server.body import decoded
from gpuruntime.web.server.errors import Fault, invalid

__all__ = ["NoQuery", "parse_query", "refuse_long_query"]

S = TypeVar("S", bound=Struct)

_MOST_PARAMETERS: Final = 64
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


@frozen
class NoQuery(Struct):
    """The query of a route that takes none."""


def refuse_long_query(raw: str) -> None:
    """Pass if a query is one that can be looked at in no time; none that a route takes has more.

    Raises:
        ApiError: 400.
    """
    if raw.count("&") >= _MOST_PARAMETERS:
        raise invalid(Fault("?", f"expected at most {_MOST_PARAMETERS} parameters, got {raw.count('&') + 1}"))


def parse_query(query: MultiMapping[str], cls: type[S]) -> S:
    """The parameters of a request.

    Raises:
        ApiError: 400 with all that are unknown, given twice or wrong.
    """
    kinds = _kinds(cls)  # type: ignore[arg-type]  # mypy looks for the hash of an instance, not of the class
    twice = [Fault(_name(key), "expected it once") for key in dict.fromkeys(query) if len(query.getall(key)) > 1]
    if twice:
        raise invalid(*twice)
    return decoded({key: _value(text, kinds.get(key, "")) for key, text in query.items()}, cls, _name)


@cache
def _kinds(cls: type[Struct]) -> Mapping[str, str]:
    properties = schema_of(cls, described=False)["properties"]
    return {key: schema.get("type", "") for key, schema in properties.items()}


def _value(text: str, kind: str) -> Any:
    """What a text stands for; the text itself if it is no such thing, for the rules of the type to refuse."""
    read: Callable[[str], Any] = _READERS.get(kind, str)
    return read(text)


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "boolean": lambda text: _BOOLEANS.get(text.lower(), text),
    "integer": lambda text: int(text) if _INTEGER.fullmatch(text) else text,
    "number": lambda text: float(text) if _NUMBER.fullmatch(text) else text,
}


def _name(path: str) -> str:
    return f"?{path}"
