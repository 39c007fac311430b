"""A function that writes down each start and the end of its process, and what a test reads of it."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.testing.local_workers.worker_pods import write_function

__all__ = ["Witness"]

_CODE = """
import atexit, json, os

def note(**fields):
    with open(os.environ["WITNESS"], "a") as file:
        file.write(json.dumps(fields) + "\\n")

note(event="start", pid=os.getpid(), env=dict(os.environ))
atexit.register(note, event="end", pid=os.getpid())

def echo(payload, context):
    return payload
"""


@frozen
class Witness:
    """The file that the function writes to."""

    file: Path

    @classmethod
    def at(cls, functions: Path) -> "Witness":
        """Put the function into a directory as echo.py."""
        write_function(functions, code=_CODE)
        return cls(functions / "witness.jsonl")

    @property
    def envs(self) -> dict[str, str]:
        return {"WITNESS": str(self.file)}

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def kill(self) -> None:
        """Kill the process that was started last."""
        os.kill(self.events("start")[-1]["pid"], signal.SIGKILL)

    @property
    def socket(self) -> Path:
        return Path(self.events("start")[-1]["env"]["SERVERLESS_FRAMEWORK_SOCKET_PATH"])
