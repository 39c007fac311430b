"""`gpuruntime manager`: everything in one process."""

import argparse
from typing import Final

from gpuruntime.control import ListenError
from gpuruntime.kube import CredentialsError
from gpuruntime.processes.cluster_access import NoClusterError
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.manager import run_manager
from gpuruntime.processes.options import SettingsError, add_manager, settings_of
from gpuruntime.processes.running import refused, run_process
from gpuruntime.web.auth.access_control import UnguardedAddressError
from gpuruntime.web.auth.certificate import CertificateError
from gpuruntime.web.auth.token_file import TokenFileError

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
