"""`gpuruntime runtime-api`: the API in a process of its own."""

import argparse
from typing import Final

from gpuruntime.control.operations.http_site import ListenError
from gpuruntime.kube.errors import CredentialsError
from gpuruntime.processes.cluster_access import NoClusterError
from gpuruntime.processes.configuration.printing import printed
from gpuruntime.processes.configuration.reading import ConfigError
from gpuruntime.processes.configuration.runtime_api import RuntimeApiConfig
from gpuruntime.processes.configured_command import add_config, effective_config
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.running import refused, run_process
from gpuruntime.processes.runtime_api import run_runtime_api
from gpuruntime.web.authentication import UnguardedAddressError
from gpuruntime.web.authentication_tokens import TokenFileError
from gpuruntime.web.serving_certificate import CertificateError

__all__ = ["PREFIX", "add", "run"]

PREFIX: Final = "GPURUNTIME_RUNTIME_API_"
_MISTAKES: Final = (
    CredentialsError,
    NoClusterError,
    UnguardedAddressError,
    TokenFileError,
    CertificateError,
    ListenError,
)


def add(parser: argparse.ArgumentParser) -> None:
    """Say what the command is, and what flags it has."""
    description = (
        "Serve the API until SIGTERM or Ctrl-C. Replicas share nothing but the cluster; /swagger/index.html tells the"
        "\nroutes."
    )
    add_config(parser, RuntimeApiConfig, PREFIX, description)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal comes; 1 if that cannot be."""
    try:
        effective = effective_config(arguments, RuntimeApiConfig, PREFIX)
        if arguments.print_config:
            print(printed(effective), end="")
            return 0
        config = effective.config
        configure_logging(level=config.logging.level_number, format=config.logging.lines)
        run_process(run_runtime_api(config))
    except ConfigError as error:
        return refused(*error.problems)
    except _MISTAKES as error:
        return refused(error)
    return 0
