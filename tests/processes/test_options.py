import argparse
from pathlib import Path
from typing import NoReturn

import pytest

from gpuruntime.control.operations.http_site import HttpAddress
from gpuruntime.processes.options import (
    KubeMode,
    ManagerSettings,
    SettingsError,
    add_manager,
    duration,
    http_address,
    settings_of,
)
from gpuruntime.processes.product import Places


class Strict(argparse.ArgumentParser):
    """Raises what it would tell the user."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def settings(*flags: str) -> ManagerSettings:
    parser: argparse.ArgumentParser = Strict()
    add_manager(parser.add_subparsers())
    return settings_of(parser.parse_args(["manager", *flags]))


@pytest.mark.parametrize(
    ("text", "address", "url"),
    [
        ("127.0.0.1:8080", HttpAddress("127.0.0.1", 8080), "http://127.0.0.1:8080"),
        (":80", HttpAddress("0.0.0.0", 80), "http://0.0.0.0:80"),
        ("[::1]:0", HttpAddress("::1", 0), "http://[::1]:0"),
    ],
)
def test_addresses_are_read(text: str, address: HttpAddress, url: str) -> None:
    assert http_address(text) == address
    assert address.url == url


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:http", "host:65536", "host:-1", "host:²"])
def test_what_is_no_address_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected host:port with a port of 0 to 65535"):
        http_address(text)


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), ("30s", 30), ("1.5m", 90), ("1h", 3600), ("500ms", 0.5)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "1e3", "²s", "nan"])
def test_what_is_no_duration_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a duration such as 30s or 5m"):
        duration(text)


def test_without_flags_it_is_the_development_server_of_this_machine() -> None:
    assert settings() == ManagerSettings(HttpAddress("127.0.0.1", 8080), KubeMode.AUTO, report_seconds=30.0)


def test_every_flag_reaches_the_settings() -> None:
    found = settings(
        *("--kube-mode", "required", "--kubeconfig", "k", "--report-interval", "1m"),
        *("--instance-namespace", "a", "--instance-namespace", "b", "--stock-namespace", "s"),
        *("--system-namespace", "c", "--token-file", "t", "--token-review", "--grant", "user:alice=read"),
        *("--tls-cert", "crt", "--tls-key", "key", "--allow-unauthenticated"),
    )

    assert (found.kube_mode, found.kubeconfig, found.report_seconds) == (KubeMode.REQUIRED, Path("k"), 60.0)
    assert found.places == Places(("a", "b"), ("s",), "c")
    assert (found.token_file, found.token_review, list(found.grants.users)) == (Path("t"), True, ["alice"])
    assert (found.tls, found.allow_unauthenticated) == ((Path("crt"), Path("key")), True)


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
        (("--report-interval", "0"), "expected at least 5s, got '0'"),
        (("--report-interval", "4.9s"), "expected at least 5s, got '4.9s'"),
        (("--kube-mode", "maybe"), "expected one of auto, off, required, got 'maybe'"),
        (("--stock-namespace", "A"), "expected the name of a namespace, got 'A'"),
    ],
)
def test_a_flag_with_a_value_that_nobody_takes_is_refused(flags: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings(*flags)
