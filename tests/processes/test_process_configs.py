"""Invalid combinations in the configs of processes, and the configs for a developer's machine."""

from pathlib import Path
from typing import Any

import pytest

from gpuruntime.processes.config.keys import layout
from gpuruntime.processes.config.load import ConfigError, load_config
from gpuruntime.processes.controller_manager import ControllerManagerConfig
from gpuruntime.processes.manager import ManagerConfig
from gpuruntime.processes.runtime_api import RuntimeApiConfig

LOCAL = Path(__file__).resolve().parents[2] / "hack" / "dev" / "local"
ALL = [("controller-manager.yaml", ControllerManagerConfig), ("runtime-api.yaml", RuntimeApiConfig)]


def problems(kind: type, text: str, tmp_path: Path) -> list[str]:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_config(kind, file, {}, "NONE_")
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
            "namespaces.stock: namespace a is in namespaces.instance too: expected it in one of the two",
        ),
        (
            "namespaces: {instance: []}",
            "namespaces.instance: expected at least one namespace, got none; leave the key out for the default",
        ),
        ("namespaces: {stock: [a, a]}", "namespaces.stock: expected each namespace once, got a, a"),
    ],
)
@pytest.mark.parametrize("kind", [ManagerConfig, ControllerManagerConfig])
def test_an_invalid_combination_is_rejected_by_both_processes_that_reconcile(
    kind: type, text: str, problem: str, tmp_path: Path
) -> None:
    assert problems(kind, text, tmp_path) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tls: {certFile: a}", "tls.certFile: expected tls.keyFile with it: HTTPS needs a certificate and its key"),
        ("tls: {keyFile: a}", "tls.keyFile: expected tls.certFile with it: HTTPS needs a certificate and its key"),
        (
            "connections: {total: 3, perAddress: 4}",
            "connections.perAddress: expected at most connections.total (3), got 4",
        ),
        (
            "auth: {grants: ['user:a=read']}",
            "auth.grants: expected auth.tokenReview: true with it, which authenticates callers",
        ),
        (
            "auth: {tokenReview: true, grants: ['user:a=read', 'user:a=write']}",
            "auth.grants: grant 'user:a=write': expected one grant for user a, got two",
        ),
        (
            "{kubeMode: off, kubeconfig: k}",
            "kubeconfig: expected none with kubeMode: off, which uses no cluster",
        ),
        (
            "{kubeMode: off, auth: {tokenReview: true}}",
            "auth.tokenReview: expected false with kubeMode: off, which uses no cluster",
        ),
    ],
)
@pytest.mark.parametrize("kind", [ManagerConfig, RuntimeApiConfig])
def test_an_invalid_combination_is_rejected_by_both_processes_that_serve_the_api(
    kind: type, text: str, problem: str, tmp_path: Path
) -> None:
    assert problems(kind, text, tmp_path) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("drainDelay: 30s", "drainDelay: expected less than shutdownGrace (30s), got 30s"),
        ("httpAddr: 127.0.0.1:8082", "metricsBindAddress: expected another address than httpAddr, got the same"),
    ],
)
def test_an_invalid_combination_is_rejected_by_a_process_with_two_addresses(
    text: str, problem: str, tmp_path: Path
) -> None:
    assert problems(RuntimeApiConfig, text, tmp_path) == [problem]


def test_an_invalid_grant_is_reported_with_its_index(tmp_path: Path) -> None:
    [problem] = problems(RuntimeApiConfig, "auth: {tokenReview: true, grants: ['user:a=read', alice]}", tmp_path)

    assert "auth.grants[1]: expected user:NAME=SCOPE or group:NAME=SCOPE" in problem


@pytest.mark.parametrize(("name", "kind"), ALL)
def test_the_config_for_a_developers_machine_is_valid_and_listens_on_loopback_only(name: str, kind: type) -> None:
    config: Any = load_config(kind, LOCAL / name, {}, "NONE_").config

    assert config.metrics_bind_address.is_loopback
    assert config.shutdown_grace == 10.0


@pytest.mark.parametrize(("name", "kind"), ALL)
def test_the_config_for_a_developers_machine_shows_every_key(name: str, kind: type) -> None:
    text = (LOCAL / name).read_text()

    names = {key.path.rpartition(".")[2] for key in layout(kind).every_key()}

    assert {name for name in names if f"{name}:" not in text} == set()
