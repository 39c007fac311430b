"""The all-in-one process and the one of the reconcilers, on a real API server: one of them reconciles."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpuruntime.testing import ClusterAccess
from tests.ports import free_address
from tests.product_scenes import product, stock_namespace

__all__ = ["product", "stock_namespace"]

_COMMAND: Final = (sys.executable, "-m", "gpuruntime.processes.command")
_LEADS: Final = "leader_election_master_status{"


def leads(url: str) -> bool | None:
    """Whether a process says that it leads; None if it does not say anything yet."""
    try:
        with (
            urllib.request.urlopen(f"{url}/readyz"),  # noqa: S310 - an http address
            urllib.request.urlopen(f"{url}/metrics") as answer,  # noqa: S310 - an http address
        ):
            lines = answer.read().decode().splitlines()
    except OSError:
        return None
    return any(line.startswith(_LEADS) and line.endswith(" 1.0") for line in lines)


@contextmanager
def running(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([*_COMMAND, *command], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_a_controller_manager_stands_by_while_a_manager_leads_and_takes_over(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str, tmp_path: Path
) -> None:
    whole, apart = free_address(), free_address()
    config = tmp_path / "controller-manager.yaml"
    namespaces = {"instance": [kube_namespace], "stock": [stock_namespace], "system": kube_namespace}
    config.write_text(
        json.dumps({"kubeconfig": str(product.kubeconfig), "namespaces": namespaces, "metricsBindAddress": apart})
    )
    flags = ["--http-addr", whole, "--kubeconfig", str(product.kubeconfig), "--system-namespace", kube_namespace]
    flags += ["--instance-namespace", kube_namespace, "--stock-namespace", stock_namespace]

    with running("manager", *flags) as manager:
        # Only the pages of a process say that it leads, or is ready.
        while not leads(f"http://{whole}"):
            time.sleep(0.1)
        with running("controller-manager", "--config", str(config)):
            while leads(f"http://{apart}") is None:
                time.sleep(0.1)
            both = (leads(f"http://{whole}"), leads(f"http://{apart}"))
            manager.terminate()
            assert manager.wait() == 0
            while not leads(f"http://{apart}"):
                time.sleep(0.1)

    leases = product.admin().get(f"/apis/coordination.k8s.io/v1/namespaces/{kube_namespace}/leases")["items"]
    assert both == (True, False)
    assert {lease["metadata"]["name"]: lease["spec"]["leaseTransitions"] for lease in leases} == {
        "gpuruntime-controller-manager": 1
    }
