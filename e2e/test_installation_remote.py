"""The set-up of stories in another cluster: its phases, and what it does not touch."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.installation_remote import remote_installation
from e2e.names import CONTROLLERS, LEASE, RUNTIME_APIS, SYSTEM
from gpuruntime.testing import AdminClient, LocalCluster, NodeShape


def test_an_existing_installation_is_not_restarted_and_every_phase_is_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path / "cluster", nodes=(NodeShape("worker", gpus=0),)) as cluster:
        admin = cluster.access.admin()
        with led(admin):
            set_up(cluster, tmp_path / "first")
            made = pods(admin)
            capsys.readouterr()

            set_up(cluster, tmp_path / "second")

            names = [name.removeprefix("gpuruntime-").rsplit("-", 2)[0] for name in made.values()]
            assert pods(admin) == made
            assert sorted(names) == [CONTROLLERS] * 2 + [RUNTIME_APIS] * 3
    phases = [line.split(": ")[1] for line in capsys.readouterr().out.splitlines() if line.startswith("set-up: ")]
    assert phases == ["manifests", "fake nodes", "client", "rollout", "leader"]


def set_up(cluster: LocalCluster, directory: Path) -> None:
    """Set the stories up. The last step fails here: no process runs in the pods of a simulated node."""
    directory.mkdir()
    with (
        pytest.raises(AssertionError, match="port-forward"),
        remote_installation(cluster.access.kubeconfig, directory),
    ):
        pass


def pods(admin: AdminClient) -> dict[str, str]:
    """The names of the product's pods that are not being deleted, by UID."""
    found: list[dict[str, Any]] = admin.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
    kept = [pod["metadata"] for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return {pod["uid"]: pod["name"] for pod in kept}


@contextmanager
def led(admin: AdminClient) -> Iterator[None]:
    """Hold the lease for a controller manager, whose pod runs no process."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
    ended = threading.Event()

    def lead() -> None:
        leader = ""
        while not ended.wait(0.1):
            managers = [name for name in pods(admin).values() if CONTROLLERS in name]
            if managers and leader not in managers:
                leader = managers[0]
                admin.delete(f"{leases}/{LEASE}")
                admin.create(leases, {"metadata": {"name": LEASE}, "spec": {"holderIdentity": f"{leader}_1"}})

    leading = threading.Thread(target=lead)
    leading.start()
    try:
        yield
    finally:
        ended.set()
        leading.join()
