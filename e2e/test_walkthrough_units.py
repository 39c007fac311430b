"""The walk-through of units, unchanged, on an empty cluster: from stock to a unit with a URL."""

import json

from e2e.conftest import Terminal

SEED = r"""
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stock-units \
-H 'Content-Type: application/json' \
-d '{
"operationID":"stock-g1-demo-001",
"specName":"g1.1",
"memory":"16Gi",
"gpu":1,
"replicas":2
}' | jq
"""
JOB = "curl -s http://127.0.0.1:8080/api/v1/operator/jobs/stock-g1-demo-001 | jq"
CREATE = r"""
curl -s -X POST http://127.0.0.1:8080/api/v1/gpu-units \
-H 'Content-Type: application/json' \
-d '{
"operationID":"unit-demo-001",
"name":"demo-instance",
"namespace":"runtime-instance",
"specName":"g1.1",
"image":"python:3.12",
"access":{
"primaryPort":"http",
"scheme":"http"
},
"template":{
"command":["python"],
"args":["-m","http.server","8080"],
"ports":[{"name":"http","port":8080}]
}
}' | jq
"""
STOCK_READY = """
until curl -s http://127.0.0.1:8080/api/v1/operator/jobs/stock-g1-demo-001 | grep -q succeeded; do sleep 0.2; done
kubectl wait gpuunits --all -n runtime-stock --for=condition=Ready --timeout=60s
"""
UNIT_READY = "kubectl wait gpuunit demo-instance -n runtime-instance --for=condition=Ready --timeout=60s"
TAKEN = "kubectl wait gpuunit {} -n runtime-stock --for=delete --timeout=60s"
INSPECT = """
kubectl get gpuunits -n runtime-instance
kubectl get gpuunit demo-instance -n runtime-instance -o yaml
kubectl get deploy,svc,pod -n runtime-instance | grep demo-instance
"""


def test_one_stock_unit_becomes_a_unit_with_a_service_and_a_url(terminal: Terminal) -> None:
    seeded, again = terminal.ask(SEED), terminal.ask(SEED)
    terminal.type(STOCK_READY)
    job = terminal.ask(JOB)
    created, replayed = terminal.ask(CREATE), terminal.ask(CREATE)
    terminal.type(UNIT_READY)
    terminal.type(TAKEN.format(created[1]["sourceStockName"]))
    shown = terminal.type(INSPECT)
    stock = json.loads(terminal.type("kubectl get gpuunits -n runtime-stock -o json"))["items"]
    unit = json.loads(terminal.type("kubectl get gpuunit demo-instance -n runtime-instance -o json"))

    assert (seeded[0], again[0], job[0], job[1]["status"]) == (202, 200, 200, "succeeded")
    assert job[1]["progress"] == {"done": 2, "total": 2}
    assert (created[0], replayed[0], created[1]["uid"]) == (201, 200, replayed[1]["uid"])
    assert all(name in shown for name in ("deployment.apps/unit-demo-instance", "service/unit-demo-instance"))
    assert len(stock) == 1
    assert not {"serviceName", "accessURL"} & stock[0]["status"].keys()
    assert (unit["spec"]["memory"], unit["spec"]["gpu"], unit["spec"]["image"]) == ("16Gi", 1, "python:3.12")
    assert unit["status"]["serviceName"] == "unit-demo-instance"
    assert unit["status"]["accessURL"] == "http://unit-demo-instance.runtime-instance.svc.cluster.local:8080"
    assert unit["metadata"]["annotations"]["runtime.lokiwager.io/source-stock-name"] == created[1]["sourceStockName"]
