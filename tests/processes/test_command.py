import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from gpuruntime import __version__
from gpuruntime.control.operations.http_site import HttpAddress
from gpuruntime.processes.command import http_address
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.access import kubeconfig_document
from gpuruntime.testing.plugin import AccountFactory

COMMAND = [sys.executable, "-m", "gpuruntime.processes.command"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_version_and_help_teach() -> None:
    assert run("--version").stdout == f"gpuruntime {__version__}\n"
    assert "manager" in run("--help").stdout
    assert "--http-addr HOST:PORT" in run("manager", "--help").stdout


@pytest.mark.parametrize(
    ("text", "address", "url"),
    [
        ("127.0.0.1:8080", HttpAddress("127.0.0.1", 8080), "http://127.0.0.1:8080"),
        (":80", HttpAddress("0.0.0.0", 80), "http://0.0.0.0:80"),
        ("[::1]:0", HttpAddress("::1", 0), "http://[::1]:0"),
    ],
)
def test_addresses_are_read(text: str, address: HttpAddress, url: str) -> None:
    assert http_address(text) == address
    assert address.url == url


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:http", "host:65536", "host:-1", "host:²"])
def test_what_is_no_address_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected host:port with a port of 0 to 65535"):
        http_address(text)


def test_a_port_in_use_is_one_line_and_exit_code_1(kube_cluster: ClusterAccess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = run("manager", "--http-addr", f"127.0.0.1:{port}", "--kubeconfig", str(kube_cluster.kubeconfig))

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: cannot listen on 127.0.0.1:{port}: ")


def test_no_credentials_are_one_line_and_exit_code_1(tmp_path: Path) -> None:
    nowhere = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"HOME": str(tmp_path)}

    done = subprocess.run([*COMMAND, "manager"], capture_output=True, text=True, check=False, env=nowhere)

    assert done.returncode == 1
    assert done.stderr.startswith("error: no credentials: KUBECONFIG is not set, ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_manager_serves_until_it_is_told_to_stop(kube_account: AccountFactory, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [*COMMAND, "manager", "--http-addr", f"127.0.0.1:{port}", "--kubeconfig", str(kube_account().kubeconfig)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert '"message": "leading"' in process.stderr.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as response:
            assert response.read() == b"ok"

        process.send_signal(number)

        assert process.wait() == 0
        assert "Traceback" not in process.stderr.read()


def test_readiness_follows_the_api_server(tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(json.dumps(kubeconfig_document("http://127.0.0.1:1", b"", {})))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [*COMMAND, "manager", "--http-addr", f"127.0.0.1:{port}", "--kubeconfig", str(nowhere)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.read() == b"ok"
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz?verbose")
        with refusal.value:
            assert b"[-]cluster failed: GET /version" in refusal.value.read()

        process.terminate()
        assert process.wait() == 0
