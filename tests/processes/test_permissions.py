"""The permissions that each process needs: built without a cluster, in the namespaces of its config only."""

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.processes.access_gateway import build_access_gateway
from gpuruntime.processes.controller_manager import build_controller_manager
from gpuruntime.processes.manager import ManagerConfig, build_manager
from gpuruntime.processes.result_store import build_result_store
from gpuruntime.processes.runtime_api import build_runtime_api


async def test_only_nodes_classes_token_reviews_and_its_own_namespaces_are_cluster_wide() -> None:
    server = build_manager(OFFLINE_CREDENTIALS)

    permissions = server.permissions

    assert {permission.namespace for permission in permissions} == {
        "",
        "gpuruntime-system",
        "runtime-instance",
        "runtime-stock",
    }
    assert {permission.resource for permission in permissions if not permission.namespace} == {
        "namespaces",
        "nodes",
        "storageclasses",
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


async def test_the_permissions_of_the_two_processes_are_together_those_of_the_manager() -> None:
    whole = build_manager(OFFLINE_CREDENTIALS)

    apart = (
        *build_controller_manager(OFFLINE_CREDENTIALS).permissions,
        *build_runtime_api(OFFLINE_CREDENTIALS).permissions,
    )

    assert set(apart) == set(whole.permissions)


async def test_only_the_controller_manager_writes_leases_and_only_the_api_reviews_tokens() -> None:
    controller = {permission.resource for permission in build_controller_manager(OFFLINE_CREDENTIALS).permissions}

    api = {permission.resource for permission in build_runtime_api(OFFLINE_CREDENTIALS).permissions}

    assert controller - api >= {"leases", "deployments", "services", "pods", "gpuunits/status", "events"}
    assert api - controller == {"namespaces", "tokenreviews", "operations/status"}


async def test_the_access_gateway_reads_storages_and_reviews_tokens_and_may_do_nothing_else() -> None:
    permissions = build_access_gateway(OFFLINE_CREDENTIALS).permissions

    assert {(permission.resource, permission.verb, permission.namespace) for permission in permissions} == {
        ("gpustorages", "list", "runtime-instance"),
        ("gpustorages", "watch", "runtime-instance"),
        ("tokenreviews", "create", ""),
    }


async def test_the_result_store_reviews_tokens_and_may_do_nothing_else() -> None:
    permissions = build_result_store(OFFLINE_CREDENTIALS).permissions

    assert {(permission.resource, permission.verb) for permission in permissions} == {("tokenreviews", "create")}


async def test_permissions_are_in_the_namespaces_of_the_config() -> None:
    server = build_manager(OFFLINE_CREDENTIALS, ManagerConfig(namespaces=Namespaces(("a", "b"), ("s", "t"), "c")))

    permissions = server.permissions

    assert {permission.namespace for permission in permissions} == {"", "a", "b", "c", "s", "t"}
    assert {
        permission.namespace
        for permission in permissions
        if permission.resource == "stockpools" and permission.verb == "create"
    } == {
        "s",
        "t",
    }


async def test_the_lease_is_in_the_system_namespace() -> None:
    server = build_manager(OFFLINE_CREDENTIALS, ManagerConfig(namespaces=Namespaces(system="c")))

    election = server.manager.options.election

    assert election is not None
    assert (election.namespace, election.name) == ("c", "gpuruntime-controller-manager")


async def test_the_manager_and_the_controller_manager_share_a_lease() -> None:
    whole, apart = build_manager(OFFLINE_CREDENTIALS), build_controller_manager(OFFLINE_CREDENTIALS)

    leases = [process.options.election for process in (whole.manager, apart)]

    assert len({(lease.namespace, lease.name) for lease in leases if lease is not None}) == 1
    assert {permission for permission in whole.permissions if permission.resource == "leases"} == {
        permission for permission in apart.permissions if permission.resource == "leases"
    }
