"""`gpuruntime controller-manager`: the reconcilers in a process of their own."""

import argparse
from typing import Final

from gpuruntime.control.operations.http_site import ListenError
from gpuruntime.processes.configuration.controller_manager import ControllerManagerConfig
from gpuruntime.processes.configuration.printing import printed
from gpuruntime.processes.configuration.reading import ConfigError
from gpuruntime.processes.configured_command import add_config, effective_config
from gpuruntime.processes.controller_manager import run_controller_manager
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.running import refused, run_process

__all__ = ["PREFIX", "add", "run"]

PREFIX: Final = "GPURUNTIME_CONTROLLER_MANAGER_"


def add(parser: argparse.ArgumentParser) -> None:
    """Say what the command is, and what flags it has."""
    description = "Run the reconcilers until SIGTERM or Ctrl-C. Of several replicas one leads, and the others wait."
    add_config(parser, ControllerManagerConfig, PREFIX, description)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal comes; 1 if that cannot be."""
    try:
        effective = effective_config(arguments, ControllerManagerConfig, PREFIX)
        if arguments.print_config:
            print(printed(effective), end="")
            return 0
        config = effective.config
        configure_logging(level=config.logging.level_number, format=config.logging.lines)
        run_process(run_controller_manager(config))
    except ConfigError as error:
        return refused(*error.problems)
    except ListenError as error:
        return refused(error)
    return 0
