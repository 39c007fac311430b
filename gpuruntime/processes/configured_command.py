"""What the commands of processes with a config have in common: their flags, and what their --help tells of the keys."""

import argparse
import os
import textwrap
from pathlib import Path
from typing import Any, Final, TypeVar

from gpuruntime.processes.configuration.keys import Key, layout
from gpuruntime.processes.configuration.notations import FILE
from gpuruntime.processes.configuration.reading import Effective, read_config

__all__ = ["add_config", "effective_config"]

C = TypeVar("C")
_WIDTH: Final = 100
_COLUMN: Final = 32


def add_config(parser: argparse.ArgumentParser, kind: type[Any], prefix: str, description: str) -> None:
    """Add the flags, and describe the keys of the config class; `prefix` begins variables of the environment."""
    parser.description = description
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--config", type=Path, metavar="FILE", help="the config, in YAML (default: every default)")
    parser.add_argument(
        "--kubeconfig", type=FILE.parse, metavar="FILE", help="the cluster, whatever config and environment say"
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print what the config comes to, as YAML that can be read, and exit"
    )
    keys = tuple(layout(kind).every_key())
    example = max(keys, key=lambda key: key.path.count("."))
    lines = [
        "keys of the config, with their defaults:",
        *(line for key in keys for line in _told(key)),
        "",
        *textwrap.wrap(
            f"A variable of the environment wins over the file: {prefix}{example.variable} is {example.path}; lists"
            " are separated by commas. Paths are relative to the working directory.",
            _WIDTH,
        ),
    ]
    parser.epilog = "\n".join(lines)


def effective_config(arguments: argparse.Namespace, kind: type[C], prefix: str) -> Effective[C]:
    """The config that flags, environment and file come to.

    Raises:
        ConfigError: it cannot be used.
    """
    flags = {} if arguments.kubeconfig is None else {"kubeconfig": arguments.kubeconfig}
    return read_config(kind, arguments.config, os.environ, prefix, flags)


def _told(key: Key) -> list[str]:
    defaults = key.default if key.is_list else () if key.default is None else (key.default,)
    shown = ", ".join(map(key.notation.show, defaults)) or "none"
    words = textwrap.wrap(f"{key.help} ({shown})", _WIDTH - _COLUMN)
    first = f"  {key.path:<{_COLUMN - 3}} {words[0]}"
    return [first, *(" " * _COLUMN + line for line in words[1:])]
