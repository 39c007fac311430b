"""`gpuruntime runtime-api`: the API in a process of its own."""

import argparse
from typing import Final

from gpuruntime.control import ListenError
from gpuruntime.kube import CredentialsError
from gpuruntime.processes.cluster_access import NoClusterError
from gpuruntime.processes.configuration.runtime_api import RuntimeApiConfig
from gpuruntime.processes.configured_command import add_config, run_configured
from gpuruntime.processes.runtime_api import run_runtime_api
from gpuruntime.web.auth.access_control import UnguardedAddressError
from gpuruntime.web.auth.certificate import CertificateError
from gpuruntime.web.auth.token_file import TokenFileError

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
    return run_configured(arguments, RuntimeApiConfig, PREFIX, run_runtime_api, *_MISTAKES)
