"""The config of a process: flags win over the environment, the environment over the file, the file over defaults."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import attrs
from attrs import field, frozen

from gpuruntime.meta import wire_name
from gpuruntime.processes.config.keys import Key, Section, layout, value_at
from gpuruntime.processes.config.notations import NotationError
from gpuruntime.processes.config.yaml_file import Problem, YamlFile
from gpuruntime.processes.errors import StartError

__all__ = ["ConfigError", "Effective", "load_config"]

C = TypeVar("C")
# The kubelet sets variables for every Service in the namespace of a pod. Those of a Service with the name of the
# process begin with its prefix.
_SERVICE_LINK: Final = re.compile(r"(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_.+)?)")


class ConfigError(StartError):
    """A config is invalid; `problems` are all of its problems, in one line each."""


@frozen
class Effective(Generic[C]):
    """A config, and the variable or flag that set a value, by the path of the key."""

    config: C
    sources: Mapping[str, str]


@frozen
class _Overrides:
    """The values of variables or of flags by path, and the variable or flag that sets each."""

    values: dict[str, Any] = field(factory=dict)
    sources: dict[str, str] = field(factory=dict)
    problems: list[str] = field(factory=list)

    def set(self, key: Key, source: str, texts: Sequence[str]) -> None:
        self.sources[key.path] = source
        try:
            values = tuple(map(key.notation.parse, texts))
        except NotationError as error:
            self.problems.append(f"{source}: {error}")
        else:
            self.values[key.path] = values if key.is_list else values[-1] if values else None


def load_config(
    kind: type[C],
    file: Path | None,
    environment: Mapping[str, str],
    prefix: str,
    flags: Mapping[str, Sequence[str]] | None = None,
) -> Effective[C]:
    """Load a config of this class; `flags` are the texts of flags by the path of their key.

    Raises:
        ConfigError: the file, a variable with the prefix, a flag, or a combination of their values is invalid.
    """
    keys = layout(kind)
    written = YamlFile(keys)
    if file is not None:
        written.read(_content(file))
    variables, given = _variables(keys, environment, prefix), _flags(keys, flags or {})
    sources = {**variables.sources, **given.sources}
    values = {**written.values, **variables.values, **given.values}
    invalid = {problem.path.partition("[")[0] for problem in written.problems}
    invalid |= {path for layer in (variables, given) for path in layer.sources.keys() - layer.values.keys()}
    config = _build(keys, values)
    problems = [_located(file, problem) for problem in written.problems] + variables.problems + given.problems
    for problem in _faults(keys, config, invalid):
        source = sources.get(problem.path)
        problems.append(_located(file, problem) if source is None else f"{source}: {problem.words}")
    if problems:
        raise ConfigError(problems)
    return Effective(config, sources)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from error


def _located(file: Path | None, problem: Problem) -> str:
    place = "" if file is None else f"{file}:{problem.line}: " if problem.line else f"{file}: "
    return f"{place}{problem.path}: {problem.words}" if problem.path else f"{place}{problem.words}"


def _variables(keys: Section, environment: Mapping[str, str], prefix: str) -> _Overrides:
    known = {f"{prefix}{key.variable}": key for key in keys.every_key()}
    found = _Overrides()
    for name in sorted(environment):
        if not name.startswith(prefix):
            continue
        if name in known:
            found.set(known[name], name, _texts(known[name], environment[name]))
        elif not _SERVICE_LINK.fullmatch(name.removeprefix(prefix)):
            near = get_close_matches(name, known, n=1, cutoff=0.0)
            found.problems.append(f"{name}: unknown variable: did you mean {near[0]}?")
    return found


def _texts(key: Key, text: str) -> Sequence[str]:
    """The texts in a variable: a list is separated by commas, and an empty text is an empty list or no value."""
    if key.is_list:
        return [item.strip() for item in text.split(",")] if text.strip() else ()
    return () if key.default is None and not text else (text,)


def _flags(keys: Section, flags: Mapping[str, Sequence[str]]) -> _Overrides:
    found = _Overrides()
    for key in keys.every_key():
        if key.path in flags:
            found.set(key, key.flag, flags[key.path])
    return found


def _build(section: Section, values: Mapping[str, Any]) -> Any:
    """The section with these values, and with defaults for all others."""
    given: dict[str, Any] = {}
    for attribute in attrs.fields(section.type):
        part = section.parts[wire_name(attribute)]
        if isinstance(part, Section):
            given[attribute.name] = _build(part, values)
        elif part.path in values:
            given[attribute.name] = values[part.path]
    return section.type(**given)


def _faults(keys: Section, config: Any, invalid: set[str]) -> Iterator[Problem]:
    """The faults of sections without invalid values: the default in place of such a value would be a false alarm."""
    for section in keys.sections():
        if not any(key.path in invalid for key in section.every_key()):
            for fault in section.faults(value_at(config, section.path)):
                yield Problem(f"{section.path}.{fault.key}" if section.path else fault.key, fault.problem)
