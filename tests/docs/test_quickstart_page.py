"""The quickstart, word for word: what it says to type is typed into three terminals."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.pages import PAGES
from tests.docs.stranger import Stranger

PAGE = PAGES["quickstart"]
LIMIT = 25
# The reader sees in the second terminal that the kind is known; a program has to ask.
UNTIL_KNOWN = "until kubectl get greetings >/dev/null 2>&1; do sleep 0.2; done\n"


@contextmanager
def terminal(commands: str, stranger: Stranger, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell that runs the commands until the block ends."""
    # A session of its own, as a terminal has: the signal reaches everything in it and nothing else. It is not that of
    # Ctrl-C, which is disabled in a test run that somebody started in the background.
    shell = subprocess.Popen(
        ["bash", "-euc", commands],
        cwd=directory,
        env=stranger.environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with shell:
        try:
            yield shell
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGTERM)


def test_the_program_has_fewer_than_25_lines() -> None:
    lines = [line for line in PAGE.files["greeter.py"].splitlines()[1:] if line.strip()]

    assert len(lines) < LIMIT


def test_what_the_page_says_to_type_does_what_it_says(stranger: Stranger, tmp_path: Path) -> None:
    install, cluster, run, see = PAGE.of("sh")
    (shown,) = PAGE.of("text")
    place = PAGE.lay_out(tmp_path)
    # The stranger has installed it already, and calls the environment as the page does.
    (place / "venv").symlink_to(stranger.programs.parent)

    with terminal(cluster, stranger, place) as control_plane:
        assert control_plane.stdout is not None
        assert control_plane.stdout.readline().startswith("export KUBECONFIG=")
        with terminal(run, stranger, place):
            known = subprocess.run(
                ["bash", "-euc", see.replace("kubectl apply", UNTIL_KNOWN + "kubectl apply", 1)],
                cwd=place,
                env=stranger.environment,
                capture_output=True,
                text=True,
                check=False,
            )

    assert "pip install './gpuruntime[testing]'" in install
    assert (known.stdout, known.stderr) == (shown, "")
