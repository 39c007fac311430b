"""Each point of the comparison has a command, and each command selects tests or scenarios."""

import json
import re
import shlex
import subprocess
import sys

from hack.benchmarks.scenario import load_scenarios
from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "comparison.md").read_text()
COMMANDS = re.findall(r"`(\./hack/(?:test|bench)[^`]* [^`]*)`", PAGE)
# In one process, because most of the time goes into imports.
COLLECT = """
import json, sys, pytest
options = ["-c", "tox.ini", "--collect-only", "-q", "-p", "no:cacheprovider"]
print(json.dumps([pytest.main([*options, *selection]) for selection in json.loads(sys.argv[1])]))
"""
TESTS = sorted({command for command in COMMANDS if command.startswith("./hack/test")})


def test_there_are_sixteen_points_each_with_a_command() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d+\. ", line)]

    numbers = [int(re.findall(r"\d+", row)[0]) for row in rows]

    assert numbers == list(range(1, 17))
    assert all("`./hack/" in row.rsplit(" | ", 1)[-1] for row in rows)


def test_every_bench_command_names_a_scenario() -> None:
    benches = [shlex.split(command) for command in COMMANDS if command.startswith("./hack/bench library --only")]

    assert {bench[-1] for bench in benches} <= set(load_scenarios())


def test_every_test_command_selects_tests() -> None:
    selections = [shlex.split(command)[1:] for command in TESTS]

    done = subprocess.run(
        [sys.executable, "-c", COLLECT, json.dumps(selections)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    codes = json.loads(done.stdout.splitlines()[-1])
    assert dict(zip(TESTS, codes, strict=True)) == dict.fromkeys(TESTS, 0), done.stdout + done.stderr
