import argparse
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from gpuruntime import __version__
from gpuruntime.processes.command import http_address
from gpuruntime.processes.manager import HttpAddress

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


def test_a_port_in_use_is_one_line_and_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = run("manager", "--http-addr", f"127.0.0.1:{port}")

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}: ")
    assert done.stderr.endswith("; choose another --http-addr\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_manager_serves_until_it_is_told_to_stop(number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [*COMMAND, "manager", "--http-addr", f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        started = process.stderr.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as response:
            assert response.read() == b"ok\n"

        process.send_signal(number)

        assert process.wait() == 0
        assert '"message": "manager started"' in started
        assert '"message": "manager stopping"' in process.stderr.read()
