"""The objects that a real node needs in its cluster. No node runs here."""

from typing import Any

from gpuruntime.testing import AdminClient, ClusterAccess
from gpuruntime.testing.node.addresses import Addresses
from gpuruntime.testing.node.cluster_objects import ClusterObjects

UNUSED = Addresses(250)
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def test_the_endpoint_of_a_killed_node_with_the_same_address_goes(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    admin = kube_cluster.admin()
    killed = ClusterObjects(admin, f"killed-{kube_namespace}", UNUSED)
    killed.create()
    assert nodes_of(admin, UNUSED.machine) == [killed.node]

    objects = ClusterObjects(admin, f"next-{kube_namespace}", UNUSED)
    objects.create()

    assert nodes_of(admin, UNUSED.machine) == [objects.node]
    objects.delete()
    assert nodes_of(admin, UNUSED.machine) == []


def nodes_of(admin: AdminClient, address: str) -> list[Any]:
    """The nodes of the endpoints with this address."""
    endpoints = [one for found in admin.get(SLICES)["items"] for one in found["endpoints"] or ()]
    return [one.get("nodeName") for one in endpoints if address in one["addresses"]]
