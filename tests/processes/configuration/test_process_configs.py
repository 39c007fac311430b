"""What makes no sense in the configs of our processes, and the configs that come with the repository."""

from pathlib import Path
from typing import Any

import pytest

from gpuruntime.processes.configuration.controller_manager import ControllerManagerConfig
from gpuruntime.processes.configuration.keys import layout
from gpuruntime.processes.configuration.reading import ConfigError, read_config
from gpuruntime.processes.configuration.runtime_api import RuntimeApiConfig

LOCAL = Path(__file__).resolve().parents[3] / "hack" / "dev" / "local"
ALL = [("controller-manager.yaml", ControllerManagerConfig), ("runtime-api.yaml", RuntimeApiConfig)]


def problems(kind: type, text: str, tmp_path: Path) -> list[str]:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_config(kind, file, {}, "NONE_")
    return [problem.removeprefix(f"{file}: ") for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "leaderElection: {renewDeadline: 15s}",
            "leaderElection.renewDeadline: expected less than leaseDuration (15s), got 15s",
        ),
        (
            "leaderElection: {retryPeriod: 9s}",
            "leaderElection.retryPeriod: expected less than renewDeadline (10s) / 1.2, got 9s",
        ),
        (
            "leaderElection: {leaseDuration: 15.5s}",
            "leaderElection.leaseDuration: expected whole seconds, got 15500ms",
        ),
        (
            "namespaces: {instance: [a], stock: [a]}",
            "namespaces.stock: namespace a is for active units and for stock: expected one of the two",
        ),
        (
            "namespaces: {instance: []}",
            "namespaces.instance: expected at least one namespace, got none; leave the key out for the usual one",
        ),
        ("namespaces: {stock: [a, a]}", "namespaces.stock: expected each namespace once, got a, a"),
    ],
)
def test_a_controller_manager_is_refused_what_makes_no_sense(text: str, problem: str, tmp_path: Path) -> None:
    assert problems(ControllerManagerConfig, text, tmp_path) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tls: {certFile: a}", "tls.keyFile: expected certFile and keyFile, or neither, got one"),
        (
            "auth: {grants: ['user:a=read']}",
            "auth.grants: expected tokenReview: true with it, which tells who callers are",
        ),
        (
            "auth: {tokenReview: true, grants: ['user:a=read', 'user:a=write']}",
            "auth.grants: grant 'user:a=write': user a has one already, expected one each",
        ),
        ("drainDelay: 30s", "drainDelay: expected less than shutdownGrace (30s), got 30s"),
        (
            "{kubeMode: off, kubeconfig: k}",
            "kubeconfig: expected none with kubeMode: off, which uses no cluster",
        ),
        (
            "{kubeMode: off, auth: {tokenReview: true}}",
            "auth.tokenReview: expected false with kubeMode: off, which uses no cluster",
        ),
        ("httpAddr: 127.0.0.1:8082", "operationsAddr: expected another address than httpAddr, got the same"),
    ],
)
def test_a_runtime_api_is_refused_what_makes_no_sense(text: str, problem: str, tmp_path: Path) -> None:
    assert problems(RuntimeApiConfig, text, tmp_path) == [problem]


def test_the_place_of_a_grant_that_is_none_is_told(tmp_path: Path) -> None:
    [problem] = problems(RuntimeApiConfig, "auth: {tokenReview: true, grants: ['user:a=read', alice]}", tmp_path)

    assert "auth.grants[1]: expected user:NAME=SCOPE or group:NAME=SCOPE" in problem


@pytest.mark.parametrize(("name", "kind"), ALL)
def test_the_config_for_a_developers_machine_is_read_and_listens_on_it_alone(name: str, kind: type) -> None:
    config: Any = read_config(kind, LOCAL / name, {}, "NONE_").config

    assert config.operations_addr.is_loopback
    assert config.shutdown_grace == 10.0


@pytest.mark.parametrize(("name", "kind"), ALL)
def test_the_config_for_a_developers_machine_shows_every_key(name: str, kind: type) -> None:
    text = (LOCAL / name).read_text()

    names = {key.path.rpartition(".")[2] for key in layout(kind).every_key()}

    assert {name for name in names if f"{name}:" not in text} == set()
