"""A config file in YAML: its values by key, and all its problems."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

import yaml
from attrs import field, frozen

from gpuruntime.processes.config.keys import Key, Section
from gpuruntime.processes.config.notations import NotationError

__all__ = ["Problem", "YamlFile"]

_PREFIX: Final = "tag:yaml.org,2002:"
_MERGED: Final = "<<"
_LONGEST_SHOWN: Final = 80


@frozen
class Problem:
    """An invalid key; the path "" is the whole config. `line` counts from 1; 0 is unknown."""

    path: str
    words: str
    line: int = 0


@frozen
class YamlFile:
    """The values and the problems of a config file.

    Values are parsed from the text as written, not as YAML 1.1 resolves it: 1:30 is not a number here.
    """

    layout: Section
    values: dict[str, Any] = field(factory=dict)
    problems: list[Problem] = field(factory=list)

    def read(self, text: bytes) -> None:
        """Add the values and the problems of a text."""
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            self._note("", f"expected YAML: {error.problem}", line)
        except (yaml.YAMLError, ValueError, RecursionError):
            self._note("", "expected YAML text", 0)
        else:
            if node is not None:
                self._section(node, self.layout)

    def _section(self, node: yaml.Node, section: Section) -> None:
        if _type(node) == "null":
            return
        if not isinstance(node, yaml.MappingNode):
            self._note(section.path, f"expected keys ({', '.join(section.parts)}), got {_shown(node)}", _line(node))
            return
        seen: set[str] = set()
        for name_node, value in node.value:
            name = str(name_node.value) if isinstance(name_node, yaml.ScalarNode) else _shown(name_node)
            path = f"{section.path}.{name}" if section.path else name
            part = section.parts.get(name)
            if name in seen:
                self._note(path, "expected this key once, got it twice", _line(name_node))
            elif part is None:
                # Its value is not quoted: it may be a secret, written where only the path of a file is expected.
                self._note(path, f"unknown key: {_nearest(name, tuple(section.parts))}", _line(name_node))
            elif isinstance(part, Section):
                self._section(value, part)
            else:
                self._key(value, part)
            seen.add(name)

    def _key(self, node: yaml.Node, key: Key) -> None:
        if key.is_list:
            if not isinstance(node, yaml.SequenceNode):
                self._note(key.path, f"expected {key.expected}, got {_shown(node)}", _line(node))
                return
            items = list(self._items(node, key))
            if len(items) == len(node.value):
                self.values[key.path] = tuple(items)
        elif key.default is None and _type(node) == "null":
            self.values[key.path] = None
        else:
            for value in self._scalar(node, key, key.path):
                self.values[key.path] = value

    def _items(self, node: yaml.SequenceNode, key: Key) -> Iterator[Any]:
        for index, item in enumerate(node.value):
            yield from self._scalar(item, key, f"{key.path}[{index}]")

    def _scalar(self, node: yaml.Node, key: Key, path: str) -> Iterator[Any]:
        """The value, or nothing if it is invalid."""
        try:
            if not isinstance(node, yaml.ScalarNode) or _type(node) not in key.notation.types:
                raise key.notation.error(_shown(node))
            yield key.notation.parse(node.value)
        except NotationError as error:
            self._note(path, str(error), _line(node))

    def _note(self, path: str, words: str, line: int) -> None:
        self.problems.append(Problem(path, words, line))


def _nearest(name: str, known: tuple[str, ...]) -> str:
    if name == _MERGED:
        return "expected keys written out, got a merge"
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"


def _type(node: yaml.Node) -> str:
    return str(node.tag).removeprefix(_PREFIX)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _shown(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "keys"
    if _type(node) == "null":
        return "nothing"
    text = str(node.value)
    words = repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")
    return f"the text {words}" if _type(node) == "str" else words
