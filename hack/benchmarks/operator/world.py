"""A cluster with the product's kind and capacity for every unit, which lives for a few runs."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.schema.custom_resource import definition
from gpuruntime.testing import AdminClient, ClusterAccess, ClusterError, LocalCluster, NodeShape, RefusedError
from gpuruntime.testing.cluster.accounts import Account, create_account
from gpuruntime.testing.cluster.namespaces import create_namespace

__all__ = ["COLLECTION", "NAMESPACE", "World", "unit", "unit_world"]

NAMESPACE = "bench"
COLLECTION = GPUUnit.KIND.path(NAMESPACE)
_STORAGES = GPUStorage.KIND.path(NAMESPACE)
_PRIORITIES = Path(__file__).resolve().parents[3] / "manifests" / "platform" / "priority-classes.yaml"
_UNITS_OF_A_NODE = 100
_PATIENCE_SECONDS = 60.0
_EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


@frozen
class World:
    """A running cluster whose nodes have one GPU for each of `units` units; no unit exists yet."""

    access: ClusterAccess
    audit_log: Path
    directory: Path
    units: int

    def account(self) -> Account:
        """A new user with all permissions; the audit log identifies the writes of one contender by its name."""
        return create_account(self.access, NAMESPACE, self.directory, cluster_rules=[_EVERYTHING])


@contextmanager
def unit_world(directory: Path, units: int) -> Iterator[World]:
    """A world for the length of the block; `directory` is removed after it, with the large audit log.

    Raises:
        ClusterError: it did not start, or does not serve the kind.
    """
    nodes = tuple(_node(number) for number in range(units // _UNITS_OF_A_NODE + 1))
    try:
        with LocalCluster(directory, nodes=nodes, audit=True) as cluster:
            access = cluster.access
            if access.audit_log is None:
                raise ClusterError("the cluster has no audit log: writes cannot be counted")
            _install(access.admin())
            yield World(access, access.audit_log, directory, units)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def unit(number: int) -> dict[str, Any]:
    """A typical unit of an inference service."""
    template = {
        "command": ["/usr/bin/inference-server"],
        "args": ["--model=/models/current", "--port=8080", "--log-format=json"],
        "envs": [
            {"name": "MODEL_ID", "value": f"demo-model-{number % 97}"},
            {"name": "LOG_LEVEL", "value": "info"},
            {
                "name": "HUB_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "demo-hub", "key": "token", "optional": True}},
            },
        ],
        "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
    }
    spec = {
        "specName": "g1.1",
        "image": "registry.example.org/team/inference-server:v1.27.3-cuda12.8",
        "cpu": "4",
        "memory": "16Gi",
        "gpu": 1,
        "gpuType": "RTX4090",
        "template": template,
        "access": {"primaryPort": "http", "scheme": "http"},
    }
    return {
        "apiVersion": GPUUnit.KIND.api_version,
        "kind": GPUUnit.KIND.kind,
        "metadata": {"name": f"unit-{number:05d}", "namespace": NAMESPACE},
        "spec": spec,
    }


def _node(number: int) -> NodeShape:
    # Few and large, because nodes are not measured.
    return NodeShape(f"gpu-{number}", gpus=_UNITS_OF_A_NODE, cpu="1000", memory="16Ti", pods=2 * _UNITS_OF_A_NODE)


def _install(admin: AdminClient) -> None:
    for kind in (GPUUnit, GPUStorage):
        admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind))
    for priority in yaml.safe_load_all(_PRIORITIES.read_text()):
        admin.create("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    create_namespace(admin, NAMESPACE)
    for collection in (COLLECTION, _STORAGES):
        _wait_until_served(admin, collection)


def _wait_until_served(admin: AdminClient, collection: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            admin.get(collection)
        except RefusedError as error:
            # 404 before it is served, 429 while its storage is prepared.
            if error.status not in {404, 429} or time.monotonic() > deadline:
                raise ClusterError(f"the API server does not serve {collection}: {error}") from error
            time.sleep(0.05)  # there is no event to await
        else:
            return
