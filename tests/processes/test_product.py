"""The product is put together without a cluster, and asks for permissions in its own namespaces only."""

from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.processes.controller_manager import build_controller_manager
from gpuruntime.processes.places import Places
from gpuruntime.processes.product import build_product
from gpuruntime.processes.runtime_api import build_runtime_api


async def test_only_nodes_token_reviews_and_its_own_namespaces_are_asked_for_everywhere() -> None:
    product = build_product(OFFLINE_CREDENTIALS)

    permissions = product.permissions

    assert {permission.namespace for permission in permissions} == {
        "",
        "gpuruntime-system",
        "runtime-instance",
        "runtime-stock",
    }
    assert {permission.resource for permission in permissions if not permission.namespace} == {
        "namespaces",
        "nodes",
        "tokenreviews",
    }
    assert {permission.name for permission in permissions if permission.resource == "namespaces"} == {
        "gpuruntime-system",
        "runtime-instance",
        "runtime-stock",
    }
    assert {permission.resource for permission in permissions if permission.namespace == "gpuruntime-system"} == {
        "leases",
        "operations",
        "operations/status",
    }


async def test_the_rights_of_the_two_processes_are_together_those_of_the_one() -> None:
    whole = build_product(OFFLINE_CREDENTIALS)

    apart = (
        *build_controller_manager(OFFLINE_CREDENTIALS).permissions,
        *build_runtime_api(OFFLINE_CREDENTIALS).permissions,
    )

    assert set(apart) == set(whole.permissions)


async def test_only_the_controller_has_to_do_with_leases_and_children_and_only_the_api_with_tokens() -> None:
    controller = {permission.resource for permission in build_controller_manager(OFFLINE_CREDENTIALS).permissions}

    api = {permission.resource for permission in build_runtime_api(OFFLINE_CREDENTIALS).permissions}

    assert controller - api >= {"leases", "deployments", "services", "pods", "gpuunits/status", "events"}
    assert api - controller == {"namespaces", "tokenreviews", "operations/status"}


async def test_other_namespaces_are_as_good() -> None:
    product = build_product(OFFLINE_CREDENTIALS, Places(("a", "b"), ("s", "t"), "c"))

    permissions = product.permissions

    assert {permission.namespace for permission in permissions} == {"", "a", "b", "c", "s", "t"}
    assert product.places.roles.stock_namespaces == {"s", "t"}


async def test_the_lease_is_in_the_system_namespace() -> None:
    product = build_product(OFFLINE_CREDENTIALS, Places(system="c"))

    election = product.manager.options.election

    assert election is not None
    assert (election.namespace, election.name) == ("c", "gpuruntime-controller-manager")


async def test_the_manager_and_the_controller_manager_stand_for_the_same_lease() -> None:
    whole, apart = build_product(OFFLINE_CREDENTIALS), build_controller_manager(OFFLINE_CREDENTIALS)

    leases = [process.options.election for process in (whole.manager, apart)]

    assert len({(lease.namespace, lease.name) for lease in leases if lease is not None}) == 1
    assert {permission for permission in whole.permissions if permission.resource == "leases"} == {
        permission for permission in apart.permissions if permission.resource == "leases"
    }
