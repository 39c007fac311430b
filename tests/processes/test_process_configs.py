"""Invalid combinations in the configs of processes, and the configs for a developer's machine."""

import re
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.processes.access_gateway import AccessGatewayConfig
from gpuruntime.processes.config.keys import layout
from gpuruntime.processes.config.load import ConfigError, load_config
from gpuruntime.processes.controller_manager import ControllerManagerConfig
from gpuruntime.processes.manager import ManagerConfig
from gpuruntime.processes.runtime_api import RuntimeApiConfig

KEY = "A" * 43 + "="
LOCAL = Path(__file__).resolve().parents[2] / "hack" / "dev" / "local"
ALL = [
    ("controller-manager.yaml", ControllerManagerConfig),
    ("runtime-api.yaml", RuntimeApiConfig),
    ("access-gateway.yaml", AccessGatewayConfig),
]


def problems(kind: type, text: str, tmp_path: Path) -> list[str]:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_config(kind, file, {}, "NONE_")
    return [problem.removeprefix(f"{file}: ") for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("leaderElection: {renewDeadline: 15s}", r"leaderElection.renewDeadline: .*leaseDuration \(15s\), got 15s"),
        ("leaderElection: {retryPeriod: 9s}", r"leaderElection.retryPeriod: .*renewDeadline \(10s\) .*got 9s"),
        ("leaderElection: {leaseDuration: 15.5s}", "leaderElection.leaseDuration: .*got 15500ms"),
        ("namespaces: {instance: [a], stock: [a]}", "namespaces.stock: .* a .*namespaces.instance"),
        ("namespaces: {instance: []}", "namespaces.instance: .*got none"),
        ("namespaces: {stock: [a, a]}", "namespaces.stock: .*got a, a"),
        ("accessor: {image: a}", "accessor.image: .*accessor.publicKeys"),
        (f"accessor: {{publicKeys: [{KEY}]}}", "accessor.publicKeys: .*accessor.image"),
        (f"accessor: {{image: a, publicKeys: [{KEY}, {KEY}, {KEY}]}}", "accessor.publicKeys: .*at most 2, got 3"),
    ],
)
@pytest.mark.parametrize("kind", [ManagerConfig, ControllerManagerConfig])
def test_an_invalid_combination_is_rejected_by_both_processes_that_reconcile(
    kind: type, text: str, named: str, tmp_path: Path
) -> None:
    [problem] = problems(kind, text, tmp_path)

    assert re.match(named, problem)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tls: {certFile: a}", "tls.certFile: .*tls.keyFile"),
        ("tls: {keyFile: a}", "tls.keyFile: .*tls.certFile"),
        ("connections: {total: 3, perAddress: 4}", r"connections.perAddress: .*connections.total \(3\), got 4"),
        ("auth: {grants: ['user:a=read']}", "auth.grants: .*auth.tokenReview: true"),
        (
            "auth: {tokenReview: true, grants: ['user:a=read', 'user:a=write']}",
            "auth.grants: .*'user:a=write': .*user a",
        ),
        ("{kubeMode: off, kubeconfig: k}", "kubeconfig: .*kubeMode: off"),
        ("{kubeMode: off, auth: {tokenReview: true}}", "auth.tokenReview: .*kubeMode: off"),
    ],
)
@pytest.mark.parametrize("kind", [ManagerConfig, RuntimeApiConfig])
def test_an_invalid_combination_is_rejected_by_both_processes_that_serve_the_api(
    kind: type, text: str, named: str, tmp_path: Path
) -> None:
    [problem] = problems(kind, text, tmp_path)

    assert re.match(named, problem)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("drainDelay: 30s", r"drainDelay: .*shutdownGrace \(30s\), got 30s"),
        ("httpAddr: 127.0.0.1:8082", "metricsBindAddress: .*httpAddr"),
    ],
)
def test_an_invalid_combination_is_rejected_by_a_process_with_two_addresses(
    text: str, named: str, tmp_path: Path
) -> None:
    [problem] = problems(RuntimeApiConfig, text, tmp_path)

    assert re.match(named, problem)


@pytest.mark.parametrize("missing", ["kubeconfig", "signingKeyFile"])
def test_the_access_gateway_in_the_manager_needs_an_account_and_a_key_of_its_own(missing: str, tmp_path: Path) -> None:
    given = {"httpAddr": "127.0.0.1:8090", "kubeconfig": "k", "signingKeyFile": "s"}
    text = ", ".join(f"{name}: '{value}'" for name, value in given.items() if name != missing)

    [problem] = problems(ManagerConfig, f"accessGateway: {{{text}}}", tmp_path)

    assert f"expected accessGateway.{missing}" in problem


def test_an_invalid_grant_is_reported_with_its_index(tmp_path: Path) -> None:
    [problem] = problems(RuntimeApiConfig, "auth: {tokenReview: true, grants: ['user:a=read', alice]}", tmp_path)

    assert "auth.grants[1]: " in problem


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
