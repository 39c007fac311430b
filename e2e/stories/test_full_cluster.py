"""All GPUs of a model are used, most of them by stock."""

from typing import Any

from e2e.caller import Reply
from e2e.cluster_view import condition, eventually
from e2e.installation import Installation
from e2e.names import STOCK
from e2e.stories.orders import SMALL, claim, order
from gpuruntime.testing import NodeShape


def test_on_a_full_cluster_each_claim_gets_the_gpu_of_its_stock_and_no_unit_is_preempted(
    installation: Installation, suffix: str
) -> None:
    spec, pool, product = f"full-{suffix}", f"full-{suffix}", f"scarce-{suffix}"
    cluster, wanted = installation.cluster, {**SMALL, "gpuType": product}
    names = [f"full-{number}-{suffix}" for number in range(2)]
    with cluster.node(NodeShape(product, gpus=2, product=product)):
        body = {"operationID": f"make-{pool}", "name": pool, "specName": spec, "replicas": 2, **wanted}
        installation.api.post("/operator/stockpools", body)
        cluster.stock(spec, 2)

        claimed = [claim_ready_stock(installation, name, spec) for name in names]
        first = {name: uid_of_pod(installation, name) for name in names}
        eventually(lambda: reasons(installation, spec) == ["Unschedulable"] * 2, "a pool that cannot refill")
        late = order(f"late-{suffix}", spec)
        refused = installation.api.post("/gpu-units", late)
        cold = installation.api.post("/gpu-units", {**late, "coldStart": True, **wanted})
        waiting = eventually(lambda: unschedulable(installation, f"late-{suffix}"), "a unit that waits for a GPU")
        last = {name: uid_of_pod(installation, name) for name in names}
        installation.api.delete(f"/operator/stockpools/{pool}")
        for name in names:
            installation.api.delete(f"/gpu-units/{name}")
        served = installation.api.get(f"/gpu-units/late-{suffix}/wait?for=Ready&timeout=90")
        installation.api.delete(f"/gpu-units/late-{suffix}")

    assert [(reply.status, reply.data["phase"], reply.data["pool"]) for reply in claimed] == [(201, "Ready", pool)] * 2
    assert (refused.status, refused.error["code"], cold.status) == (409, "insufficient_capacity", 201)
    assert "nodes are available" in waiting["message"]
    assert first == last
    assert (served.status, served.data["phase"]) == (200, "Ready")


def claim_ready_stock(installation: Installation, name: str, spec: str) -> Reply:
    """Claim a ready stock unit. Its pod may take the GPU of any stock unit, which then gets another GPU."""
    eventually(lambda: "StockReady" in reasons(installation, spec), "ready stock")
    return claim(installation, order(name, spec))


def uid_of_pod(installation: Installation, name: str) -> str:
    (pod,) = installation.cluster.pods(name)
    return str(pod.metadata.uid)


def reasons(installation: Installation, spec: str) -> list[str]:
    """The reasons of the stock units of a flavour."""
    return [condition(unit).get("reason", "") for unit in installation.cluster.units(STOCK, specName=spec)]


def unschedulable(installation: Installation, name: str) -> Any:
    shown = installation.api.get(f"/gpu-units/{name}").data
    return shown if shown.get("reason") == "Unschedulable" else None
