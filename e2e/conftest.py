"""A stack that the walk-throughs of an xdist worker share, and a shell that uses it."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests.ports import free_port
from tests.programs import require_program

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = "http://127.0.0.1:8080"
# Commands of pages run unchanged; a wrapper of curl records the headers of the last response.
PRELUDE = """
curl() { command curl --dump-header headers.txt "$@"; }
open() { curl -sf "$1"; }
"""
# Functions and pools first: they replace units that are deleted. A unit is gone when its children are, except for a
# Deployment that a run created in the same moment; the garbage collector deletes that one later.
EMPTY = """
for kind in gpufunctions stockpools gpuunits operations; do
  kubectl delete $kind.runtime.lokiwager.io --all --all-namespaces --cascade=foreground --timeout=120s
done
# Refused while the pod of a deleted unit has it.
timeout 120 bash -c 'until kubectl delete gpustorages --all --all-namespaces --timeout=90s; do sleep 0.2; done'
for namespace in runtime-stock runtime-instance; do
  if [ -n "$(kubectl get deployments -n $namespace -o name)" ]; then
    kubectl wait deployments --all -n $namespace --for=delete --timeout=120s
  fi
done
"""
# What ./hack/up does last.
HELLO = f"""
kubectl apply -f {ROOT}/examples/functions/hello.yaml
kubectl wait -f {ROOT}/examples/functions/hello.yaml --for=condition=Ready --timeout=120s
"""
STATUS = re.compile(r"HTTP/1\.1 (\d+)")


@frozen
class Terminal:
    """A shell with the environment of `hack/env`, in its own directory."""

    directory: Path
    environment: dict[str, str]
    url: str

    def type(self, commands: str) -> str:
        """Run commands and return their output; only the port of the API is replaced."""
        script = PRELUDE + commands.replace(WRITTEN, self.url)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, commands: str) -> tuple[int, Any]:
        """Run a curl command; returns the status of the response, and its data or error."""
        body = json.loads(self.type(commands))
        found = STATUS.findall((self.directory / "headers.txt").read_text())
        return int(found[-1]), body.get("data", body.get("error"))


def hack(command: str, *arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "hack" / command, *arguments], env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The URL of a stack, and the environment of a shell that uses it."""
    require_program("curl")
    require_program("jq")
    environment = {**os.environ, "GPURUNTIME_STATE": str(tmp_path_factory.mktemp("stack") / "state")}
    port = free_port()
    up = hack("up", "--detach", "--port", str(port), env=environment)
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        shell = subprocess.run(
            ["bash", "-c", f'eval "$({ROOT}/hack/env)" && env -0'], env=environment, capture_output=True, check=True
        )
        lines = shell.stdout.decode().rstrip("\0").split("\0")
        variables = dict(line.split("=", 1) for line in lines)
        # Walk-throughs begin without units; those that need the function have `hello`.
        delete = ["kubectl", "delete", "gpufunctions", "--all", "--all-namespaces"]
        subprocess.run(delete, env=variables, capture_output=True, check=True)
        yield f"http://127.0.0.1:{port}", variables
    finally:
        hack("down", env=environment)


@pytest.fixture
def terminal(stack: tuple[str, dict[str, str]], tmp_path: Path) -> Iterator[Terminal]:
    """A terminal on a stack without units, pools and jobs."""
    url, environment = stack
    opened = Terminal(tmp_path, environment, url)
    yield opened
    opened.type(EMPTY)


@pytest.fixture
def hello(terminal: Terminal) -> None:
    """The function that a fresh stack has."""
    terminal.type(HELLO)
