"""README.md, docs/storage.md and docs/functions.md, their parts about a node that runs containers, on one stack."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from e2e.conftest import ROOT
from gpuruntime.testing.plugin import skip_without_real_node
from tests.docs.pages import PAGES, read_page

pytestmark = pytest.mark.real_node
START, STOP = "./hack/up --real-node --detach", "./hack/down"


def test_a_unit_answers_logs_and_ends_and_the_files_of_a_storage_are_served(tmp_path: Path) -> None:
    skip_without_real_node()
    lines = "".join(read_page(ROOT / "README.md").of("bash")).splitlines()
    storage, functions = PAGES["storage"].of("bash"), PAGES["functions"].of("bash")
    environment = {**os.environ, "GPURUNTIME_STATE": str(tmp_path / "state")}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    typed = "\n".join([*lines[:-1], *storage, *functions, lines[-1]]).replace("8081", str(port))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", typed],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    subprocess.run([ROOT / "hack" / "down"], env=environment, capture_output=True, check=True)

    assert (lines[0], lines[-1]) == (START, STOP)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Hello from a container" in done.stdout
    assert '"GET / HTTP/1.1" 200' in done.stdout
    assert "\nloss 0.1\n" in done.stdout
    assert done.stdout.count("unauthorized") == 1
    assert '{"hello":"container"}' in done.stdout
    assert "saying hello" in done.stdout


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    program = (
        "import sys, hack.dev.stack.__main__ as stack;"
        "from gpuruntime.testing import RealNodeUnavailableError;"
        "from unittest import mock;"
        "refuse = mock.Mock(side_effect=RealNodeUnavailableError('no such machine'));"
        "stack.require_real_node = refuse;"
        "sys.exit(stack.main(['up', '--real-node', '--detach']))"
    )
    environment = {**os.environ, "GPURUNTIME_STATE": str(tmp_path / "state")}

    command = ["./hack/in-venv", "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (1, "error: no such machine\n")
