"""A private namespace for tests that leave nothing behind but data.

Import the fixture in a `conftest.py`, where it replaces the one of the test kit. Kubernetes needs about 70 requests to
delete a namespace, whatever is in it; here only what runs is deleted, and the rest ends with the cluster of the run.
"""

import uuid
from collections.abc import Iterator

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.cluster.namespaces import create_namespace

__all__ = ["kube_namespace"]

# Their replica sets and pods are deleted with them.
_RUNNING = (
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/batch/v1/namespaces/{}/jobs",
    "/api/v1/namespaces/{}/pods",
)


@pytest.fixture
def kube_namespace(kube_cluster: ClusterAccess) -> Iterator[str]:
    """A namespace that only this test uses, ready for pods; what runs in it is deleted afterwards."""
    admin, name = kube_cluster.admin(), f"test-{uuid.uuid4().hex[:10]}"
    create_namespace(admin, name)
    yield name
    for collection in _RUNNING:
        admin.delete(collection.format(name))
