"""The objects of an overlay refer to each other consistently."""

import os
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime import __version__
from gpuruntime.processes.command import main
from gpuruntime.processes.config.notations import DURATION
from tests.manifests.rendered import MANIFESTS, WORKLOADS, Rendered, rendered

PROCESSES = ("controller-manager", "runtime-api")
SYSTEM = "gpuruntime-system"


@pytest.fixture(params=WORKLOADS)
def overlay(request: pytest.FixtureRequest) -> Rendered:
    return rendered(MANIFESTS / "overlays" / request.param)


def template(overlay: Rendered, process: str) -> dict[str, Any]:
    found: dict[str, Any] = overlay.named("Deployment", f"gpuruntime-{process}")["spec"]["template"]
    return found


def effective(overlay: Rendered, process: str, directory: Path) -> dict[str, Any]:
    """The config of a process, parsed by the process's own loader."""
    file = directory / "config.yaml"
    file.write_text(overlay.config(process))
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main([process, "--config", str(file), "--print-config"])
    assert (code, err.getvalue()) == (0, "")
    found: dict[str, Any] = yaml.safe_load(out.getvalue())
    return found


def ports(pod: dict[str, Any]) -> dict[str, int]:
    (container,) = pod["spec"]["containers"]
    return {port["name"]: port["containerPort"] for port in container["ports"]}


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_accepts_its_config_and_its_pod_matches(overlay: Rendered, process: str, tmp_path: Path) -> None:
    pod = template(overlay, process)

    config = effective(overlay, process, tmp_path)

    (container,) = pod["spec"]["containers"]
    assert container["args"] == [process, "--config", "/etc/gpuruntime/config.yaml"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/etc/gpuruntime"]
    assert pod["spec"]["enableServiceLinks"] is False
    assert config["metricsBindAddress"].rpartition(":")[2] == str(ports(pod)["metrics"])
    assert pod["spec"]["terminationGracePeriodSeconds"] > DURATION.read(config["shutdownGrace"])
    if process == "runtime-api":
        assert config["httpAddr"].rpartition(":")[2] == str(ports(pod)["http"])
        assert config["auth"]["tokenReview"] is True


def test_a_rolling_update_starts_the_next_api_before_one_stops_and_each_serves_on_while_proxies_notice(
    overlay: Rendered, tmp_path: Path
) -> None:
    deployment = overlay.named("Deployment", "gpuruntime-runtime-api")["spec"]

    config = effective(overlay, "runtime-api", tmp_path)

    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert DURATION.read(config["drainDelay"]) >= 5


@pytest.mark.parametrize("process", PROCESSES)
def test_each_probe_uses_its_own_endpoint_on_the_right_port(overlay: Rendered, process: str) -> None:
    (container,) = template(overlay, process)["spec"]["containers"]

    probes = {name: container[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}

    assert {probe["httpGet"]["port"] for probe in probes.values()} == {"metrics"}
    assert {name: probe["httpGet"]["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "readiness": "/readyz",
        "liveness": "/livez",
    }


@pytest.mark.parametrize("process", PROCESSES)
def test_a_pod_has_its_own_service_account_no_privileges_and_a_memory_limit(overlay: Rendered, process: str) -> None:
    pod = template(overlay, process)

    (container,) = pod["spec"]["containers"]

    account = overlay.named("ServiceAccount", pod["spec"]["serviceAccountName"])
    assert account["metadata"]["name"] == f"gpuruntime-{process}"
    assert overlay.named("PriorityClass", pod["spec"]["priorityClassName"])["value"] > 100_000
    assert pod["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


def test_every_selector_matches_pods_and_every_port_exists(overlay: Rendered) -> None:
    selected = []
    for service in overlay.of("Service"):
        wanted = [port["targetPort"] for port in service["spec"]["ports"]]
        selected.append((service, service["spec"]["selector"], wanted))
    for policy in overlay.of("NetworkPolicy"):
        if policy["metadata"]["namespace"] == SYSTEM:
            rules = policy["spec"].get("ingress", [])
            wanted = [port["port"] for rule in rules for port in rule["ports"]]
            selected.append((policy, policy["spec"]["podSelector"]["matchLabels"], wanted))
    budgets = overlay.of("PodDisruptionBudget")
    selected += [(budget, budget["spec"]["selector"]["matchLabels"], []) for budget in budgets]

    for item, labels, wanted in selected:
        pods = overlay.pods(item["metadata"]["namespace"], labels)
        assert pods, item
        assert all(port in ports(pod) for pod in pods for port in wanted), item

    assert len(selected) >= 5


@pytest.mark.parametrize("process", PROCESSES)
def test_topology_spread_selectors_match_the_replicas(overlay: Rendered, process: str) -> None:
    pod = template(overlay, process)

    (by_node,) = pod["spec"]["topologySpreadConstraints"]
    (by_zone,) = pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]

    terms = [by_node, by_zone["podAffinityTerm"]]
    assert [term["topologyKey"] for term in terms] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(overlay.pods(SYSTEM, term["labelSelector"]["matchLabels"]) == [pod] for term in terms)


def test_the_lease_in_the_role_is_the_one_that_the_process_uses(overlay: Rendered, tmp_path: Path) -> None:
    config = effective(overlay, "controller-manager", tmp_path)

    named = {
        name
        for role in overlay.of("Role")
        for rule in role["rules"]
        if "leases" in rule["resources"]
        for name in rule.get("resourceNames", ())
    }

    assert named == {config["leaderElection"]["leaseName"]}


def test_production_survives_the_loss_of_a_node_and_is_scraped() -> None:
    overlay = rendered(MANIFESTS / "overlays" / "production")

    replicas = {item["metadata"]["name"]: item["spec"]["replicas"] for item in overlay.of("Deployment")}
    rollouts = [item["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] for item in overlay.of("Deployment")]
    scraped = [
        port["name"]
        for monitor in overlay.of("ServiceMonitor")
        for service in overlay.of("Service")
        for port in service["spec"]["ports"]
        if monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        and port["name"] == monitor["spec"]["endpoints"][0]["port"]
    ]

    assert replicas == {"gpuruntime-controller-manager": 2, "gpuruntime-runtime-api": 3}
    assert rollouts == [0, 0]
    assert {budget["metadata"]["name"] for budget in overlay.of("PodDisruptionBudget")} == set(replicas)
    assert scraped == ["metrics", "metrics"]


def test_production_runs_the_version_of_this_repository() -> None:
    overlay = rendered(MANIFESTS / "overlays" / "production")

    images = {template(overlay, process)["spec"]["containers"][0]["image"] for process in PROCESSES}

    assert images == {f"ghcr.io/lokiwager/gpuruntime:v{__version__}"}


def test_every_object_has_the_product_labels_and_none_is_in_the_default_namespace(overlay: Rendered) -> None:
    generated = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "CustomResourceDefinition"}

    unlabelled = [
        item["metadata"]["name"]
        for item in overlay.objects
        if item["kind"] not in generated
        and item["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") != "gpuruntime"
    ]
    everywhere = {
        *("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    astray = [
        item["metadata"]["name"]
        for item in overlay.objects
        if item["kind"] not in everywhere
        and item["metadata"].get("namespace") not in {SYSTEM, "runtime-instance", "runtime-stock"}
    ]

    assert unlabelled == []
    assert astray == []


def test_the_certificate_is_mounted_where_the_process_reads_it(tmp_path: Path) -> None:
    component = tmp_path / "kustomization.yaml"
    base = os.path.relpath(MANIFESTS, tmp_path)  # kustomize accepts no other form
    component.write_text(yaml.safe_dump({"resources": [f"{base}/overlays/dev"], "components": [f"{base}/tls"]}))

    (container,) = template(rendered(tmp_path), "runtime-api")["spec"]["containers"]

    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    files = {variable["name"]: Path(variable["value"]) for variable in container["env"]}
    assert {str(file.parent) for file in files.values()} <= mounted
    assert all(re.fullmatch(r"GPURUNTIME_RUNTIME_API_TLS_(CERT|KEY)_FILE", name) for name in files)
