"""An administrator uninstalls the product."""

import json
from collections.abc import Iterator
from typing import Final

from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.stories.orders import SMALL, order, seed

WORDS: Final = ("gpuruntime", "lokiwager", "runtime-stock", "runtime-instance")


def test_after_the_units_and_the_manifests_were_deleted_nothing_is_left(fresh: Installation) -> None:
    seed(fresh, "g1.1", 2)
    fresh.api.post("/gpu-units?wait=Ready&timeout=90", order("last", "g1.1"))
    pool = {"operationID": "pool", "name": "pool", "specName": "g2.1", "replicas": 1, **SMALL}
    fresh.api.post("/operator/stockpools", pool)
    fresh.cluster.stock("g2.1", 1)

    for kind in ("stockpools", "gpuunits"):
        fresh.kubectl("delete", f"{kind}.runtime.lokiwager.io", "--all", "--all-namespaces", "--timeout=90s")
    fresh.kubectl("delete", "--kustomize", str(fresh.overlay), "--timeout=120s")

    eventually(lambda: not list(leftovers(fresh)), "a cluster without the product", patience=60)


def leftovers(installation: Installation) -> Iterator[str]:
    """Every object of any kind that refers to the product."""
    kinds = installation.kubectl("api-resources", "--verbs=list", "--output=name").split()
    listed = [kind for kind in kinds if not kind.startswith("events")]
    found = installation.kubectl("get", ",".join(listed), "--all-namespaces", "--output=json")
    for item in json.loads(found)["items"]:
        text = json.dumps(item)
        if any(word in text for word in WORDS):
            yield f"{item['kind']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
