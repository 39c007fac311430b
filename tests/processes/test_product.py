"""The product is put together without a cluster, and asks for rights in its own namespaces only."""

from gpuruntime.control.permissions.nowhere import NOWHERE
from gpuruntime.processes.product import Places, build_product


async def test_only_nodes_and_token_reviews_are_asked_for_everywhere() -> None:
    product = build_product(NOWHERE)

    rights = product.rights

    assert {right.namespace for right in rights} == {"", "gpuruntime-system", "runtime-instance", "runtime-stock"}
    assert {right.resource for right in rights if not right.namespace} == {"nodes", "tokenreviews"}
    assert {right.resource for right in rights if right.namespace == "gpuruntime-system"} == {
        "leases",
        "operations",
        "operations/status",
    }


async def test_other_namespaces_are_as_good() -> None:
    product = build_product(NOWHERE, Places(("a", "b"), ("s", "t"), "c"))

    rights = product.rights

    assert {right.namespace for right in rights} == {"", "a", "b", "c", "s", "t"}
    assert product.places.roles.stock_namespaces == {"s", "t"}


async def test_the_lease_is_in_the_system_namespace() -> None:
    product = build_product(NOWHERE, Places(system="c"))

    election = product.manager.options.election

    assert election is not None
    assert (election.namespace, election.name) == ("c", "gpuruntime-manager")
