"""An administrator edits the children of a unit."""

from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.names import INSTANCES
from e2e.stories.orders import SMALL, order


def test_edits_and_deletions_of_child_objects_are_reverted(installation: Installation, suffix: str) -> None:
    spec, name = f"drifted-{suffix}", f"drift-{suffix}"
    cluster, child = installation.cluster, f"unit-{name}"
    installation.api.post("/gpu-units?wait=Ready&timeout=90", order(name, spec, coldStart=True, **SMALL))
    service = cluster.service(name).metadata.uid

    container = {"name": cluster.deployment(name).spec.template.spec.containers[0].name, "image": "theirs"}
    change = {"spec": {"replicas": 0, "template": {"spec": {"containers": [container]}}}}
    cluster.apps.patch_namespaced_deployment(child, INSTANCES, change)
    cluster.core.delete_namespaced_service(child, INSTANCES)

    eventually(lambda: cluster.service(name) and cluster.service(name).metadata.uid != service, "a Service again")
    eventually(lambda: cluster.deployment(name).spec.replicas == 1, "a Deployment with one replica again")
    cluster.ready(name)
    (pod,) = eventually(lambda: cluster.pods(name), "a pod again")
    assert pod.spec.containers[0].image == "nginx:1.27"


def test_a_deleted_deployment_is_created_again(installation: Installation, suffix: str) -> None:
    spec, name = f"lost-{suffix}", f"lost-{suffix}"
    cluster = installation.cluster
    installation.api.post("/gpu-units?wait=Ready&timeout=90", order(name, spec, coldStart=True, **SMALL))
    before = cluster.deployment(name).metadata.uid

    cluster.apps.delete_namespaced_deployment(f"unit-{name}", INSTANCES)

    eventually(lambda: (found := cluster.deployment(name)) and found.metadata.uid != before, "another Deployment")
    assert cluster.ready(name)["status"]["readyReplicas"] == 1
