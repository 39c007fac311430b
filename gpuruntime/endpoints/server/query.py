"""Query parameters, decoded into a flat Struct as strictly as a body."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from attrs import evolve, frozen
from multidict import MultiMapping

from gpuruntime.endpoints.server.body import decoded
from gpuruntime.endpoints.server.errors import Fault, fault_of, invalid
from gpuruntime.meta import Struct
from gpuruntime.schema import Violation, schema_of

__all__ = ["NoQuery", "check_query_length", "parse_query"]

S = TypeVar("S", bound=Struct)

_MOST_PARAMETERS: Final = 64
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


@frozen
class NoQuery(Struct):
    """The query of a route that takes no parameters."""


def check_query_length(raw: str) -> None:
    """Check the number of parameters before any is parsed.

    Raises:
        ApiError: 400, if there are more than any route takes.
    """
    if raw.count("&") >= _MOST_PARAMETERS:
        raise invalid(Fault("?", f"expected at most {_MOST_PARAMETERS} parameters, got {raw.count('&') + 1}"))


def parse_query(query: MultiMapping[str], cls: type[S]) -> S:
    """The parameters of a request, decoded.

    Raises:
        ApiError: 400 with every parameter that is unknown, repeated or invalid.
    """
    if not query:
        return _without_parameters(cls)  # type: ignore[return-value,arg-type]  # as below; it is an object of the class
    kinds = _kinds(cls)  # type: ignore[arg-type]  # mypy looks for the hash of an instance, not of the class
    repeated = [Fault(_path(key), "expected it once") for key in dict.fromkeys(query) if len(query.getall(key)) > 1]
    if repeated:
        raise invalid(*repeated)
    return decoded({key: _value(text, kinds.get(key, "")) for key, text in query.items()}, cls, _fault)


@cache
def _without_parameters(cls: type[Struct]) -> Struct:
    """The query without parameters. It is frozen, so all requests share it; an error is not kept."""
    return decoded({}, cls, _fault)


@cache
def _kinds(cls: type[Struct]) -> Mapping[str, str]:
    properties = schema_of(cls, described=False)["properties"]
    return {key: schema.get("type", "") for key, schema in properties.items()}


def _value(text: str, kind: str) -> Any:
    """The value of a text. A text that does not parse stays as it is: validation rejects it."""
    parse: Callable[[str], Any] = _PARSERS.get(kind, str)
    return parse(text)


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "boolean": lambda text: _BOOLEANS.get(text.lower(), text),
    "integer": lambda text: int(text) if _INTEGER.fullmatch(text) else text,
    "number": lambda text: float(text) if _NUMBER.fullmatch(text) else text,
}


def _fault(violation: Violation) -> Fault:
    return evolve(fault_of(violation), path=_path(violation.path))


def _path(name: str) -> str:
    return f"?{name}"
