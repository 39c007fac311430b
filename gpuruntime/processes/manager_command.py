"""`gpuruntime manager`: everything in one process."""

import argparse
from typing import Final

from gpuruntime.control.operations.http_site import ListenError
from gpuruntime.kube.errors import CredentialsError
from gpuruntime.processes.cluster_access import NoClusterError
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.manager import run_manager
from gpuruntime.processes.options import SettingsError, add_manager, settings_of
from gpuruntime.processes.running import refused, run_process
from gpuruntime.web.authentication import UnguardedAddressError
from gpuruntime.web.authentication_tokens import TokenFileError
from gpuruntime.web.serving_certificate import CertificateError

__all__ = ["add", "run"]

_MISTAKES: Final = (
    SettingsError,
    CredentialsError,
    NoClusterError,
    UnguardedAddressError,
    TokenFileError,
    CertificateError,
    ListenError,
)


def add(parser: argparse.ArgumentParser) -> None:
    """Say what the command is, and what flags it has."""
    add_manager(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal comes; 1 if that cannot be."""
    try:
        settings = settings_of(arguments)
        configure_logging()
        run_process(run_manager(settings))
    except _MISTAKES as error:
        return refused(error)
    return 0
