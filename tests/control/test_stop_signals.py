import asyncio
import json
import os
import signal
import subprocess
import sys

from gpuruntime.control.stop_signals import StopSignals

SCRIPT = """
import asyncio, logging
from gpuruntime.control.log_format import configure_logging
from gpuruntime.control.stop_signals import StopSignals

async def main():
    with StopSignals(lambda: None, lambda: ["work"]):
        print("listening", flush=True)
        await asyncio.Event().wait()

configure_logging(format="json")
asyncio.run(main())
"""


async def test_the_first_signal_stops_and_handlers_are_removed_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    asked = asyncio.Event()

    with StopSignals(asked.set, list):
        os.kill(os.getpid(), signal.SIGTERM)
        await asked.wait()

    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_signal_kills_the_process_and_logs_the_running_tasks() -> None:
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        first = json.loads(process.stderr.readline())

        process.send_signal(signal.SIGINT)

        second = json.loads(process.stderr.readline())
        assert process.wait() == -signal.SIGINT
    assert (first["message"], first["signal"]) == ("stopping", "SIGTERM")
    assert (second["message"], second["tasks"]) == ("second signal, exiting immediately", ["work"])
