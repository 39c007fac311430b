import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpuruntime.processes.running import configure_logging
from gpuruntime.service.log_context import current_request_id

HANGING = """
import asyncio
from gpuruntime.processes.running import configure_logging, run_process

async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def process():
    tasks.append(asyncio.create_task(stubborn(), name="stubborn"))
    await asyncio.sleep(0)

tasks = []
configure_logging()
run_process(process())
"""
OPEN_FILES = (
    "import resource; from gpuruntime.processes.running import raise_open_files; raise_open_files();"
    "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)


@pytest.fixture
def restored_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_task_that_does_not_end_is_logged_by_name_and_does_not_keep_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, check=False, timeout=120)

    line = json.loads(done.stderr)
    assert done.returncode == 1
    assert (line["message"], line["tasks"]) == ("exiting without tasks that did not end", ["stubborn"])


@pytest.mark.usefixtures("restored_root_logger")
def test_lines_that_are_logged_while_a_request_is_served_carry_its_id() -> None:
    stream = io.StringIO()
    configure_logging(stream)

    token = current_request_id.set("r-1")
    try:
        logging.getLogger("unit").info("claimed", extra={"unit": "a-1"})
    finally:
        current_request_id.reset(token)
    logging.getLogger("unit").info("idle")

    served, idle = map(json.loads, stream.getvalue().splitlines())
    assert {"message": "claimed", "unit": "a-1", "request_id": "r-1"}.items() <= served.items()
    assert "request_id" not in idle


@pytest.mark.parametrize(("soft", "hard", "found"), [(64, 512, "512 512"), (256, 256, "256 256")])
def test_the_open_files_limit_is_raised_to_the_hard_limit(soft: int, hard: int, found: str) -> None:
    command = f'ulimit -n {hard}; ulimit -S -n {soft}; exec "$@"'

    ran = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-c", OPEN_FILES], capture_output=True, text=True, check=True
    )

    assert ran.stdout.strip() == found
