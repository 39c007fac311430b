import json
import subprocess
import sys

SCRIPT = """
import asyncio
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.running import run_process

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


def test_a_task_that_will_not_end_is_named_and_does_not_keep_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)

    line = json.loads(done.stderr)
    assert done.returncode == 1
    assert (line["message"], line["tasks"]) == ("exiting without tasks that did not end", ["stubborn"])
