"""schemathesis with the whole OpenAPI document, against a running process on its own cluster.

It asserts what follows from the document alone: no 5xx response, no undocumented status, header, content type or body,
no accepted invalid request, and no access without credentials.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from e2e.api_processes import ApiProcesses, api_processes
from gpuruntime.api.invocations.access import MANAGER_USER
from gpuruntime.testing import default_nodes
from gpuruntime.testing.nats import NatsServer
from tests.ports import free_address

# A stream does not end: tests/web/sse/test_stream_on_cluster.py and test_api_replicas.py test streams.
STREAMS: Final = ("--exclude-path-regex", "/watch$")
# The document cannot describe every conflict: two different operationIDs, a name that exists.
OPINIONS: Final = ("--exclude-checks", "positive_data_acceptance")
# Limits the units of large requests; a response about an exceeded quota is documented.
QUOTA: Final = ",".join(
    f"count/{kind}.runtime.lokiwager.io={most}"
    for kind, most in (("gpuunits", 12), ("stockpools", 6), ("gpustorages", 6), ("gpufunctions", 6))
)
ROOT: Final = Path(__file__).resolve().parents[1]


def with_queues(server: NatsServer, directory: Path) -> tuple[str, ...]:
    """The flags of a process that keeps queues and results: without them its routes of invocations answer 503."""
    user = MANAGER_USER.name
    return (
        *("--serverless-nats-urls", server.url),
        *("--serverless-nats-user-file", str(server.files.user_file(user))),
        *("--serverless-nats-password-file", str(server.files.password_file(user))),
        *("--activator-http-addr", free_address(), "--database-file", str(directory / "results.db")),
    )


def explore(processes: ApiProcesses, server: NatsServer, *options: str) -> str:
    """The findings of schemathesis, "" if there are none. Deterministic for the same options."""
    replica = processes.add("explored", *with_queues(server, processes.directory))
    command = [
        *(str(Path(sys.executable).parent / "schemathesis"), "run", f"{replica.url}/api/v1/openapi.json"),
        *("--header", f"Authorization: {processes.credentials['Authorization']}"),
        *("--request-timeout", "60", "--continue-on-failure", "--generation-deterministic", "--no-color"),
        *(*STREAMS, *OPINIONS, *options),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "e2e.schemathesis_hooks"}
    done = subprocess.run(
        command, cwd=processes.directory, env=environment, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout[-20_000:] + done.stderr[-2_000:]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--phases", "fuzzing", "--max-examples", "8"), id="sample"),
        pytest.param(
            ("--phases", "coverage,fuzzing,stateful", "--max-examples", "40"),
            id="whole",
            marks=[pytest.mark.soak, pytest.mark.timeout(1800)],
        ),
    ],
)
def test_no_valid_or_invalid_request_gets_an_undocumented_response(tmp_path: Path, options: tuple[str, ...]) -> None:
    with NatsServer(tmp_path / "nats") as server, api_processes(tmp_path, *default_nodes(1)) as processes:
        for namespace in ("runtime-stock", "runtime-instance"):
            processes.access.kubectl("create", "quota", "explored", f"--hard={QUOTA}", "--namespace", namespace)

        found = explore(processes, server, *options)

    assert not found, found
