"""The config of a process: defaults, below its file, below the environment, below its flags."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import attrs
from attrs import frozen

from gpuruntime.meta.structs import wire_name
from gpuruntime.processes.configuration.keys import Key, Section, Suspicious, layout, value_at
from gpuruntime.processes.configuration.notations import NotationError
from gpuruntime.processes.configuration.yaml_values import Problem, YamlValues

__all__ = ["ConfigError", "Effective", "read_config"]

C = TypeVar("C")
# The kubelet tells pods of every Service of their namespace in variables, and those of a Service that is called as the
# process look like ours.
_SERVICE_LINK: Final = re.compile(r"(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_.+)?)")


class ConfigError(Exception):
    """A config cannot be used; each of `problems` is one line for the user."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@frozen
class Effective(Generic[C]):
    """A config, and which variable of the environment said what of it, by path."""

    config: C
    variables: Mapping[str, str]


@frozen
class _Overrides:
    """What variables say."""

    values: dict[str, Any]
    variables: dict[str, str]
    problems: list[str]


def read_config(
    kind: type[C],
    file: Path | None,
    environment: Mapping[str, str],
    prefix: str,
    flags: Mapping[str, Any] | None = None,
) -> Effective[C]:
    """Read a config of this class; `flags` are values by path, which win over everything.

    Raises:
        ConfigError: the file, variables that begin with the prefix, or what comes of them together; all at once.
    """
    keys = layout(kind)
    written = YamlValues(keys)
    if file is not None:
        written.read(_content(file))
    overrides = _overrides(keys, environment, prefix)
    variables = {path: name for path, name in overrides.variables.items() if path not in (flags or {})}
    broken = {problem.path.partition("[")[0] for problem in written.problems}
    values = {**written.values, **overrides.values, **(flags or {})}
    problems = [_told(file, problem) for problem in written.problems] + overrides.problems
    config = _build(keys, values)
    for problem in _faults(keys, config, broken | set(variables) - set(overrides.values)):
        variable = variables.get(problem.path.partition("[")[0])
        problems.append(_told(file, problem) if variable is None else f"{variable}: {problem.words}")
    if problems:
        raise ConfigError(problems)
    return Effective(config, variables)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError([f"{file} cannot be read: {(error.strerror or str(error)).lower()}"]) from error


def _told(file: Path | None, problem: Problem) -> str:
    place = "" if file is None else f"{file}:{problem.line}: " if problem.line else f"{file}: "
    return f"{place}{problem.path}: {problem.words}" if problem.path else f"{place}{problem.words}"


def _overrides(keys: Section, environment: Mapping[str, str], prefix: str) -> _Overrides:
    known = {f"{prefix}{key.variable}": key for key in keys.every_key()}
    found = _Overrides({}, {}, [])
    for name in sorted(environment):
        if not name.startswith(prefix):
            continue
        key = known.get(name)
        if key is not None:
            found.variables[key.path] = name
            try:
                found.values[key.path] = _value(key, environment[name])
            except NotationError as error:
                found.problems.append(f"{name}: {error}")
        elif not _SERVICE_LINK.fullmatch(name.removeprefix(prefix)):
            near = get_close_matches(name, known, n=1, cutoff=0.0)
            found.problems.append(f"{name}: unknown variable: did you mean {near[0]}?")
    return found


def _value(key: Key, text: str) -> Any:
    if key.is_list:
        return tuple(key.notation.parse(item.strip()) for item in text.split(",")) if text.strip() else ()
    return None if key.default is None and not text else key.notation.parse(text)


def _build(section: Section, values: Mapping[str, Any]) -> Any:
    """The section with these values, and defaults for the rest."""
    given: dict[str, Any] = {}
    for attribute in attrs.fields(section.type):
        part = section.parts[wire_name(attribute)]
        if isinstance(part, Section):
            given[attribute.name] = _build(part, values)
        elif part.path in values:
            given[attribute.name] = values[part.path]
    return section.type(**given)


def _faults(keys: Section, config: Any, broken: set[str]) -> Iterator[Problem]:
    """What makes no sense together, where every value by itself does: a default in the place of a wrong one would
    raise false alarm.
    """
    for section in keys.sections():
        found = value_at(config, section.path)
        if isinstance(found, Suspicious) and not any(key.path in broken for key in section.every_key()):
            for fault in found.faults():
                yield Problem(f"{section.path}.{fault.key}" if section.path else fault.key, fault.problem)
