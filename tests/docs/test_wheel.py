"""The wheel is complete, and its types are those of the source."""

import os
import subprocess
import sys
from pathlib import Path

from gpuruntime import __version__
from gpuruntime.testing import assets
from tests.docs.pages import PAGES
from tests.docs.stranger import ROOT, Stranger


def mypy(stranger: Stranger, directory: Path, *paths: str) -> str:
    """What mypy --strict says about a user's code, with our wheel as the user has it."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", os.devnull]
    done = subprocess.run(
        [*command, "--python-executable", str(stranger.python), *paths],
        cwd=directory,
        env=stranger.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_command_works(stranger: Stranger, tmp_path: Path) -> None:
    done = stranger.run(["gpuruntime", "--version"], tmp_path)

    assert done.stdout == f"gpuruntime {__version__}\n"


def test_the_wheel_knows_what_to_build(stranger: Stranger, tmp_path: Path) -> None:
    done = stranger.run([stranger.python, "-m", "gpuruntime.testing", "assets"], tmp_path)

    assert (done.returncode, Path(done.stdout.strip())) == (0, assets.locate())


def test_the_programs_of_the_pages_are_clean_to_a_strict_type_checker(stranger: Stranger, tmp_path: Path) -> None:
    for page in ("quickstart", "reconcile"):
        for name, body in PAGES[page].files.items():
            if not name.startswith("test_"):
                (tmp_path / name).write_text(body)

    assert mypy(stranger, tmp_path, "greeter.py", "mirror.py") == "Success: no issues found in 2 source files\n"


def test_types_of_the_wheel_find_a_users_mistake(stranger: Stranger, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from gpuruntime.control import ManagerOptions, Result\n\nResult.after('soon')\nManagerOptions(name=1)\n"
    )

    found = mypy(stranger, tmp_path, "wrong.py")

    assert 'Argument 1 to "after" of "Result" has incompatible type "str"; expected "float"' in found
    assert "Found 2 errors in 1 file" in found


def test_the_examples_are_clean_to_a_strict_type_checker(stranger: Stranger) -> None:
    for example, package in (("website", "website"), ("embedded", "notes")):
        said = mypy(stranger, ROOT / "examples" / example, package, "tests")
        assert said.startswith("Success: no issues found"), said
