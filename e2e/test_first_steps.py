"""A new user starts the stack, uses it, and stops it."""

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from tests.ports import free_port
from tests.programs import require_program

ROOT = Path(__file__).resolve().parents[1]
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def checkout(tmp_path: Path) -> dict[str, str]:
    """An environment with its own state directory."""
    require_program("curl")
    require_program("pgrep")
    return {**os.environ, "GPURUNTIME_STATE": str(tmp_path / "state")}


def hack(command: str, *arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "hack" / command, *arguments], env=env, capture_output=True, text=True, check=False)


def processes_of(state: str) -> list[str]:
    listing = subprocess.check_output(["ps", "-eo", "args"], text=True)
    return [line for line in listing.splitlines() if state in line]


@contextmanager
def foreground(*arguments: str, env: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """`hack/up`, once its stack is up; the block sends it a signal, and its exit is awaited."""
    with subprocess.Popen([ROOT / "hack" / "up", *arguments], env=env, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        assert any("The stack is up." in line for line in up.stdout)
        try:
            yield up
            up.stdout.read()
        finally:
            up.terminate()


def shell(script: str, env: dict[str, str]) -> str:
    command = f'eval "$({ROOT}/hack/env)" && {script}'
    return subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=True).stdout


def assert_one_line(error: str, named: str) -> None:
    assert error.startswith("error: ")
    assert named in error
    assert error.count("\n") == 1


def test_up_detached_then_env_then_down(checkout: dict[str, str], tmp_path: Path) -> None:
    port = free_port()

    up = hack("up", "--detach", "--port", str(port), "--nodes", "2", "--gpus", "4", env=checkout)
    try:
        assert up.returncode == 0, up.stderr
        assert f"API          http://127.0.0.1:{port}" in up.stdout
        nodes = json.loads(shell("kubectl get nodes -o json", checkout))["items"]
        assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["4", "4"]
        assert shell("curl -s $GPURUNTIME_URL/readyz", checkout) == "ok"
        config = json.loads(shell("kubectl config view --raw -o json", checkout))
        config["users"][0]["user"] = {"token": shell("echo -n $GPURUNTIME_TOKEN", checkout)}
        developer = tmp_path / "developer.kubeconfig"
        developer.write_text(json.dumps(config))
        who = shell(f"kubectl --kubeconfig {developer} auth whoami", checkout)
        assert "system:serviceaccount:gpuruntime-system:gpuruntime-developer" in who
        bearer = "curl -s -o /dev/null -w '%{http_code}' -H"
        known = shell(f'{bearer} "Authorization: Bearer $GPURUNTIME_TOKEN" $GPURUNTIME_URL/api/v1/gpu-units', checkout)
        unknown = shell(f'{bearer} "Authorization: Bearer nobody" $GPURUNTIME_URL/api/v1/gpu-units', checkout)
        assert (known, unknown) == ("200", "401")
        claimed = f"echo '{json.dumps(CLAIM)}' | kubectl create -f - && kubectl wait pvc/data --timeout=60s"
        shell(f"{claimed} --for=jsonpath={{.status.phase}}=Bound", checkout)
        again = hack("up", env=checkout)
        assert again.returncode == 1
        assert_one_line(again.stderr, "./hack/down")
    finally:
        down = hack("down", env=checkout)

    assert (down.returncode, down.stderr) == (0, "")
    assert processes_of(checkout["GPURUNTIME_STATE"]) == []
    assert_one_line(hack("env", env=checkout).stderr, "./hack/up")
    assert hack("down", env=checkout).returncode == 0


def test_a_stack_whose_foreground_process_is_killed_leaves_no_process(checkout: dict[str, str]) -> None:
    with foreground("--port", str(free_port()), "--nodes", "1", env=checkout) as up:
        up.kill()

    assert up.returncode == -signal.SIGKILL
    assert hack("down", env=checkout).returncode == 0
    assert processes_of(checkout["GPURUNTIME_STATE"]) == []


def test_on_an_existing_cluster_the_manager_has_its_own_service_account_and_ctrl_c_stops_it(
    checkout: dict[str, str], kube_cluster: ClusterAccess
) -> None:
    with foreground("--kubeconfig", str(kube_cluster.kubeconfig), env=checkout) as up:
        identity = json.loads((Path(checkout["GPURUNTIME_STATE"]) / "manager.kubeconfig").read_text())
        url = shell("echo $GPURUNTIME_URL", checkout).strip()
        with urllib.request.urlopen(f"{url}/healthz") as response:  # noqa: S310 - an http address
            health = response.status
        up.send_signal(signal.SIGINT)

    assert (list(identity["users"][0]["user"]), health, up.returncode) == (["token"], 200, 0)
    assert processes_of(checkout["GPURUNTIME_STATE"]) == []


def test_a_user_error_is_one_line(checkout: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        in_use = hack("up", "--detach", "--port", str(port), env=checkout)
    no_file = hack("up", "--kubeconfig", str(tmp_path / "missing"), env=checkout)
    no_docker = hack("up", "--kind", env={**checkout, "PATH": without_docker(checkout["PATH"])})
    old_python = hack("up", env={**checkout, "PYTHON": "/bin/false"})

    assert_one_line(in_use.stderr, f"--port {port} ")
    assert_one_line(no_file.stderr, f"--kubeconfig {tmp_path}/missing")
    assert no_docker.stderr.startswith("error: --kind ")
    assert old_python.stderr.startswith("error: Python 3.11 ")
    assert "/bin/false" in old_python.stderr
    assert {done.returncode for done in (in_use, no_file, no_docker, old_python)} == {1}


def without_docker(path: str) -> str:
    return ":".join(part for part in path.split(":") if not (Path(part) / "docker").exists())
