"""A user waits until a unit is ready, and connects to it."""

from e2e.installation import Installation
from e2e.names import INSTANCES
from e2e.stories.orders import claim, order, seed


def test_a_ready_unit_has_a_url_whose_service_selects_its_pod(installation: Installation, suffix: str) -> None:
    spec, name = f"reached-{suffix}", f"reach-{suffix}"
    seed(installation, spec, 1)

    made = claim(installation, order(name, spec))

    (pod,) = installation.cluster.pods(name)
    service = installation.cluster.service(name)
    assert (made.status, made.data["phase"], made.data["readyReplicas"]) == (201, "Ready", 1)
    assert made.data["accessURL"] == f"http://unit-{name}.{INSTANCES}.svc.cluster.local:8080"
    assert service.spec.selector.items() <= pod.metadata.labels.items()
    assert [port.port for port in service.spec.ports] == [8080]
    assert (pod.status.phase, pod.spec.containers[0].image, pod.spec.containers[0].args) == (
        "Running",
        "nginx:1.27",
        ["serve"],
    )
    assert installation.api.get(f"/gpu-units/{name}/wait?for=Ready").data["uid"] == made.data["uid"]
