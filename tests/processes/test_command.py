import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from gpuruntime import __version__
from gpuruntime.endpoints.auth.token_file import new_token
from gpuruntime.endpoints.server.route import Scope
from gpuruntime.processes.command import main
from gpuruntime.testing.cluster.access import kubeconfig_document
from tests.ports import free_port

COMMAND = [sys.executable, "-m", "gpuruntime.processes.command"]


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, env=env)


@contextmanager
def manager(port: int, *flags: str, env: dict[str, str] | None = None) -> Iterator[tuple[Any, IO[str]]]:
    """A manager and its log, after its first log line."""
    command = [*COMMAND, "manager", "--http-addr", f"127.0.0.1:{port}", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        try:
            process.stderr.readline()
            yield process, process.stderr
        finally:
            process.kill()


def fetch(url: str) -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - an http address
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode(), dict(refusal.headers)


@pytest.fixture
def without_cluster(tmp_path: Path) -> dict[str, str]:
    """An environment without a cluster."""
    return {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"HOME": str(tmp_path)}


@pytest.fixture
def dead_kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig of a server that does not answer."""
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig_document("http://127.0.0.1:1", b"", {})))
    return str(file)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    assert "controller-manager" in capsys.readouterr().out
    assert run("--version").stdout == f"gpuruntime {__version__}\n"


def test_a_port_in_use_is_one_line_and_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = run("manager", "--http-addr", f"127.0.0.1:{port}", "--kube-mode", "off")

    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--kube-mode", "off", "--token-file", "/nowhere"), "token file /nowhere "),
        (("--kube-mode", "off", "--tls-cert", "/a", "--tls-key", "/b"), "certificate /a with key /b"),
    ],
)
def test_an_error_that_the_operator_can_fix_is_one_line_and_exit_code_1(
    flags: tuple[str, ...], named: str, without_cluster: dict[str, str]
) -> None:
    done = run("manager", *flags, env=without_cluster)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {named}")
    assert done.stderr.count("\n") == 1


def test_a_required_cluster_that_does_not_answer_is_one_line_and_exit_code_1(dead_kubeconfig: str) -> None:
    done = run("manager", "--kube-mode", "required", "--kubeconfig", dead_kubeconfig)

    assert done.returncode == 1
    assert done.stderr.startswith("error: the cluster at http://127.0.0.1:1 does not answer: GET /version: ")
    assert done.stderr.count("\n") == 1


def test_in_mode_off_it_serves_from_memory_until_ctrl_c() -> None:
    port = free_port()
    with manager(port, "--kube-mode", "off") as (process, log):
        url = f"http://127.0.0.1:{port}"
        probes = [fetch(f"{url}/{path}")[:2] for path in ("livez", "healthz", "readyz")]
        health = json.loads(fetch(f"{url}/api/v1/health")[1])["data"]

        process.send_signal(signal.SIGINT)

        assert process.wait() == 0
        assert "Traceback" not in log.read()
    assert probes == [(200, "ok")] * 3
    assert (health["kubernetesConnected"], health["nodeCount"], health.get("kubeError")) == (False, 0, None)


def test_until_the_cluster_answers_it_is_not_ready_and_responds_503(without_cluster: dict[str, str]) -> None:
    port = free_port()
    with manager(port, env=without_cluster) as (process, log):
        url = f"http://127.0.0.1:{port}"
        alive = fetch(f"{url}/livez")
        ready = fetch(f"{url}/readyz?verbose")
        health = fetch(f"{url}/api/v1/health")
        units = fetch(f"{url}/api/v1/gpu-units")
        stocks = fetch(f"{url}/api/v1/stocks")

        process.terminate()

        assert process.wait() == 0
        assert "Traceback" not in log.read()
    assert (alive[0], ready[0], health[0]) == (200, 500, 200)
    assert "[-]caches failed: not synced: " in ready[1]
    state = json.loads(health[1])["data"]
    assert (state["kubernetesConnected"], state["kubeError"].startswith("no credentials: ")) == (False, True)
    for refusal in (units, stocks):
        error = json.loads(refusal[1])["error"]
        assert (refusal[0], error["code"], refusal[2]["Retry-After"]) == (503, "service_unavailable", "2")
        assert re.match("the caches have not synced yet: ", error["message"])


def test_with_a_token_file_callers_need_tokens(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    made = new_token("reader", Scope.READ)
    tokens.write_text(made.line)
    port = free_port()
    with manager(port, "--kube-mode", "off", "--token-file", str(tokens)):
        url = f"http://127.0.0.1:{port}/api/v1/vms"
        refused = fetch(url)
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {made.token}"})

        with urllib.request.urlopen(request) as answer:  # noqa: S310 - an http address
            allowed = answer.status

    assert (refused[0], allowed) == (401, 200)
