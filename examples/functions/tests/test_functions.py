"""The functions, served as in a worker, and called as their sidecar calls them: HTTP on a unix socket."""

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FUNCTIONS = Path(__file__).resolve().parents[1]


class Served(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def ask(path: Path, method: str, target: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    connection = Served(path)
    connection.request(method, target, None if body is None else json.dumps(body))
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if text.startswith(b"{") else text


@contextmanager
def served(target: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fn-") as directory:
        path = Path(directory) / "f.sock"
        command = [sys.executable, "-m", "gpuruntime.framework", target, "--socket", str(path)]
        process = subprocess.Popen(command, cwd=FUNCTIONS)
        try:
            while not path.exists() or ask(path, "GET", "/healthz")[0] != 200:
                assert process.poll() is None
                time.sleep(0.02)  # a starting process has no event to await
            yield path
        finally:
            process.terminate()
            process.wait()


def test_hello_greets() -> None:
    with served("hello.py:hello") as path:
        status, answer = ask(path, "POST", "/invoke", {"invocationID": "1", "payload": {"name": "you"}})

    assert (status, answer["statusCode"], answer["body"]) == (200, 200, {"hello": "you"})


def test_a_countdown_ends_when_it_is_cancelled() -> None:
    answers: list[Any] = []

    with served("countdown.py:countdown") as path:
        invocation = {"invocationID": "1", "payload": {"seconds": 600}}
        caller = threading.Thread(target=lambda: answers.append(ask(path, "POST", "/invoke", invocation)))
        caller.start()
        while ask(path, "POST", "/cancel/1")[0] == 404:
            time.sleep(0.02)  # it has not begun
        caller.join()

    ((status, answer),) = answers
    assert (status, answer["body"]) == (200, {"finished": False})
