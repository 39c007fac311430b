"""The image, built from its Dockerfile, runs the pods of the overlay `dev` on a real control plane."""

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuruntime import __version__
from gpuruntime.testing import ClusterAccess, LocalCluster
from tests.image.containers import Container, Image, build, why_not
from tests.image.dockerfile import ROOT, read_dockerfile
from tests.manifests.rendered import MANIFESTS, rendered
from tests.ports import free_port

SYSTEM = "gpuruntime-system"
DEV = MANIFESTS / "overlays" / "dev"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def image(tmp_path: Path) -> Image:
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no container without an engine here: {reason}")
    return build(read_dockerfile((ROOT / "Dockerfile").read_text()), tmp_path / "image")


def test_its_pods_serve_and_reconcile_unprivileged_with_a_read_only_root(image: Image, tmp_path: Path) -> None:
    seed = {"operationID": "seed", "specName": "g1.1", "gpu": 1, "replicas": 1}
    large = {"operationID": "large", "name": "large", "specName": "g9", "cpu": "161", "coldStart": True}
    with image.run("--version", environment={}, files={}, log=tmp_path / "log") as container:
        assert container.process.wait() == 0
    with LocalCluster(tmp_path / "cluster") as cluster:
        access = cluster.access
        access.kubectl("apply", "--kustomize", str(DEV))
        developer = ("create", "token", "gpuruntime-developer", "--namespace", SYSTEM, "--audience", "gpuruntime")
        token = access.kubectl(*developer).strip()
        with (
            pod(image, access, "controller-manager", tmp_path) as (controller, _),
            pod(image, access, "runtime-api", tmp_path) as (api, url),
        ):
            statuses = [
                post(f"{url}/api/v1/operator/stock-units", "", seed),
                post(f"{url}/api/v1/operator/stock-units", token, seed),
                post(f"{url}/api/v1/gpu-units", token, {**large, "image": "nginx"}),
            ]
            wait = ("wait", "--timeout=60s")
            stock_unit = ("gpuunits.runtime.lokiwager.io/stock-g1-1-19b25856e1-001", "--namespace=runtime-stock")
            access.kubectl(*wait, *stock_unit, "--for=create")
            access.kubectl(*wait, *stock_unit, "--for=condition=Ready")
            refused = "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=QuotaExceeded"
            access.kubectl(*wait, "gpuunits.runtime.lokiwager.io/large", "--namespace=runtime-instance", refused)
            (stock,) = json.loads(access.kubectl("get", "pods", "--namespace=runtime-stock", "--output=json"))["items"]

            ended = [stop(api), stop(controller)]

    assert container.words() == f"gpuruntime {__version__}\n"
    assert not list(image.files.glob("opt/gpuruntime/bin/pip*"))
    assert statuses == [401, 202, 201]
    assert stock["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "100m",
        "memory": "128Mi",
        "nvidia.com/gpu": "1",
    }
    assert ended == [0, 0]


@contextmanager
def pod(image: Image, access: ClusterAccess, process: str, directory: Path) -> Iterator[tuple[Container, str]]:
    """The container of a pod, set up as by a kubelet; ready, with the address of its API if it has one."""
    token = access.kubectl("create", "token", f"gpuruntime-{process}", "--namespace", SYSTEM).strip()
    files = {
        "/etc/gpuruntime/config.yaml": rendered(DEV).config(process),
        f"{ACCOUNT}/token": token,
        f"{ACCOUNT}/ca.crt": access.authority.read_text(),
        f"{ACCOUNT}/namespace": SYSTEM,
    }
    host, _, port = access.server.removeprefix("https://").partition(":")
    prefix = f"GPURUNTIME_{process.replace('-', '_').upper()}"
    metrics, served = free_port(), free_port()
    environment = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        # A pod has its own IP address, this process does not.
        f"{prefix}_METRICS_BIND_ADDRESS": f"127.0.0.1:{metrics}",
    }
    if process == "runtime-api":
        environment[f"{prefix}_HTTP_ADDR"] = f"127.0.0.1:{served}"
    (arguments,) = (
        container["args"]
        for container in rendered(DEV).named("Deployment", f"gpuruntime-{process}")["spec"]["template"]["spec"][
            "containers"
        ]
    )
    log = directory / f"{process}.log"
    with image.run(*arguments, environment=environment, files=files, log=log) as container:
        while status(f"http://127.0.0.1:{metrics}/readyz") != 200:  # a starting server has no event to await
            assert container.process.poll() is None, container.words()
            time.sleep(0.2)
        assert status(f"http://127.0.0.1:{metrics}/livez") == 200
        assert Path(f"/proc/{container.process.pid}").stat().st_uid == image.dockerfile.user[0]
        yield container, f"http://127.0.0.1:{served}"


def stop(container: Container) -> int:
    container.process.send_signal(signal.SIGTERM)
    return container.process.wait()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - an http address
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code
    except OSError:
        return 0


def post(url: str, token: str, body: dict[str, Any]) -> int:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - an http address
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - an http address
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code
