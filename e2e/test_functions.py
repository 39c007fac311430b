"""A function over REST: deployed, invoked in both modes, cancelled, and deleted while it runs, as its worker is."""

import json
import time
from collections.abc import Callable
from typing import Any

from e2e.conftest import Terminal

FUNCTIONS = "http://127.0.0.1:8080/api/v1/serverless/functions"
INVOCATIONS = "http://127.0.0.1:8080/api/v1/serverless/invocations"
WITHIN = 60.0


def send(terminal: Terminal, url: str, body: dict[str, Any]) -> tuple[int, Any]:
    return terminal.ask(f"curl -s -X POST '{url}' -H 'Content-Type: application/json' -d '{json.dumps(body)}'")


def deploy(terminal: Terminal, **spec: Any) -> Any:
    body = {
        "operationID": "story-1",
        "name": "countdown",
        "specName": "g1.0",
        "image": "functions:dev",
        "template": {"command": ["python", "-m", "gpuruntime.framework", "countdown.py:countdown"]},
        "scaling": {"minWorkers": 1, "concurrency": 4},
        **spec,
    }
    status, function = send(terminal, f"{FUNCTIONS}?wait=Ready&timeout=120", body)
    assert status == 201, function
    return function


def invoke(terminal: Terminal, seconds: float, **fields: Any) -> tuple[int, Any]:
    return send(terminal, INVOCATIONS, {"serverlessRequestID": "countdown", "payload": {"seconds": seconds}, **fields})


def state_of(terminal: Terminal, invocation: str, wait: int = 0) -> Any:
    # With the namespace it is found after the deletion of the function, too.
    query = f"serverlessRequestID=countdown&namespace=runtime-instance&wait={wait}"
    return terminal.ask(f"curl -s '{INVOCATIONS}/{invocation}?{query}'")[1]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_function_is_invoked_cancelled_and_lists_what_has_ended(terminal: Terminal) -> None:
    function = deploy(terminal)
    assert (function["phase"], function["workers"]["ready"]) == ("Ready", 1)

    _, answer = invoke(terminal, 0, mode="sync")
    accepted = [invoke(terminal, 0.1, invocationID=f"order-{number}")[1] for number in range(5)]
    ended = [state_of(terminal, found["invocationID"], wait=60) for found in accepted]
    start(terminal, 900, "long")
    status, cancelled = terminal.ask(f"curl -s -X POST '{INVOCATIONS}/long/cancel?serverlessRequestID=countdown'")

    assert (answer["state"], answer["body"]) == ("succeeded", {"finished": True})
    assert [found["state"] for found in ended] == ["succeeded"] * 5
    assert (status, cancelled["state"]) == (200, "cancelled")
    eventually(lambda: listed(terminal) == {"succeeded": 6, "cancelled": 1})


def listed(terminal: Terminal) -> dict[str, int]:
    _, found = terminal.ask(f"curl -s '{INVOCATIONS}?serverlessRequestID=countdown'")
    states = [item["state"] for item in found]
    return {state: states.count(state) for state in set(states)}


def test_a_deleted_worker_finishes_what_it_runs_and_a_deleted_function_cancels_it(terminal: Terminal) -> None:
    deploy(terminal, scaling={"minWorkers": 1, "concurrency": 1})
    start(terminal, 5, "kept")

    terminal.type("kubectl delete gpuunits -l runtime.lokiwager.io/function=countdown -n runtime-instance")
    finished = state_of(terminal, "kept", wait=60)
    start(terminal, 900, "running")
    invoke(terminal, 0, invocationID="queued")
    terminal.type(f"curl -s -X DELETE {FUNCTIONS}/countdown")
    terminal.type("kubectl wait gpufunction/countdown -n runtime-instance --for=delete --timeout=120s")
    ended = [state_of(terminal, name) for name in ("running", "queued")]

    assert (finished["state"], finished["attempt"], finished["worker"]) == ("succeeded", 1, "countdown-1"), finished
    assert [(found["state"], found["failureClass"]) for found in ended] == [("cancelled", "function_deleted")] * 2, (
        ended
    )


def start(terminal: Terminal, seconds: float, invocation: str) -> None:
    """Begin an invocation, and wait until it runs."""
    invoke(terminal, seconds, invocationID=invocation)
    eventually(lambda: state_of(terminal, invocation)["state"] == "running")
