"""The access gateway in an overlay, and the network policies around it and the accessors."""

import os
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec
from gpuruntime.desired.storage.accessor import ACCESSOR_PORT, AccessorRendering, accessor_deployment
from gpuruntime.meta import ObjectMeta, encode
from gpuruntime.processes.command import main
from gpuruntime.processes.config.notations import DURATION
from tests.manifests.rendered import MANIFESTS, Rendered, rendered

NAME = "gpuruntime-access-gateway"


@pytest.fixture
def overlay(tmp_path: Path) -> Rendered:
    """The overlay dev with the gateway."""
    base = os.path.relpath(MANIFESTS, tmp_path)  # kustomize accepts no other form
    resources = [f"{base}/overlays/dev", f"{base}/access-gateway"]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": resources}))
    return rendered(tmp_path)


def test_the_gateway_accepts_its_config_and_its_pod_matches(overlay: Rendered, tmp_path: Path) -> None:
    pod = overlay.named("Deployment", NAME)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    file = tmp_path / "config.yaml"
    file.write_text(overlay.config("access-gateway"))

    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["access-gateway", "--config", str(file), "--print-config"])

    assert (code, err.getvalue()) == (0, "")
    config: dict[str, Any] = yaml.safe_load(out.getvalue())
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert ports == {
        "http": config["httpAddr"].rpartition(":")[2],
        "metrics": config["metricsBindAddress"].rpartition(":")[2],
    }
    assert str(Path(config["signingKeyFile"]).parent) in mounted
    assert pod["terminationGracePeriodSeconds"] > DURATION.read(config["shutdownGrace"])
    assert pod["serviceAccountName"] == overlay.named("ServiceAccount", NAME)["metadata"]["name"]
    assert (container["args"][0], config["auth"]["tokenReview"]) == ("access-gateway", True)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_services_budget_and_policy_select_the_gateway(overlay: Rendered) -> None:
    services = [overlay.named("Service", name) for name in (NAME, f"{NAME}-metrics")]
    selectors = [
        *(service["spec"]["selector"] for service in services),
        overlay.named("PodDisruptionBudget", NAME)["spec"]["selector"]["matchLabels"],
        overlay.named("NetworkPolicy", NAME)["spec"]["podSelector"]["matchLabels"],
    ]

    pods = [overlay.pods("gpuruntime-system", labels) for labels in selectors]

    assert pods == [[overlay.named("Deployment", NAME)["spec"]["template"]]] * 4


def test_accessors_are_reachable_from_the_gateway_only_and_reach_nothing(overlay: Rendered) -> None:
    storage = GPUStorage(metadata=ObjectMeta(name="data", namespace="runtime-instance"), spec=GPUStorageSpec("1Gi"))
    template = encode(accessor_deployment(storage, AccessorRendering("image", ("key",))))["spec"]["template"]
    policies = [
        policy["spec"]
        for policy in overlay.of("NetworkPolicy")
        if policy["metadata"]["namespace"] == "runtime-instance"
        and selects(policy["spec"]["podSelector"], template["metadata"]["labels"])
    ]

    (policy,) = policies
    (rule,) = policy["ingress"]
    (peer,) = rule["from"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
    assert rule["ports"] == [{"port": ACCESSOR_PORT, "protocol": "TCP"}]
    namespace = overlay.named("Namespace", "gpuruntime-system")["metadata"]["name"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": namespace}
    gateway = overlay.named("Deployment", NAME)["spec"]["template"]
    assert overlay.pods(namespace, peer["podSelector"]["matchLabels"]) == [gateway]


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a selector of a policy matches, as far as ours have terms."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    for term in selector.get("matchExpressions", ()):
        assert term["operator"] in {"Exists", "DoesNotExist"}
        if (term["key"] in labels) != (term["operator"] == "Exists"):
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())
