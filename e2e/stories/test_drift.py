"""Somebody changes by hand what belongs to a unit."""

from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.names import INSTANCES
from e2e.stories.orders import SMALL, order


def test_what_was_changed_or_deleted_by_hand_comes_back(installation: Installation, mark: str) -> None:
    spec, name = f"drifted-{mark}", f"drift-{mark}"
    eyes, child = installation.cluster, f"unit-{name}"
    installation.api.post("/gpu-units?wait=Ready&timeout=90", order(name, spec, coldStart=True, **SMALL))
    service = eyes.service(name).metadata.uid

    container = {"name": eyes.deployment(name).spec.template.spec.containers[0].name, "image": "theirs"}
    change = {"spec": {"replicas": 0, "template": {"spec": {"containers": [container]}}}}
    eyes.apps.patch_namespaced_deployment(child, INSTANCES, change)
    eyes.core.delete_namespaced_service(child, INSTANCES)

    eventually(lambda: eyes.service(name) and eyes.service(name).metadata.uid != service, "a Service again")
    eventually(lambda: eyes.deployment(name).spec.replicas == 1, "a Deployment with one replica again")
    eyes.ready(name)
    (pod,) = eventually(lambda: eyes.pods(name), "a pod again")
    assert pod.spec.containers[0].image == "nginx:1.27"


def test_a_deployment_that_was_deleted_is_made_again(installation: Installation, mark: str) -> None:
    spec, name = f"lost-{mark}", f"lost-{mark}"
    eyes = installation.cluster
    installation.api.post("/gpu-units?wait=Ready&timeout=90", order(name, spec, coldStart=True, **SMALL))
    before = eyes.deployment(name).metadata.uid

    eyes.apps.delete_namespaced_deployment(f"unit-{name}", INSTANCES)

    eventually(lambda: (found := eyes.deployment(name)) and found.metadata.uid != before, "another Deployment")
    assert eyes.ready(name)["status"]["readyReplicas"] == 1
