"""`gpuruntime controller-manager`: the reconcilers in a process of their own."""

import argparse
from typing import Final

from gpuruntime.control import ListenError
from gpuruntime.processes.configuration.controller_manager import ControllerManagerConfig
from gpuruntime.processes.configured_command import add_config, run_configured
from gpuruntime.processes.controller_manager import run_controller_manager

__all__ = ["PREFIX", "add", "run"]

PREFIX: Final = "GPURUNTIME_CONTROLLER_MANAGER_"


def add(parser: argparse.ArgumentParser) -> None:
    """Say what the command is, and what flags it has."""
    description = "Run the reconcilers until SIGTERM or Ctrl-C. Of several replicas one leads, and the others wait."
    add_config(parser, ControllerManagerConfig, PREFIX, description)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal comes; 1 if that cannot be."""
    return run_configured(arguments, ControllerManagerConfig, PREFIX, run_controller_manager, ListenError)
