"""Namespaces of tests that leave nothing behind but data.

Import the fixture in a `conftest.py`, where it replaces the one of the test kit. To delete a namespace Kubernetes needs
70 requests, or 140 with the kinds of the product, whatever is in it. Here only what runs is deleted; the rest ends with
the cluster of the run.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpuruntime.testing import AdminClient, ClusterAccess
from gpuruntime.testing.cluster.namespaces import create_namespace

__all__ = ["kept_namespace", "kube_namespace"]

# Their replica sets and pods are deleted with them.
_RUNNING = (
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/batch/v1/namespaces/{}/jobs",
    "/api/v1/namespaces/{}/pods",
)


@contextmanager
def kept_namespace(admin: AdminClient, prefix: str) -> Iterator[str]:
    """A new namespace, ready for pods; what runs in it is deleted at the end of the block."""
    name = f"{prefix}-{uuid.uuid4().hex[:10]}"
    create_namespace(admin, name)
    yield name
    for running in _RUNNING:
        admin.delete(running.format(name))


@pytest.fixture
def kube_namespace(kube_cluster: ClusterAccess) -> Iterator[str]:
    """A namespace that only this test uses."""
    with kept_namespace(kube_cluster.admin(), "test") as name:
        yield name
