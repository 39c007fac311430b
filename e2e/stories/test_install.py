"""An administrator installs the product in an empty cluster."""

from e2e.caller import Caller
from e2e.installation import Installation
from e2e.names import CONTROLLERS, RUNTIME_APIS


def test_the_manifests_are_complete_and_applying_them_again_changes_nothing(fresh: Installation) -> None:
    again = fresh.kubectl("apply", "--kustomize", str(fresh.overlay), "--validate=strict")

    fresh.replicas.wait_until_ready()
    health = fresh.api.get("/health")
    unauthenticated = Caller(fresh.api.url, "invalid").get("/gpu-units")
    assert {line.rpartition(" ")[2] for line in again.splitlines()} == {"unchanged"}
    assert (len(fresh.replicas.living(CONTROLLERS)), len(fresh.replicas.living(RUNTIME_APIS))) == (2, 3)
    assert (health.status, health.data["kubernetesConnected"], health.data["readyNodeCount"]) == (200, True, 2)
    assert (fresh.api.get("/gpu-units").data, unauthenticated.status) == ([], 401)
