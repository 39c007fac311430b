"""How values are written, the same in flags, in YAML and in variables of the environment."""

import argparse
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control import HttpAddress
from gpuruntime.meta import is_dns_label, is_dns_subdomain

__all__ = [
    "ADDRESS",
    "DURATION",
    "FILE",
    "FLAG",
    "NAMESPACE",
    "OBJECT_NAME",
    "Notation",
    "NotationError",
    "choice",
    "count",
    "duration",
    "show_seconds",
]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_DURATION: Final = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,3})?)(?P<unit>ms|s|m|h)?")
_MILLISECONDS: Final = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_TEXT: Final = frozenset({"str"})
_LONGEST_SHOWN: Final = 80


class NotationError(argparse.ArgumentTypeError, ValueError):
    """A text is not written as it should be; argparse tells the message as it is."""


@frozen
class Notation(Generic[T]):
    """One way to write values.

    Args:
        expected: what a text must be, in words that follow "expected".
        read: the value of a text; raises ValueError for what is none.
        show: the text of a value: what `read` gives the value for.
        types: what YAML may take an unquoted text for.
    """

    expected: str
    read: Callable[[str], T]
    show: Callable[[T], str]
    types: frozenset[str] = _TEXT

    def parse(self, text: str) -> T:
        """The value of a text.

        Raises:
            NotationError: it stands for none; the message says what was expected.
        """
        try:
            return self.read(text)
        except ValueError as error:
            raise self.refusal(repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")) from error

    def refusal(self, got: str) -> NotationError:
        return NotationError(f"expected {self.expected}, got {got}")


def show_seconds(seconds: float) -> str:
    """A duration as people write it, in the largest unit that leaves no fraction: 90 seconds are "90s", 3600 "1h"."""
    milliseconds = round(seconds * 1000)
    unit = next((name for name, size in _MILLISECONDS.items() if milliseconds % size == 0 and milliseconds), "s")
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def duration(*, least: float = 0.0) -> Notation[float]:
    """Seconds, written as `30`, `30s`, `1.5m`, `1h` or `500ms`."""

    def read(text: str) -> float:
        parts = _DURATION.fullmatch(text)
        if parts is None or not text.isascii():
            raise ValueError(text)
        seconds = float(parts["number"]) * _MILLISECONDS[parts["unit"] or "s"] / 1000
        if seconds < least:
            raise ValueError(text)
        return seconds

    bound = f" of at least {show_seconds(least)}" if least else ""
    return Notation(f"a duration{bound} such as 30s or 5m", read, show_seconds, frozenset({"str", "int", "float"}))


def count(least: int, most: int) -> Notation[int]:
    """A whole number."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return Notation(f"a number of {least} to {most}", read, str, frozenset({"int"}))


def choice(values: type[E]) -> Notation[E]:
    """One of the values of an enumeration. YAML takes an unquoted `off` for false: it is read as it is written."""
    names = [str(member.value) for member in values]
    types = frozenset({"str", "bool"}) if {"on", "off"} & {*names} else _TEXT
    return Notation(f"one of {', '.join(names)}", values, lambda member: str(member.value), types)


def _address(text: str) -> HttpAddress:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(text)
    return HttpAddress(host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port))


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(text)
    return text == "true"


def _name(is_name: Callable[[str], bool]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not is_name(text):
            raise ValueError(text)
        return text

    return read


def _file(text: str) -> Path:
    if not text.strip() or "\0" in text:
        raise ValueError(text)
    return Path(text)


DURATION: Final = duration()
ADDRESS: Final[Notation[HttpAddress]] = Notation(
    "host:port with a port of 0 to 65535", _address, lambda address: address.url.removeprefix("http://")
)
"""`host:port`, `:port` (every interface) or `[v6]:port`."""
FLAG: Final[Notation[bool]] = Notation("true or false", _flag, lambda value: str(value).lower(), frozenset({"bool"}))
NAMESPACE: Final = Notation("the name of a namespace", _name(is_dns_label), str)
OBJECT_NAME: Final = Notation("the name of an object, such as my-lease", _name(is_dns_subdomain), str)
FILE: Final[Notation[Path]] = Notation("the path of a file", _file, str)
