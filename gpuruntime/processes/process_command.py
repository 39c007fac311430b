"""The command of a process: flags from the keys of its config class, --print-config, and the run to its exit code."""

import argparse
import os
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control import ListenError
from gpuruntime.processes.config.keys import Key, Section, layout
from gpuruntime.processes.config.load import Effective, load_config
from gpuruntime.processes.config.sections import ProcessConfig
from gpuruntime.processes.config.show import show_config
from gpuruntime.processes.errors import StartError
from gpuruntime.processes.running import configure_logging, run_process

__all__ = ["ProcessCommand"]

C = TypeVar("C", bound=ProcessConfig)
_WIDTH: Final = 100


@frozen
class ProcessCommand(Generic[C]):
    """`gpuruntime NAME`: runs a process until a signal stops it.

    `process` raises StartError for every problem that the operator can fix: each is one line on standard error, and the
    exit code is 1.
    """

    name: str
    description: str
    config: type[C]
    process: Callable[[C], Coroutine[Any, Any, None]]

    @property
    def prefix(self) -> str:
        """The prefix of environment variables."""
        return f"GPURUNTIME_{self.name.upper().replace('-', '_')}_"

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags: one per key of the config, in one group per section."""
        keys = layout(self.config)
        parser.usage = "%(prog)s [--config FILE] [--print-config] [FLAG ...]"
        parser.description = self.description
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _epilog(tuple(keys.every_key()), self.prefix)
        parser.add_argument("--config", type=Path, metavar="FILE", help="config file in YAML")
        parser.add_argument("--print-config", action="store_true", help="print the effective config as YAML and exit")
        for section in _outer_first(keys):
            _add_section(parser, section)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the process, or print its config; 1 if the process cannot start."""
        try:
            effective = self._load(arguments)
            if arguments.print_config:
                print(show_config(effective), end="")
                return 0
            config = effective.config
            configure_logging(level=config.logging.level_number, format=config.logging.lines)
            run_process(self.process(config))
        except StartError as error:
            return _refuse(error.problems)
        except ListenError as error:
            return _refuse([str(error)])
        return 0

    def _load(self, arguments: argparse.Namespace) -> Effective[C]:
        given = vars(arguments)
        flags = {key.path: given[key.path] for key in layout(self.config).every_key() if given[key.path] is not None}
        return load_config(self.config, arguments.config, os.environ, self.prefix, flags)


def _outer_first(section: Section) -> Iterator[Section]:
    yield section
    for part in section.parts.values():
        if isinstance(part, Section):
            yield from _outer_first(part)


def _add_section(parser: argparse.ArgumentParser, section: Section) -> None:
    group = parser.add_argument_group(section.path or "process", section.help or None)
    for key in section.parts.values():
        if not isinstance(key, Key):
            continue
        # Values are parsed with those of the file and the environment, so that all problems are reported together.
        words = f"{key.help} [{key.path}]"
        shown = key.shown_default
        words += f" (default: {shown})" if shown else ""
        words += "; can be repeated" if key.is_list else ""
        boolean: dict[str, Any] = {} if key.notation.metavar else {"nargs": "?", "const": "true"}
        metavar = key.notation.metavar or "true|false"
        group.add_argument(key.flag, dest=key.path, action="append", metavar=metavar, help=words, **boolean)


def _epilog(keys: Sequence[Key], prefix: str) -> str:
    example = max(keys, key=lambda key: key.path.count("."))
    words = (
        f"Flags win over the environment, the environment over the file. {prefix}{example.variable} is the variable of"
        f" {example.path}; lists are separated by commas. Paths are relative to the working directory."
    )
    return "\n".join(textwrap.wrap(words, _WIDTH))


def _refuse(problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1
