"""The folder of the SDK alone is enough: no other package, not even the rest of this one."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpuruntime.framework
from tests.framework.framework_scenes import connected

SDK = Path(gpuruntime.framework.__file__).parent
FUNCTION = """
import asyncio

def load():
    return "loaded"

def hello(payload, context):
    return {"hello": payload["name"], "state": context.state}

def say(payload):
    print("said", payload)

async def shout(payload):
    return payload["name"].upper()
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A directory with the SDK and a function, as in a user's image."""
    shutil.copytree(SDK, tmp_path / "gpuruntime" / "framework", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "greet.py").write_text(FUNCTION)
    return tmp_path


@contextmanager
def running(image: Path, *arguments: str, python: str = sys.executable) -> Iterator["subprocess.Popen[str]"]:
    """A process that sees the standard library and the image, and nothing that is installed."""
    start = "import sys, runpy; sys.path.append('.'); runpy.run_module('gpuruntime.framework', run_name='__main__')"
    process = subprocess.Popen(
        [python, "-I", "-S", "-c", start, *arguments],
        cwd=image,
        env={"SERVERLESS_FRAMEWORK_SOCKET_PATH": str(image / "f.sock")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "name", "body"),
    [
        (["functions/greet.py:hello", "--setup=load"], "hello", {"hello": "you", "state": "loaded"}),
        (["functions.greet:shout"], "shout", "YOU"),
    ],
)
async def test_a_copied_sdk_serves_a_function_until_sigterm(
    arguments: list[str], name: str, body: object, image: Path
) -> None:
    with running(image, *arguments) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        async with connected(image / "f.sock") as client:
            answer = await client.invoke("inv-1", {"name": "you"})
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)

    assert line == f"serving {name} on {image / 'f.sock'}\n"
    assert answer["body"] == body
    assert code == 0
    assert not (image / "f.sock").exists()


async def test_what_a_function_prints_is_in_the_log_before_the_process_ends(image: Path) -> None:
    with running(image, "functions.greet:say") as process:
        assert process.stdout is not None
        process.stdout.readline()
        async with connected(image / "f.sock") as client:
            await client.invoke("inv-1", "this")
        line = await asyncio.to_thread(process.stdout.readline)

    assert line == "said this\n"


def other_pythons() -> list[str]:
    """Interpreters on PATH of versions that an image may have. What is found may be a wrapper, which is not taken."""
    asked = ["-c", "import sys; print(sys.executable)"]
    found = [shutil.which(f"python3.{minor}") for minor in (10, 11, 12, 13, 14) if minor != sys.version_info.minor]
    runs = [subprocess.run([path, *asked], capture_output=True, text=True, check=False) for path in found if path]
    return [run.stdout.strip() for run in runs if run.returncode == 0]


async def test_the_python_of_an_image_may_be_older_or_newer_than_ours(image: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("needs another Python from 3.10 to 3.14 on PATH")
    for python in pythons:
        with running(image, "functions/greet.py:hello", "--setup=load", python=python) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            async with connected(image / "f.sock") as client:
                answer = await client.invoke("inv-1", {"name": "you"})

        assert line.startswith("serving hello")
        assert answer["body"] == {"hello": "you", "state": "loaded"}


async def test_after_a_kill_the_next_process_serves_the_same_socket(image: Path) -> None:
    for _ in range(2):
        with running(image, "functions/greet.py:hello") as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("serving")
            async with connected(image / "f.sock") as client:
                answer = await client.invoke("inv-1", {"name": "you"})
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)

        assert answer["body"] == {"hello": "you", "state": None}
        assert (image / "f.sock").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("hello", "error: expected module:function or file.py:function, got 'hello'"),
        ("nothing:hello", "error: there is no module 'nothing'"),
        ("nothing.py:hello", "error: there is no file nothing.py"),
        ("functions/greet.py:goodbye", "error: functions/greet.py has no 'goodbye'"),
        ("functions/greet.py:asyncio", "error: expected a function of (payload, context)"),
    ],
)
def test_a_target_that_names_nothing_is_one_line_and_exit_code_1(target: str, message: str, image: Path) -> None:
    with running(image, target) as process:
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 1
    assert errors.startswith(message)
    assert errors.count("\n") == 1


def test_the_sdk_imports_nothing_heavy() -> None:
    seen = subprocess.run(
        [sys.executable, "-c", "import sys, gpuruntime.framework; print(*sys.modules)"],
        env={"PYTHONPATH": str(SDK.parents[1])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert [name for name in seen if name.partition(".")[0] in {"aiohttp", "attrs", "attr", "orjson", "yaml"}] == []
    assert {name for name in seen if name.startswith("gpuruntime.")} == {
        name for name in seen if name.startswith("gpuruntime.framework")
    }
