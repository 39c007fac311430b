"""A config as YAML: what `--print-config` prints can be read again."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpuruntime.processes.configuration.keys import Key, Section, layout, value_at
from gpuruntime.processes.configuration.notations import Notation
from gpuruntime.processes.configuration.reading import Effective

__all__ = ["printed"]


def printed(effective: Effective[Any]) -> str:
    """Every key with its value; a comment tells which come from the environment."""
    keys = layout(type(effective.config))
    return "".join(f"{line}\n" for line in _lines(keys, effective.config, effective.variables, ""))


def _lines(section: Section, config: Any, variables: Mapping[str, str], indent: str) -> Iterator[str]:
    for name, part in section.parts.items():
        if isinstance(part, Section):
            yield f"{indent}{name}:"
            yield from _lines(part, config, variables, f"{indent}  ")
            continue
        comment = f"  # from {variables[part.path]}" if part.path in variables else ""
        value = value_at(config, part.path)
        if part.is_list and value:
            yield f"{indent}{name}:{comment}"
            yield from (f"{indent}- {_scalar(part.notation, item)}" for item in value)
        else:
            yield f"{indent}{name}: {_value(part, value)}{comment}"


def _value(key: Key, value: Any) -> str:
    if key.is_list:
        return "[]"
    return "null" if value is None else _scalar(key.notation, value)


def _scalar(notation: Notation[Any], value: Any) -> str:
    """The value on one line; what is no text in YAML stays without quotes."""
    text = notation.show(value)
    if "str" not in notation.types:
        return text
    return yaml.safe_dump(text, width=float("inf"), allow_unicode=True).removesuffix("\n").removesuffix("\n...")
