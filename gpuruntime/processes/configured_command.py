"""What commands of processes with a config have in common: flags, what --help tells of the keys, and how they run."""

import argparse
import os
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from gpuruntime.processes.configuration.keys import Key, layout
from gpuruntime.processes.configuration.notations import FILE
from gpuruntime.processes.configuration.printing import printed
from gpuruntime.processes.configuration.reading import ConfigError, Effective, read_config
from gpuruntime.processes.configuration.sections import Logging
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.running import refused, run_process

__all__ = ["add_config", "effective_config", "run_configured"]

C = TypeVar("C")
L = TypeVar("L", bound="_Logged")
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


class _Logged(Protocol):
    """A config that says how to log."""

    @property
    def logging(self) -> Logging: ...


def run_configured(
    arguments: argparse.Namespace,
    kind: type[L],
    prefix: str,
    process: Callable[[L], Coroutine[Any, Any, None]],
    *mistakes: type[Exception],
) -> int:
    """Run a process with its config until a signal comes, or print the config; 1 if that cannot be, which the config or
    one of `mistakes` tells.
    """
    try:
        effective = effective_config(arguments, kind, prefix)
        if arguments.print_config:
            print(printed(effective), end="")
            return 0
        config = effective.config
        configure_logging(level=config.logging.level_number, format=config.logging.lines)
        run_process(process(config))
    except ConfigError as error:
        return refused(*error.problems)
    except mistakes as error:
        return refused(error)
    return 0


def _told(key: Key) -> list[str]:
    defaults = key.default if key.is_list else () if key.default is None else (key.default,)
    shown = ", ".join(map(key.notation.show, defaults)) or "none"
    words = textwrap.wrap(f"{key.help} ({shown})", _WIDTH - _COLUMN)
    first = f"  {key.path:<{_COLUMN - 3}} {words[0]}"
    return [first, *(" " * _COLUMN + line for line in words[1:])]
