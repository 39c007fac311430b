"""An operator creates a pool that keeps stock ready."""

from typing import Any

from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.stories.orders import SMALL, claim, order


def test_a_pool_refills_after_a_claim_and_scales(installation: Installation, suffix: str) -> None:
    spec, pool, name = f"pooled-{suffix}", f"pool-{suffix}", f"from-pool-{suffix}"
    path = f"/operator/stockpools/{pool}"
    body = {"operationID": f"make-{pool}", "name": pool, "specName": spec, "replicas": 2, **SMALL}

    made = installation.api.post("/operator/stockpools", body)
    full = eventually(lambda: filled(installation, path, 2), "a full pool")
    claimed = claim(installation, order(name, spec))
    refilled = eventually(lambda: filled(installation, path, 2, allocated=1), "a pool that is full again")
    installation.api.put(path, {"replicas": 3})
    grown = eventually(lambda: filled(installation, path, 3, allocated=1), "a larger pool")
    ended = installation.api.delete(path)

    assert (made.status, claimed.status, claimed.data["pool"], ended.status) == (202, 201, pool, 204)
    assert [shown["phase"] for shown in (full, refilled, grown)] == ["Ready"] * 3
    eventually(lambda: not installation.cluster.units("runtime-stock", specName=spec), "the deletion of its stock")
    assert installation.cluster.ready(name)["metadata"]["uid"] == claimed.data["uid"]


def filled(installation: Installation, path: str, replicas: int, allocated: int = 0) -> Any:
    """The pool, if it has `replicas` available and `allocated` claimed units."""
    shown = installation.api.get(path).data
    counts = tuple(shown.get(key) for key in ("replicas", "available", "allocated", "phase"))
    return shown if counts == (replicas, replicas, allocated, "Ready") else None
