"""The component `functions`: configs, volumes and policies fit together, and no password is where it can be read."""

import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.api.gpufunction import GPUFunction, GPUFunctionSpec
from gpuruntime.api.invocations import ARCHIVE_AUDIENCE
from gpuruntime.api.names import FUNCTION_LABEL
from gpuruntime.desired.functions.network_policy import worker_policy
from gpuruntime.meta import ObjectMeta, encode, parse_quantity
from gpuruntime.processes.command import main
from gpuruntime.processes.config.notations import DURATION
from tests.manifests.rendered import FUNCTIONS, MANIFESTS, Rendered, rendered
from tests.manifests.test_access_gateway import selects

SYSTEM = "gpuruntime-system"
# With the files that each reads besides its config.
PROCESSES = {
    "runtime-api": 4,
    "controller-manager": 1,
    "activator": 5,
    "result-store": 4,
}
GO_MODULE = MANIFESTS.parent / "gpuruntime" / "testing" / "natsserver" / "go.mod"


@pytest.fixture(scope="module")
def overlay() -> Rendered:
    return rendered(FUNCTIONS)


def container_of(overlay: Rendered, process: str) -> dict[str, Any]:
    (container,) = overlay.named("Deployment", f"gpuruntime-{process}")["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def effective(overlay: Rendered, process: str, directory: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The config of a process, from its file and its variables, parsed by its own loader."""
    for variable in container_of(overlay, process).get("env", ()):
        patch.setenv(variable["name"], variable["value"])
    file = directory / "config.yaml"
    file.write_text(overlay.config(process))
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main([process, "--config", str(file), "--print-config"])
    assert (code, err.getvalue()) == (0, "")
    found: dict[str, Any] = yaml.safe_load(out.getvalue())
    return found


def files_of(config: Any) -> Iterator[Path]:
    """All files that a config names."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from files_of(value)
        elif name.lower().endswith("file") and value:
            yield Path(value)


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_accepts_its_config_and_every_file_of_it_is_in_a_volume(
    overlay: Rendered, process: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = container_of(overlay, process)
    pod = overlay.named("Deployment", f"gpuruntime-{process}")["spec"]["template"]["spec"]

    config = effective(overlay, process, tmp_path, monkeypatch)

    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    files = list(files_of(config))
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert len(files) == PROCESSES[process]
    assert {str(file.parent) for file in files} <= mounted
    assert config["metricsBindAddress"].rpartition(":")[2] == ports["metrics"]
    assert config.get("httpAddr", "").rpartition(":")[2] == ports.get("http", "")
    assert pod["terminationGracePeriodSeconds"] > DURATION.read(config["shutdownGrace"])


def test_addresses_are_those_of_services_and_sidecars_run_the_image_of_the_processes(
    overlay: Rendered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = effective(overlay, "runtime-api", tmp_path, monkeypatch)
    controller = effective(overlay, "controller-manager", tmp_path, monkeypatch)
    ports = {
        service["metadata"]["name"]: service["spec"]["ports"][0]["port"]
        for service in overlay.of("Service")
        if service["metadata"]["namespace"] == SYSTEM
    }

    assert api["serverless"]["nats"]["urls"] == [f"tls://gpuruntime-nats:{ports['gpuruntime-nats']}"]
    assert api["resultStore"]["url"] == f"http://gpuruntime-result-store:{ports['gpuruntime-result-store']}"
    assert controller["serverless"]["activatorURL"] == (
        f"wss://gpuruntime-activator.{SYSTEM}.svc:{ports['gpuruntime-activator']}"
    )
    images = {container_of(overlay, process)["image"] for process in PROCESSES}
    assert images == {controller["serverless"]["sidecarImage"]}


def test_the_api_has_a_token_for_the_result_store_which_grants_it_read_and_nothing_to_others(
    overlay: Rendered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = overlay.named("Deployment", "gpuruntime-runtime-api")["spec"]["template"]["spec"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "result-store-token")

    auth = effective(overlay, "result-store", tmp_path, monkeypatch)["auth"]

    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == ARCHIVE_AUDIENCE
    assert auth["tokenReview"] is True
    assert auth["grants"] == [f"user:system:serviceaccount:{SYSTEM}:{pod['serviceAccountName']}=read"]


@pytest.mark.parametrize("name", ["activator", "result-store", "nats"])
def test_services_budgets_and_policies_select_the_pods(overlay: Rendered, name: str) -> None:
    labels = {"app.kubernetes.io/name": f"gpuruntime-{name}"}
    (pod,) = overlay.pods(SYSTEM, labels)

    selectors = [
        *(
            item["spec"]["selector"]
            for item in overlay.of("Service")
            if labels.items() <= item["metadata"]["labels"].items()
        ),
        overlay.named("NetworkPolicy", f"gpuruntime-{name}")["spec"]["podSelector"]["matchLabels"],
    ]

    assert all(overlay.pods(SYSTEM, selector) == [pod] for selector in selectors)
    assert len(selectors) == (2 if name == "nats" else 3)
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "memory" in container["resources"]["limits"]


def test_nats_is_reached_by_its_three_users_and_the_result_store_by_the_api(overlay: Rendered) -> None:
    def callers(name: str) -> set[str]:
        (rule,) = overlay.named("NetworkPolicy", name)["spec"]["ingress"]
        assert all(set(peer) == {"podSelector"} for peer in rule["from"])
        return {peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for peer in rule["from"]}

    nats = overlay.named("NetworkPolicy", "gpuruntime-nats")["spec"]

    assert callers("gpuruntime-nats") == {f"gpuruntime-{name}" for name in ("runtime-api", "activator", "result-store")}
    assert callers("gpuruntime-result-store") == {"gpuruntime-runtime-api"}
    assert nats["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in nats


def test_workers_have_the_policy_of_their_function_and_activators_admit_them(overlay: Rendered) -> None:
    function = GPUFunction(metadata=ObjectMeta(name="hello", namespace="runtime-instance"), spec=GPUFunctionSpec("g1"))
    labels = {FUNCTION_LABEL: "hello", "runtime.lokiwager.io/unit": "hello-1"}
    guards = [
        policy
        for policy in overlay.of("NetworkPolicy")
        if policy["metadata"]["namespace"] == "runtime-instance" and selects(policy["spec"]["podSelector"], labels)
    ]

    made = encode(worker_policy(function, (), f"wss://gpuruntime-activator.{SYSTEM}.svc:8094", SYSTEM))

    (closed,) = guards
    assert closed["spec"] == {"podSelector": closed["spec"]["podSelector"], "policyTypes": ["Ingress", "Egress"]}
    assert selects(made["spec"]["podSelector"], labels)
    activators = [
        peer["podSelector"]["matchLabels"]
        for rule in made["spec"]["egress"]
        for peer in rule["to"]
        if "podSelector" in peer
    ]
    assert [overlay.pods(SYSTEM, selector) for selector in activators] == [
        [overlay.named("Deployment", "gpuruntime-activator")["spec"]["template"]]
    ]
    (rule,) = overlay.named("NetworkPolicy", "gpuruntime-activator")["spec"]["ingress"]
    (peer,) = rule["from"]
    instance = overlay.named("Namespace", "runtime-instance")["metadata"]["labels"]
    assert selects(peer["podSelector"], labels)
    assert not selects(peer["podSelector"], {"runtime.lokiwager.io/unit": "other"})
    assert peer["namespaceSelector"]["matchLabels"].items() <= instance.items()


def test_limits_of_stores_are_below_their_volumes(
    overlay: Rendered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def volume(name: str) -> int:
        claim = overlay.named("PersistentVolumeClaim", name)
        return parse_quantity(claim["spec"]["resources"]["requests"]["storage"]).ceil()

    template = overlay.named("StatefulSet", "gpuruntime-nats")["spec"]["template"]
    nats = overlay.mounted_config(template)["nats.conf"]
    (most,) = re.findall(r"max_file_store: (\d+)GiB", nats)
    database = effective(overlay, "result-store", tmp_path, monkeypatch)["database"]

    assert int(most) * 2**30 <= 0.85 * volume("gpuruntime-nats")
    assert database["largestMib"] * 2**20 <= 0.85 * volume("gpuruntime-result-store")
    assert f"jetstream {{ max_file: {most}GiB" in nats


def test_passwords_are_in_secrets_of_which_each_client_has_its_own(overlay: Rendered) -> None:
    texts = [text for item in overlay.of("ConfigMap") for text in item["data"].values()]
    secrets = {
        process: {
            volume["secret"]["secretName"]
            for volume in overlay.named("Deployment", f"gpuruntime-{process}")["spec"]["template"]["spec"]["volumes"]
            if volume.get("secret", {}).get("secretName", "").startswith("gpuruntime-nats-")
        }
        for process in PROCESSES
    }

    found = {value for text in texts for value in re.findall(r'"password": (\S+?),?\n', text)}

    assert found == {f"$NATS_PASSWORD_{name}" for name in ("RUNTIME_API", "ACTIVATOR", "RESULT_STORE")}
    assert overlay.of("Secret") == []
    assert secrets == {
        "controller-manager": set(),
        **{
            process: {f"gpuruntime-nats-{process}", "gpuruntime-nats-tls"}
            for process in ("runtime-api", "activator", "result-store")
        },
    }


def test_nats_is_the_version_that_the_tests_run(overlay: Rendered) -> None:
    (container,) = overlay.named("StatefulSet", "gpuruntime-nats")["spec"]["template"]["spec"]["containers"]
    (version,) = re.findall(r"nats-server/v2 v(\S+)", GO_MODULE.read_text())

    assert container["image"] == f"docker.io/library/nats:{version}"


def test_two_activators_survive_the_loss_of_a_node(overlay: Rendered) -> None:
    budget = overlay.named("PodDisruptionBudget", "gpuruntime-activator")["spec"]
    activator = overlay.named("Deployment", "gpuruntime-activator")["spec"]
    store = overlay.named("Deployment", "gpuruntime-result-store")["spec"]

    assert activator["replicas"] == 2
    assert budget["maxUnavailable"] == 1
    assert activator["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert (store["replicas"], store["strategy"]) == (1, {"type": "Recreate"})
