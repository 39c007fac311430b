"""A function as a pod: it answers through the whole path, sees no token, and is drained when it is deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.nats import NatsServer
from hack.dev.checkout_image import add_checkout_image, add_functions_image
from tests.product.function_scenes import ServedFunctions, served_functions, until

pytestmark = [pytest.mark.real_node, pytest.mark.timeout(240)]
SIDECAR, FUNCTIONS = "function-test/gpuruntime:1", "function-test/functions:1"
CODE = """
import glob, os, time, urllib.error, urllib.request


def probe(payload, context):
    return globals()[payload["do"]](payload)


def hello(payload):
    return {"hello": payload["name"], "user": os.getuid()}


def look(payload):
    found = glob.glob("/var/run/secrets/**/*", recursive=True)
    commands = [open(process).read() for process in glob.glob("/proc/[0-9]*/cmdline")]
    others = [command for command in commands if "sidecar" in command]
    try:
        status = urllib.request.urlopen(payload["activator"], timeout=10).status
    except urllib.error.HTTPError as error:
        status = error.code
    return {"secrets": found, "sidecars": others, "activator": status}


def wait(payload):
    time.sleep(payload["seconds"])
    return "finished"
"""


@pytest.fixture
def served(
    product: ClusterAccess,
    nats_server: NatsServer,
    kube_real_node: str,
    kube_images: ImageStore,
    kube_namespace: str,
    stock_namespace: str,
    tmp_path: Path,
) -> Iterator[ServedFunctions]:
    """A manager whose activator the pods of the real node reach."""
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "probe.py").write_text(CODE)
    add_checkout_image(kube_images, SIDECAR)
    add_functions_image(kube_images, tmp_path / "functions", FUNCTIONS)
    host = machine_address(product, kube_real_node)
    namespaces = (kube_namespace, stock_namespace)
    with served_functions(product, nats_server, namespaces, tmp_path, host=host, image=SIDECAR) as functions:
        yield functions


def machine_address(cluster: ClusterAccess, node: str) -> str:
    """The address of this machine on the link to the node, which follows that of the node."""
    status = cluster.admin().get(f"/api/v1/nodes/{node}")["status"]
    (address,) = [found["address"] for found in status["addresses"] if found["type"] == "InternalIP"]
    return f"{address.rpartition('.')[0]}.1"


def test_a_pod_answers_has_no_token_and_finishes_what_it_runs(
    served: ServedFunctions, product: ClusterAccess, kube_namespace: str
) -> None:
    body = {
        "operationID": "function-1",
        "name": "probe",
        "specName": "g1.0",
        "cpu": "50m",
        "memory": "128Mi",
        "image": FUNCTIONS,
        "template": {"command": ["python", "-m", "gpuruntime.framework", "probe.py:probe"]},
        "scaling": {"minWorkers": 1},
        "nodeSelector": {"gpuruntime.local/real-node": "true"},
        "tolerations": [{"key": "gpuruntime.local/real-node", "operator": "Exists"}],
    }
    status, function = served.send("POST", "functions?wait=Ready&timeout=120", body)
    assert status == 201, function
    pods = f"/api/v1/namespaces/{kube_namespace}/pods?labelSelector=runtime.lokiwager.io/function=probe"
    (pod,) = product.admin().get(pods)["items"]
    sidecar = {variable["name"]: variable.get("value") for variable in pod["spec"]["initContainers"][0]["env"]}
    activator = sidecar["SERVERLESS_ACTIVATOR_URL"].replace("ws:", "http:") + "/v1/worker"

    answer = served.call("probe", {"do": "hello", "name": "you"})
    seen = served.call("probe", {"do": "look", "activator": activator})
    served.start("probe", "last", {"do": "wait", "seconds": 3})
    product.kubectl("delete", "gpuunit/probe-1", "-n", kube_namespace)
    ended = served.state("probe", "last", wait=60)
    until(lambda: served.send("GET", "functions/probe")[1]["phase"] == "Ready")
    served.send("DELETE", "functions/probe")

    assert (answer["state"], answer["body"]) == ("succeeded", {"hello": "you", "user": 65532})
    assert seen["body"] == {"secrets": [], "sidecars": [], "activator": 401}
    assert (ended["state"], ended["attempt"], ended["worker"]) == ("succeeded", 1, "probe-1")
    until(lambda: not product.admin().get(pods)["items"])
