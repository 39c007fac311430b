"""README.md, word for word: its commands work on the stack that it starts."""

import json
import re
import subprocess

import pytest

from e2e.conftest import ROOT, Terminal
from tests.docs.pages import read_page

START, STOP = "./hack/up --detach", "./hack/down"


@pytest.mark.usefixtures("hello")
def test_the_commands_of_the_page_create_a_unit_claim_another_and_invoke_a_function(terminal: Terminal) -> None:
    lines = "".join(read_page(ROOT / "README.md").of("sh")).splitlines()

    # The stack runs already, on a port of its own.
    typed = "\n".join(line for line in lines if line not in {START, STOP})
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", typed],
        cwd=ROOT,
        env=terminal.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (lines[0], lines[-1]) == (START, STOP)
    assert done.returncode == 0, done.stdout + done.stderr
    claimed, answered = (
        json.JSONDecoder().raw_decode(done.stdout, begin.start())[0]["data"]
        for begin in re.finditer(r'\{"data"', done.stdout)
    )
    assert (claimed["name"], claimed["phase"], claimed["gpu"]) == ("first", "Ready", 1)
    assert (answered["state"], answered["body"]) == ("succeeded", {"hello": "you"})
