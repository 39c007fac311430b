"""The effective config as YAML, which is a valid config file: what `--print-config` prints."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpuruntime.processes.config.keys import Key, Section, layout, value_at
from gpuruntime.processes.config.load import Effective
from gpuruntime.processes.config.notations import Notation

__all__ = ["show_config"]


def show_config(effective: Effective[Any]) -> str:
    """Every key with its value; a comment names the variable or the flag that set it."""
    keys = layout(type(effective.config))
    return "".join(f"{line}\n" for line in _lines(keys, effective.config, effective.sources, ""))


def _lines(section: Section, config: Any, sources: Mapping[str, str], indent: str) -> Iterator[str]:
    for name, part in section.parts.items():
        if isinstance(part, Section):
            yield f"{indent}{name}:"
            yield from _lines(part, config, sources, f"{indent}  ")
            continue
        comment = f"  # from {sources[part.path]}" if part.path in sources else ""
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
    """The value on one line; only YAML strings are quoted."""
    text = notation.show(value)
    if "str" not in notation.types:
        return text
    return yaml.safe_dump(text, width=float("inf"), allow_unicode=True).removesuffix("\n").removesuffix("\n...")
