import argparse
from pathlib import Path
from typing import NoReturn

import pytest

from gpuruntime.control.serving.site import HttpAddress
from gpuruntime.processes.api import AccessSettings
from gpuruntime.processes.cluster_access import KubeMode
from gpuruntime.processes.options import ManagerSettings, SettingsError, add_manager, settings_of
from gpuruntime.processes.places import Places


class Strict(argparse.ArgumentParser):
    """Raises what it would tell the user."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def settings(*flags: str) -> ManagerSettings:
    parser: argparse.ArgumentParser = Strict()
    add_manager(parser)
    return settings_of(parser.parse_args(list(flags)))


def test_without_flags_it_is_the_development_server_of_this_machine() -> None:
    assert settings() == ManagerSettings(AccessSettings(HttpAddress("127.0.0.1", 8080)), KubeMode.AUTO)


def test_every_flag_reaches_the_settings() -> None:
    found = settings(
        *("--kube-mode", "required", "--kubeconfig", "k", "--report-interval", "1m", "--keep-operations", "2h"),
        *("--instance-namespace", "a", "--instance-namespace", "b", "--stock-namespace", "s"),
        *("--system-namespace", "c", "--token-file", "t", "--token-review", "--grant", "user:alice=read"),
        *("--tls-cert", "crt", "--tls-key", "key", "--allow-unauthenticated"),
    )

    assert (found.kube_mode, found.kubeconfig, found.report_seconds) == (KubeMode.REQUIRED, Path("k"), 60.0)
    assert (found.places, found.keep_operations) == (Places(("a", "b"), ("s",), "c"), 7200.0)
    access = found.access
    assert (access.token_file, access.token_review, list(access.grants.users)) == (Path("t"), True, ["alice"])
    assert (access.tls, access.allow_unauthenticated) == ((Path("crt"), Path("key")), True)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--stock-namespace", "x", "--instance-namespace", "x"), "x is for active units and for stock"),
        (("--tls-cert", "crt"), "expected both or neither"),
        (("--grant", "user:alice=read"), "expected --token-review with it"),
        (("--token-review", "--grant", "alice"), "expected user:NAME=SCOPE"),
        (("--kube-mode", "off", "--token-review"), "--kube-mode off uses no cluster"),
        (("--kube-mode", "off", "--kubeconfig", "k"), "--kube-mode off uses no cluster"),
    ],
)
def test_flags_that_make_no_sense_together_are_refused(flags: tuple[str, ...], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings(*flags)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--report-interval", "0"), "expected a duration of at least 5s such as 30s or 5m, got '0'"),
        (("--report-interval", "4.9s"), "expected a duration of at least 5s such as 30s or 5m, got '4.9s'"),
        (("--keep-operations", "59s"), "expected a duration of at least 60s|1m such as 30s or 5m, got '59s'"),
        (("--kube-mode", "maybe"), "expected one of auto, off, required, got 'maybe'"),
        (("--stock-namespace", "A"), "expected the name of a namespace, got 'A'"),
    ],
)
def test_a_flag_with_a_value_that_nobody_takes_is_refused(flags: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings(*flags)
