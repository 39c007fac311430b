"""The walk-throughs of pools, unchanged except that pools are in a stock namespace, and own units and not a Deployment
and a Service.
"""

from e2e.conftest import Terminal

SMALL = r"""
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stockpools \
  -H 'Content-Type: application/json' \
  -d '{"name":"pool-g1","namespace":"runtime-stock","specName":"g1.1","image":"nginx:1.27","memory":"16Gi","gpu":1,"replicas":2}' | jq
"""  # noqa: E501 - as it is written
REQUEST = """{
"operationID": "stock-g1-demo-001",
"name": "pool-g1-demo",
"namespace": "runtime-stock",
"specName": "g1.1",
"image": "python:3.12-slim",
"memory": "16Gi",
"gpu": 1,
"replicas": 1,
"template": {
"command": ["python"],
"args": ["-m", "http.server", "8080"],
"envs": [
{"name": "MODEL_ID", "value": "demo-model"}
],
"ports": [
{"name": "http", "port": 8080, "protocol": "TCP"}
]
}
}"""
POST = r"""
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stockpools \
-H 'Content-Type: application/json' \
-d {body} | jq
"""
OTHER = """'{
"operationID": "stock-g1-demo-001",
"name": "pool-g1-demo",
"namespace": "runtime-stock",
"specName": "g2.1",
"replicas": 1
}'"""
INVALID = """'{
"operationID": "stock-invalid-001",
"name": "pool-invalid",
"namespace": "runtime-stock",
"specName": "g1.1",
"memory": "not-a-quantity",
"replicas": 1
}'"""
READY = "kubectl wait stockpool --all -n runtime-stock --for=condition=Ready --timeout=60s"
MESSAGE = (
    "kubectl get stockpool pool-g1-demo -n runtime-stock "
    """-o jsonpath='{.status.conditions[?(@.type=="Ready")].message}'"""
)


def test_a_pool_is_created_and_fills_itself(terminal: Terminal) -> None:
    elsewhere = terminal.ask(SMALL.replace("runtime-stock", "default"))
    made = terminal.ask(SMALL)
    terminal.type(READY)
    shown = terminal.type("kubectl get stockpools.runtime.lokiwager.io pool-g1 -n runtime-stock -o yaml")
    deployments = terminal.type("kubectl get deployment -n runtime-stock --no-headers")
    images = terminal.type("kubectl get deployment -n runtime-stock -o jsonpath='{..image}'")

    assert (elsewhere[0], elsewhere[1]["details"][0]["path"]) == (400, "$.namespace")
    assert (made[0], made[1]["objectName"], made[1]["objectNamespace"]) == (202, "pool-g1", "runtime-stock")
    assert "available: 2" in shown
    assert [line.split()[1] for line in deployments.splitlines()] == ["1/1", "1/1"]
    assert images.split() == ["nginx:1.27"] * 2


def test_a_repeated_request_is_the_same_operation(terminal: Terminal) -> None:
    (terminal.directory / "same-request.json").write_text(REQUEST)
    page = terminal.type("open http://127.0.0.1:8080/swagger/index.html")
    first = terminal.ask(POST.replace("{body}", f"'{REQUEST}'"))
    second = terminal.ask(POST.replace("{body}", "@same-request.json"))
    other = terminal.ask(POST.replace("{body}", OTHER))
    invalid = terminal.ask(POST.replace("{body}", INVALID))
    job = terminal.ask("curl -s http://127.0.0.1:8080/api/v1/operator/jobs/stock-g1-demo-001 | jq")
    terminal.type(READY)
    shown = terminal.type("kubectl get stockpool pool-g1-demo -n runtime-stock -o yaml")
    message = terminal.type(MESSAGE)

    assert "swagger-ui" in page
    assert (first[0], second[0], other[0], invalid[0]) == (202, 200, 409, 400)
    assert first[1]["operationID"] == second[1]["operationID"] == job[1]["operationID"] == "stock-g1-demo-001"
    assert (other[1]["code"], invalid[1]["code"]) == ("operation_conflict", "invalid_request")
    assert (job[0], job[1]["status"]) == (200, "succeeded")
    assert "runtime.lokiwager.io/operation-id: stock-g1-demo-001" in shown
    assert "phase: Ready" in shown
    assert message
