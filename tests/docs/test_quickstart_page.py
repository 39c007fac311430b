"""docs/quickstart.md, word for word: its commands run in three terminals."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.pages import PAGES
from tests.docs.wheel_environment import WheelEnvironment

PAGE = PAGES["quickstart"]
LIMIT = 30
# A reader sees in the second terminal that the kind exists; a program has to poll.
UNTIL_KNOWN = "until kubectl get greetings >/dev/null 2>&1; do sleep 0.2; done\n"


@contextmanager
def terminal(commands: str, wheel: WheelEnvironment, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell that runs the commands until the block ends."""
    # Its own session, like a terminal: the signal reaches everything in it and nothing else. It is not SIGINT, which a
    # shell disables for background jobs.
    shell = subprocess.Popen(
        ["bash", "-euc", commands],
        cwd=directory,
        env=wheel.environment,
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


def test_the_commands_of_the_page_print_what_it_shows(wheel: WheelEnvironment, tmp_path: Path) -> None:
    install, cluster, run, see = PAGE.of("sh")
    (shown,) = PAGE.of("text")
    folder = PAGE.lay_out(tmp_path)
    # The package is installed already; the environment has the name that the page uses.
    (folder / "venv").symlink_to(wheel.programs.parent)

    with terminal(cluster, wheel, folder) as control_plane:
        assert control_plane.stdout is not None
        assert control_plane.stdout.readline().startswith("export KUBECONFIG=")
        with terminal(run, wheel, folder):
            known = subprocess.run(
                ["bash", "-euc", see.replace("kubectl apply", UNTIL_KNOWN + "kubectl apply", 1)],
                cwd=folder,
                env=wheel.environment,
                capture_output=True,
                text=True,
                check=False,
            )

    assert "pip install './gpuruntime[testing]'" in install
    assert (known.stdout, known.stderr) == (shown, "")
