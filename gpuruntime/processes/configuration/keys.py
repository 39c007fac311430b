"""Keys of a config as fields of frozen attrs classes, one class a section.

::

    @frozen
    class Shop:
        workers: int = key(count(1, 100), 8, "how many work at a time")
        logging: Logging = section(Logging)

Python names are snake_case, keys camelCase: `leader_election.lease_name` is the key leaderElection.leaseName, and the
variable PREFIX_LEADER_ELECTION_LEASE_NAME.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import attrs
from attrs import frozen

from gpuruntime.meta.structs import wire_name
from gpuruntime.processes.configuration.notations import Notation

__all__ = ["Fault", "Key", "Section", "Suspicious", "key", "keys", "layout", "section", "value_at"]

_KEY: Final = "gpuruntime.config_key"
_SECTION: Final = "gpuruntime.config_section"


@frozen
class Key:
    """A key that has a value. `default` None says that it need not have one."""

    path: str
    variable: str
    notation: Notation[Any]
    default: Any
    help: str
    is_list: bool

    @property
    def expected(self) -> str:
        return f"a list of which each is {self.notation.expected}" if self.is_list else self.notation.expected


@frozen
class Section:
    """Keys together: a section of a config, or all of it, with path "". Its parts are by their names in YAML."""

    path: str
    type: type[Any]
    parts: "Mapping[str, Key | Section]"

    def every_key(self) -> Iterator[Key]:
        """Every key in it, in the order of the fields."""
        for part in self.parts.values():
            if isinstance(part, Key):
                yield part
            else:
                yield from part.every_key()

    def sections(self) -> "Iterator[Section]":
        """Every section in it, and then itself."""
        for part in self.parts.values():
            if isinstance(part, Section):
                yield from part.sections()
        yield self


@frozen
class Fault:
    """Values that are well each by itself and make no sense together. `key` is below the section that tells it."""

    key: str
    problem: str


@runtime_checkable
class Suspicious(Protocol):
    """A section that looks at its values together."""

    def faults(self) -> Iterator[Fault]:
        """What makes no sense."""


def key(notation: Notation[Any], default: Any, help: str) -> Any:  # noqa: A002 - what argparse calls it
    """A field with one value."""
    return attrs.field(default=default, metadata={_KEY: (notation, help, False)})


def keys(notation: Notation[Any], default: tuple[Any, ...], help: str) -> Any:  # noqa: A002 - what argparse calls it
    """A field with a tuple of values."""
    return attrs.field(default=default, metadata={_KEY: (notation, help, True)})


def section(kind: type[Any]) -> Any:
    """A field with keys of its own."""
    return attrs.field(factory=kind, metadata={_SECTION: kind})


def layout(kind: type[Any], path: str = "", variable: str = "") -> Section:
    """What keys a config class has."""
    parts: dict[str, Key | Section] = {}
    for attribute in attrs.fields(kind):
        name = wire_name(attribute)
        below = f"{path}.{name}" if path else name
        upper = f"{variable}_{attribute.name.upper()}" if variable else attribute.name.upper()
        if _SECTION in attribute.metadata:
            parts[name] = layout(attribute.metadata[_SECTION], below, upper)
        else:
            notation, words, is_list = attribute.metadata[_KEY]
            parts[name] = Key(below, upper, notation, attribute.default, words, is_list)
    return Section(path, kind, parts)


def value_at(config: Any, path: str) -> Any:
    """The value of a key of a config, or the section that a path leads to."""
    for name in path.split(".") if path else ():
        config = next(getattr(config, field.name) for field in attrs.fields(type(config)) if wire_name(field) == name)
    return config
