"""Config keys as fields of frozen attrs classes, one class per section.

::

    @frozen
    class Shop:
        workers: int = key(count(1, 100), 8, "maximum concurrent orders")
        logging: Logging = section(Logging)

Every name of a key derives from its field: `leader_election.lease_name` is the YAML key leaderElection.leaseName, the
variable PREFIX_LEADER_ELECTION_LEASE_NAME and the flag --leader-election-lease-name, unless `flag` names another one.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
from attrs import frozen

from gpuruntime.meta import wire, wire_name
from gpuruntime.processes.config.notations import Notation

__all__ = ["Fault", "Key", "KeyText", "Section", "key", "keys", "layout", "section", "value_at"]

_KEY: Final = "gpuruntime.config_key"
_SECTION: Final = "gpuruntime.config_section"


@frozen
class Key:
    """A key with a value, or with a list of values. A `default` of None means that it is optional."""

    path: str
    variable: str
    flag: str
    notation: Notation[Any]
    default: Any
    help: str
    is_list: bool

    @property
    def expected(self) -> str:
        return f"a list of which each is {self.notation.expected}" if self.is_list else self.notation.expected

    @property
    def shown_default(self) -> str:
        defaults = self.default if self.is_list else () if self.default is None else (self.default,)
        return ", ".join(map(self.notation.show, defaults))


@frozen
class Fault:
    """Values of a section that are each valid and together invalid. `key` is a path below the section."""

    key: str
    problem: str


def _no_faults(_value: Any) -> Iterator[Fault]:
    return iter(())


@frozen
class Section:
    """A group of keys, or a whole config, which has the path "". `parts` are keyed by their YAML names."""

    path: str
    type: type[Any]
    parts: "Mapping[str, Key | Section]"
    faults: Callable[[Any], Iterator[Fault]]
    help: str = ""

    def every_key(self) -> Iterator[Key]:
        """All keys of the section and of those within it, in the order of the fields."""
        for part in self.parts.values():
            if isinstance(part, Key):
                yield part
            else:
                yield from part.every_key()

    def sections(self) -> "Iterator[Section]":
        """All sections within it, then the section itself."""
        for part in self.parts.values():
            if isinstance(part, Section):
                yield from part.sections()
        yield self


@frozen
class KeyText:
    """How a key is written and described. An empty `flag` derives its name from the path."""

    notation: Notation[Any]
    help: str
    is_list: bool = False
    flag: str = ""


@frozen
class _SectionText:
    """The class of a section. `keys` describe the fields of a class that does not know of configs itself."""

    type: type[Any]
    help: str = ""
    keys: Mapping[str, KeyText] = {}
    faults: Callable[[Any], Iterator[Fault]] | None = None


def key(notation: Notation[Any], default: Any, help: str, *, flag: str = "", name: str = "") -> Any:  # noqa: A002 - what argparse calls it
    """A field with one value. `name` is its YAML name, where that does not derive from the field."""
    named = wire(name) if name else {}
    return attrs.field(default=default, metadata={**named, _KEY: KeyText(notation, help, flag=flag)})


def keys(notation: Notation[Any], default: tuple[Any, ...], help: str, *, flag: str = "") -> Any:  # noqa: A002 - what argparse calls it
    """A field with a tuple of values."""
    return attrs.field(default=default, metadata={_KEY: KeyText(notation, help, is_list=True, flag=flag)})


def section(
    kind: type[Any],
    help: str = "",  # noqa: A002 - what argparse calls it
    *,
    described: Mapping[str, KeyText] | None = None,
    faults: Callable[[Any], Iterator[Fault]] | None = None,
) -> Any:
    """A field with keys of its own.

    The fields of `kind` are made by `key`, `keys` and `section`. A class of another room stays free of config: then
    `described` has its fields by name, and `faults` checks its values together, as the method `faults` does otherwise.
    """
    return attrs.field(factory=kind, metadata={_SECTION: _SectionText(kind, help, described or {}, faults)})


def layout(kind: type[Any]) -> Section:
    """The keys and sections of a config class."""
    return _layout(_SectionText(kind), ())


def value_at(config: Any, path: str) -> Any:
    """The value of the key, or of the section, at a path; "" is the config itself."""
    for name in path.split(".") if path else ():
        config = next(getattr(config, field.name) for field in attrs.fields(type(config)) if wire_name(field) == name)
    return config


def _layout(text: _SectionText, above: tuple["attrs.Attribute[Any]", ...]) -> Section:
    parts: dict[str, Key | Section] = {}
    for attribute in attrs.fields(text.type):
        fields = (*above, attribute)
        if _SECTION in attribute.metadata:
            parts[wire_name(attribute)] = _layout(attribute.metadata[_SECTION], fields)
            continue
        described: KeyText = text.keys.get(attribute.name) or attribute.metadata[_KEY]
        names = [field.name for field in fields]
        parts[wire_name(attribute)] = Key(
            ".".join(map(wire_name, fields)),
            "_".join(names).upper(),
            described.flag or f"--{'-'.join(names).replace('_', '-')}",
            described.notation,
            attribute.default,
            described.help,
            described.is_list,
        )
    own: Callable[[Any], Iterator[Fault]] = getattr(text.type, "faults", _no_faults)
    return Section(".".join(map(wire_name, above)), text.type, parts, text.faults or own, text.help)
