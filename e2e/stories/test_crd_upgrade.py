"""A later release adds a version to the CustomResourceDefinitions; stored objects stay as they are."""

from typing import Any, Final

from kubernetes import client

from e2e.cluster_view import ClusterView, eventually
from e2e.installation import Installation
from e2e.names import CONTROLLERS, GROUP, INSTANCES, RUNTIME_APIS
from e2e.stories.orders import claim, order, seed

LATER: Final = "v1beta1"
KINDS: Final = ("gpuunits", "gpustorages", "stockpools", "operations")


def test_objects_of_the_old_version_survive_the_new_one_and_are_reconciled(fresh: Installation) -> None:
    cluster: ClusterView = fresh.cluster
    definitions: Any = client.ApiextensionsV1Api(cluster.api)
    seed(fresh, "g1.1", 2)
    claimed = claim(fresh, order("old", "g1.1"))
    (pod,) = cluster.pods("old")

    for plural in KINDS:
        add_version(definitions, f"{plural}.{GROUP}")
    collection = (GROUP, LATER, INSTANCES, "gpuunits")
    old, seen = eventually(lambda: read_twice(cluster, collection, "old"), "the new version")
    for process in (RUNTIME_APIS, CONTROLLERS):
        fresh.replicas.roll(process)
    fresh.replicas.wait_until_ready()
    after = cluster.pods("old")
    replayed = fresh.api.post("/gpu-units", order("old", "g1.1"))
    made = claim(fresh, order("new", "g1.1"))
    changed = fresh.api.put("/gpu-units/old?wait=Ready&timeout=90", {"image": "nginx:1.28"})

    stored = definitions.read_custom_resource_definition(f"gpuunits.{GROUP}").status.stored_versions
    assert (seen["apiVersion"], seen["metadata"]["uid"]) == (f"{GROUP}/{LATER}", old["metadata"]["uid"])
    assert (seen["spec"], seen["status"]) == (old["spec"], old["status"])
    assert old["metadata"]["uid"] == claimed.data["uid"]
    assert [one.metadata.uid for one in after] == [pod.metadata.uid]
    assert (replayed.status, replayed.data["uid"]) == (200, old["metadata"]["uid"])
    assert (made.status, made.data["phase"]) == (201, "Ready")
    assert (changed.status, changed.data["phase"], changed.data["uid"]) == (200, "Ready", old["metadata"]["uid"])
    assert stored == ["v1alpha1", LATER]


def add_version(definitions: Any, name: str) -> None:
    """Add a storage version with one more field to a definition."""
    found = definitions.api_client.sanitize_for_serialization(definitions.read_custom_resource_definition(name))
    (old,) = found["spec"]["versions"]
    later = {**old, "name": LATER, "storage": True}
    schema = later["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]
    further = {**spec, "properties": {**spec["properties"], "shape": {"type": "string"}}}
    properties = {**schema["properties"], "spec": further}
    later["schema"] = {"openAPIV3Schema": {**schema, "properties": properties}}
    change = {"spec": {"versions": [{**old, "storage": False}, later]}}
    definitions.patch_custom_resource_definition(name, change)


def read_twice(cluster: ClusterView, collection: tuple[str, str, str, str], name: str) -> tuple[Any, Any] | None:
    """The object in the old and in another version; None while that is not served, or if it changed in between."""
    later, old = read(cluster.custom, collection, name), cluster.unit(name)
    is_same = later is not None and later["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
    return (old, later) if is_same else None


def read(custom: Any, collection: tuple[str, str, str, str], name: str) -> Any:
    """The object in another version; None while the version is not served."""
    try:
        return custom.get_namespaced_custom_object(*collection, name)
    except client.ApiException as error:
        if error.status != 404:
            raise
        return None
