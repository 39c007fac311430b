"""Jobs on fake nodes: the image says how they end."""

from typing import Any

import pytest
from attrs import frozen

from gpuruntime.testing import AdminClient, ClusterAccess

EXIT = "testing.gpuruntime.local/exit"


@frozen
class Jobs:
    """Jobs of one namespace."""

    cluster: ClusterAccess
    namespace: str

    @property
    def admin(self) -> AdminClient:
        return self.cluster.admin()

    def create(self, name: str, image: str) -> None:
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}
        body = {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}
        self.admin.create(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", body)

    def wait(self, what: str, condition: str, *more: str) -> None:
        self.cluster.kubectl("wait", what, *more, f"--for={condition}", "-n", self.namespace, "--timeout=60s")

    def pod(self, name: str) -> dict[str, Any]:
        (found,) = self.admin.get(f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=job-name={name}")["items"]
        return dict(found)

    def ending(self, name: str) -> tuple[str, int, str]:
        """The phase of the pod, and the exit code and message of its container."""
        status = self.pod(name)["status"]
        ended = status["containerStatuses"][0]["state"]["terminated"]
        return status["phase"], ended["exitCode"], ended.get("message", "")


@pytest.fixture
def jobs(kube_cluster: ClusterAccess, kube_namespace: str) -> Jobs:
    return Jobs(kube_cluster, kube_namespace)


def test_a_job_ends_as_its_image_says(jobs: Jobs) -> None:
    images = {
        "done": "busybox:1.36",
        "full": "fail.invalid/exit-3:disk-is-full",
        "killed": "fail.invalid/team/exit-137",
        "failed": "fail.invalid/program",
    }
    for name, image in images.items():
        jobs.create(name, image)

    for name in images:
        jobs.wait(f"job/{name}", f"condition={'Complete' if name == 'done' else 'Failed'}")

    assert {name: jobs.ending(name) for name in images} == {
        "done": ("Succeeded", 0, ""),
        "full": ("Failed", 3, "disk is full"),
        "killed": ("Failed", 137, ""),
        "failed": ("Failed", 1, ""),
    }


def test_a_job_runs_until_an_annotation_ends_it(jobs: Jobs) -> None:
    exits = {"done": "0", "counted": "0 42 files", "full": "3 /data: is full"}
    for name in exits:
        jobs.create(name, "wait.invalid/program:1")
        jobs.wait("pod", "jsonpath={.status.phase}=Running", "-l", f"job-name={name}")

    for name, exit_ in exits.items():
        path = f"/api/v1/namespaces/{jobs.namespace}/pods/{jobs.pod(name)['metadata']['name']}"
        jobs.admin.merge(path, {"metadata": {"annotations": {EXIT: exit_}}})
        jobs.wait(f"job/{name}", f"condition={'Failed' if name == 'full' else 'Complete'}")

    assert {name: jobs.ending(name) for name in exits} == {
        "done": ("Succeeded", 0, ""),
        "counted": ("Succeeded", 0, "42 files"),
        "full": ("Failed", 3, "/data: is full"),
    }
