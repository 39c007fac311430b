"""The whole path of an invocation for tests: `gpuruntime manager` as a process, with a real NATS server."""

import http.client
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from gpuruntime.api.invocations.access import MANAGER_USER
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.nats import NatsServer
from tests.ports import free_address, free_port

__all__ = ["ServedFunctions", "served_functions", "until"]

_PATIENCE_SECONDS = 120.0


@frozen
class ServedFunctions:
    """The API of a running manager."""

    url: str

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """A request to /api/v1/serverless; returns the status, and the data or the error of the response."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - a URL of this machine
            f"{self.url}/api/v1/serverless/{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as response:  # noqa: S310 - see above
                status, answer = response.status, json.loads(response.read() or "{}")
        except urllib.error.HTTPError as error:
            status, answer = error.code, json.load(error)
        return status, answer.get("data", answer.get("error"))

    def call(self, function: str, payload: Any) -> Any:
        """The result of a synchronous invocation."""
        body = {"serverlessRequestID": function, "mode": "sync", "payload": payload, "timeoutSeconds": 60}
        status, answer = self.send("POST", "invocations", body)
        assert status == 200, answer
        return answer

    def start(self, function: str, invocation: str, payload: Any) -> None:
        """Begin an asynchronous invocation, and wait until it runs."""
        body = {"serverlessRequestID": function, "invocationID": invocation, "payload": payload}
        status, answer = self.send("POST", "invocations", body)
        assert status == 202, answer
        until(lambda: self.state(function, invocation)["state"] == "running")

    def state(self, function: str, invocation: str, wait: int = 0) -> Any:
        return self.send("GET", f"invocations/{invocation}?serverlessRequestID={function}&wait={wait}")[1]


@contextmanager
def served_functions(
    access: ClusterAccess, nats: NatsServer, namespaces: tuple[str, str], directory: Path, *, host: str, image: str
) -> Iterator[ServedFunctions]:
    """Run a manager for the namespaces of active units and of stock.

    Its activator listens on the address `host`; sidecars have the image `image`.
    """
    instance, stock = namespaces
    address, activator, user = free_address(), f"{host}:{free_port()}", MANAGER_USER.name
    config = {
        "httpAddr": address,
        "kubeMode": "required",
        "minReadySeconds": 0,
        "namespaces": {"instance": [instance], "stock": [stock], "system": instance},
        "serverless": {
            "nats": {
                "urls": [nats.url],
                "userFile": str(nats.files.user_file(user)),
                "passwordFile": str(nats.files.password_file(user)),
            },
            "sidecarImage": image,
            "activatorURL": f"ws://{activator}",
        },
        "activator": {"httpAddr": activator},
        "database": {"file": str(directory / "results.db")},
    }
    file, log = directory / "manager.yaml", directory / "manager.log"
    file.write_text(json.dumps(config))
    flags = ["--config", str(file), "--kubeconfig", str(access.kubeconfig)]
    with log.open("wb") as output:
        command = [sys.executable, "-m", "gpuruntime.processes.command", "manager", *flags]
        manager = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        until(lambda: _is_ready(f"http://{address}") or manager.poll() is not None)
        assert manager.poll() is None, log.read_text()[-4000:]
        yield ServedFunctions(f"http://{address}")
    finally:
        manager.terminate()
        manager.wait()


def until(condition: Callable[[], bool]) -> None:
    """Poll for a condition without an event."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition does not hold"
        time.sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5):  # noqa: S310 - a URL of this machine
            return True
    except (OSError, http.client.HTTPException):
        return False
