"""The product is put together without a cluster, and asks for rights in its own namespaces only."""

from gpuruntime.control.permissions.nowhere import NOWHERE
from gpuruntime.processes.controller_manager import build_controller_manager
from gpuruntime.processes.places import Places
from gpuruntime.processes.product import build_product
from gpuruntime.processes.runtime_api import build_runtime_api


async def test_only_nodes_token_reviews_and_its_own_namespaces_are_asked_for_everywhere() -> None:
    product = build_product(NOWHERE)

    rights = product.rights

    assert {right.namespace for right in rights} == {"", "gpuruntime-system", "runtime-instance", "runtime-stock"}
    assert {right.resource for right in rights if not right.namespace} == {"namespaces", "nodes", "tokenreviews"}
    assert {right.name for right in rights if right.resource == "namespaces"} == {
        "gpuruntime-system",
        "runtime-instance",
        "runtime-stock",
    }
    assert {right.resource for right in rights if right.namespace == "gpuruntime-system"} == {
        "leases",
        "operations",
        "operations/status",
    }


async def test_the_rights_of_the_two_processes_are_together_those_of_the_one() -> None:
    whole = build_product(NOWHERE)

    apart = (*build_controller_manager(NOWHERE).rights, *build_runtime_api(NOWHERE).rights)

    assert set(apart) == set(whole.rights)


async def test_only_the_controller_has_to_do_with_leases_and_children_and_only_the_api_with_tokens() -> None:
    controller = {right.resource for right in build_controller_manager(NOWHERE).rights}

    api = {right.resource for right in build_runtime_api(NOWHERE).rights}

    assert controller - api >= {"leases", "deployments", "services", "pods", "gpuunits/status", "events"}
    assert api - controller == {"namespaces", "tokenreviews", "operations/status"}


async def test_other_namespaces_are_as_good() -> None:
    product = build_product(NOWHERE, Places(("a", "b"), ("s", "t"), "c"))

    rights = product.rights

    assert {right.namespace for right in rights} == {"", "a", "b", "c", "s", "t"}
    assert product.places.roles.stock_namespaces == {"s", "t"}


async def test_the_lease_is_in_the_system_namespace() -> None:
    product = build_product(NOWHERE, Places(system="c"))

    election = product.manager.options.election

    assert election is not None
    assert (election.namespace, election.name) == ("c", "gpuruntime-controller-manager")


async def test_the_manager_and_the_controller_manager_stand_for_the_same_lease() -> None:
    whole, apart = build_product(NOWHERE), build_controller_manager(NOWHERE)

    leases = [process.options.election for process in (whole.manager, apart)]

    assert len({(lease.namespace, lease.name) for lease in leases if lease is not None}) == 1
    assert {right for right in whole.rights if right.resource == "leases"} == {
        right for right in apart.rights if right.resource == "leases"
    }
