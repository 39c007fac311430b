"""What can be said of the image without Docker; its install step is run by tests/docs, from a wheel."""

import re
from pathlib import Path

import pytest

from gpuruntime.processes.command import main

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_everything_that_is_copied_is_there_and_reaches_the_build() -> None:
    lines = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    sources = [source for line in lines for source in line.split()[:-1]]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert sources
    assert all((ROOT / source).exists() for source in sources)
    assert set(sources) <= allowed


def test_it_runs_as_nobody_and_starts_a_command_that_exists() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    (command,) = re.findall(r'^CMD \["(\w+)"', DOCKERFILE, re.MULTILINE)

    assert int(user) > 0
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
