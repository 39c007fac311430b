"""An operator seeds stock."""

from e2e.cluster_view import condition
from e2e.installation import Installation
from e2e.names import STOCK
from e2e.stories.orders import SMALL, seed


def test_stock_is_seeded_once_holds_its_gpu_and_has_no_service(installation: Installation, suffix: str) -> None:
    spec = f"seeded-{suffix}"

    stock = seed(installation, spec, 2)

    body = {"operationID": f"seed-{spec}", "specName": spec, "replicas": 2, **SMALL}
    again = installation.api.post("/operator/stock-units", body)
    other = installation.api.post("/operator/stock-units", {**body, "replicas": 3})
    job = installation.api.get(f"/operator/jobs/seed-{spec}").data
    newest = max((unit["metadata"]["resourceVersion"] for unit in stock), key=int)
    shown = installation.api.get(f"/operator/stock-units?specName={spec}", X_Resource_Version=newest).data
    pods = [pod for unit in stock for pod in installation.cluster.pods(unit["metadata"]["name"], STOCK)]
    assert (again.status, other.status, other.error["code"]) == (200, 409, "operation_conflict")
    assert (job["status"], job["progress"]) == ("succeeded", {"done": 2, "total": 2})
    assert [unit["phase"] for unit in shown] == ["Ready", "Ready"]
    assert {condition(unit)["reason"] for unit in stock} == {"StockReady"}
    assert [pod.spec.containers[0].resources.limits["nvidia.com/gpu"] for pod in pods] == ["1", "1"]
    assert {pod.spec.priority_class_name for pod in pods} == {"gpuruntime-stock"}
    assert installation.cluster.core.list_namespaced_service(STOCK).items == []
