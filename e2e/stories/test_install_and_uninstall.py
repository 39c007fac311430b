"""An administrator installs the product in an empty cluster, and uninstalls it."""

import json
from collections.abc import Iterator
from typing import Final

from e2e.caller import Caller
from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.names import CONTROLLERS, RUNTIME_APIS
from e2e.stories.orders import SMALL, claim, order, seed

WORDS: Final = ("gpuruntime", "lokiwager", "runtime-stock", "runtime-instance")
# In the StorageClasses of the cluster, which were there before the product.
TEST_KIT: Final = "testing.gpuruntime.local"


def test_applying_the_manifests_again_changes_nothing_and_deleting_them_leaves_nothing(fresh: Installation) -> None:
    again = fresh.kubectl("apply", "--kustomize", str(fresh.overlay), "--validate=strict")
    fresh.replicas.wait_until_ready()
    health = fresh.api.get("/health")
    unauthenticated = Caller(fresh.api.url, "invalid").get("/gpu-units")
    assert {line.rpartition(" ")[2] for line in again.splitlines()} == {"unchanged"}
    assert (len(fresh.replicas.living(CONTROLLERS)), len(fresh.replicas.living(RUNTIME_APIS))) == (2, 3)
    assert (health.status, health.data["kubernetesConnected"], health.data["readyNodeCount"]) == (200, True, 2)
    assert (fresh.api.get("/gpu-units").data, unauthenticated.status) == ([], 401)

    seed(fresh, "g1.1", 2)
    claim(fresh, order("last", "g1.1"))
    pool = {"operationID": "pool", "name": "pool", "specName": "g2.1", "replicas": 1, **SMALL}
    fresh.api.post("/operator/stockpools", pool)
    fresh.cluster.stock("g2.1", 1)

    for kind in ("stockpools", "gpuunits", "gpustorages"):
        fresh.kubectl("delete", f"{kind}.runtime.lokiwager.io", "--all", "--all-namespaces", "--timeout=90s")
    fresh.kubectl("delete", "--kustomize", str(fresh.overlay), "--timeout=120s")

    eventually(lambda: not list(leftovers(fresh)), "a cluster without the product", patience=120)


def leftovers(installation: Installation) -> Iterator[str]:
    """Every object of any kind that refers to the product."""
    kinds = installation.kubectl("api-resources", "--verbs=list", "--output=name").split()
    listed = [kind for kind in kinds if not kind.startswith("events")]
    # A kind that was just deleted may still be in the list of all kinds.
    found = installation.kubectl("get", ",".join(listed), "--all-namespaces", "--output=json", "--ignore-not-found")
    for item in json.loads(found)["items"]:
        text = json.dumps(item).replace(TEST_KIT, "")
        if any(word in text for word in WORDS):
            yield f"{item['kind']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
