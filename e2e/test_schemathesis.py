"""schemathesis over the whole description of the API, against a running process on a cluster of its own.

It asserts what it can tell by the description alone: no answer of 5xx, no status, header, content type or body that is
not described, nothing invalid that is accepted, nobody let in without credentials.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from e2e.api_processes import ApiProcesses, api_processes
from gpuruntime.testing import default_nodes

# A stream has no end to wait for: tests/web/sse/test_stream_on_cluster.py and test_api_replicas.py follow streams.
STREAMS: Final = ("--exclude-path-regex", "/watch$")
# A description cannot say all that makes a request impossible: two operationIDs that differ, a name that is taken.
OPINIONS: Final = ("--exclude-checks", "positive_data_acceptance")
# Whoever asks for ten thousand units shall not get them: a refusal of the cluster is an answer like any other.
QUOTA: Final = "count/gpuunits.runtime.lokiwager.io=12,count/stockpools.runtime.lokiwager.io=6"
ROOT: Final = Path(__file__).resolve().parents[1]


def explore(processes: ApiProcesses, *options: str) -> str:
    """What schemathesis finds; "" if that is nothing. With the same options it sends the same."""
    replica = processes.add("explored")
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
def test_no_request_that_follows_or_breaks_the_description_gets_an_answer_that_is_not_described(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with api_processes(tmp_path, *default_nodes(1)) as processes:
        for namespace in ("runtime-stock", "runtime-instance"):
            processes.access.kubectl("create", "quota", "explored", f"--hard={QUOTA}", "--namespace", namespace)

        found = explore(processes, *options)

    assert not found, found
