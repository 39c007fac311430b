"""Each point of the comparison has a command, and each command selects tests or scenarios."""

import re
import shlex
import subprocess
import sys

import pytest

from hack.benchmarks.scenario import load_scenarios
from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "comparison.md").read_text()
COMMANDS = re.findall(r"`(\./hack/(?:test|bench)[^`]* [^`]*)`", PAGE)
TESTS = sorted({command for command in COMMANDS if command.startswith("./hack/test")})


def test_there_are_sixteen_points_each_with_a_command() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d+\. ", line)]

    numbers = [int(re.findall(r"\d+", row)[0]) for row in rows]

    assert numbers == list(range(1, 17))
    assert all("`./hack/" in row.rsplit(" | ", 1)[-1] for row in rows)


def test_every_bench_command_names_a_scenario() -> None:
    benches = [shlex.split(command) for command in COMMANDS if command.startswith("./hack/bench library --only")]

    assert {bench[-1] for bench in benches} <= set(load_scenarios())


@pytest.mark.parametrize("command", TESTS)
def test_every_test_command_selects_tests(command: str) -> None:
    _, *arguments = shlex.split(command)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "tox.ini", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
