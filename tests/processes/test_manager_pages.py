"""The pages of a manager that callers need a token for."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from gpuruntime.endpoints.auth.token_file import new_token
from gpuruntime.endpoints.server.route import Scope
from tests.ports import free_address

_COMMAND: Final = (sys.executable, "-m", "gpuruntime.processes.command", "manager", "--kube-mode", "off")
_PAGES: Final = ("/livez", "/readyz", "/metrics", "/debug/queues", "/api/v1/health")


def status(url: str, token: str = "") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - an http address
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - an http address
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def pages(tmp_path: Path, *flags: str, tokens: tuple[str, ...]) -> list[list[int]]:
    """The statuses of the pages of a process with these flags, for the callers with these tokens ("" has none)."""
    address = free_address()
    log = tmp_path / "log"
    command = [*_COMMAND, "--http-addr", address, *flags]
    with log.open("wb") as file, subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file) as process:
        try:
            while b"\n" not in log.read_bytes():  # the first log line is the only sign that it listens
                time.sleep(0.05)
            return [[status(f"http://{address}{page}", token) for page in _PAGES] for token in tokens]
        finally:
            process.terminate()


def test_metrics_and_debug_pages_on_the_port_of_the_api_need_a_token_where_the_api_does(tmp_path: Path) -> None:
    reader, operator = new_token("prometheus", Scope.READ), new_token("admin", Scope.OPERATOR)
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    file.write_text(f"{reader.line}\n{operator.line}\n")
    tokens = ("", "wrong", reader.token, operator.token)

    found = pages(tmp_path, "--token-file", str(file), tokens=tokens)

    assert found == [
        [200, 200, 401, 401, 401],
        [200, 200, 401, 401, 401],
        [200, 200, 200, 403, 200],
        [200, 200, 200, 200, 200],
    ]


def test_callers_on_this_machine_need_no_token_where_none_is_configured(tmp_path: Path) -> None:
    assert pages(tmp_path, tokens=("",)) == [[200, 200, 200, 200, 200]]
