"""The wheel is complete, and has the types of the source."""

import shutil
import subprocess
import sys
from pathlib import Path

from gpuruntime import __version__
from gpuruntime.testing import assets
from tests.docs.pages import PAGES, read_page
from tests.docs.wheel_environment import ROOT, WheelEnvironment

# What a reader of README.md finds in examples/website, of which the snippet is an excerpt.
IMPORTS = """
from datetime import UTC, datetime

from gpuruntime.control import Context, Manager, ManagerOptions, Result
from gpuruntime.kube import infer
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, Service
from website.children import deployment_of, page_of, service_of, status_of
from website.kind import Website

"""


def mypy(wheel: WheelEnvironment, directory: Path, *paths: str) -> str:
    """The output of mypy --strict for a user's code, with our wheel installed."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(wheel.mypy_cache)]
    done = subprocess.run(
        [*command, "--python-executable", str(wheel.python), *paths],
        cwd=directory,
        env=wheel.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_command_works(wheel: WheelEnvironment, tmp_path: Path) -> None:
    done = wheel.run(["gpuruntime", "--version"], tmp_path)

    assert done.stdout == f"gpuruntime {__version__}\n"


def test_the_wheel_builds_the_same_control_plane_as_the_checkout(wheel: WheelEnvironment, tmp_path: Path) -> None:
    done = wheel.run([wheel.python, "-m", "gpuruntime.testing", "assets"], tmp_path)

    assert (done.returncode, Path(done.stdout.strip())) == (0, assets.locate())


def test_the_programs_of_the_pages_pass_mypy_strict(wheel: WheelEnvironment, tmp_path: Path) -> None:
    for page in ("quickstart", "reconcile"):
        for name, body in PAGES[page].files.items():
            if not name.startswith("test_"):
                (tmp_path / name).write_text(body)

    assert mypy(wheel, tmp_path, "greeter.py", "mirror.py") == "Success: no issues found in 2 source files\n"


def test_the_types_of_the_wheel_reveal_a_users_mistake(wheel: WheelEnvironment, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from gpuruntime.control import ManagerOptions, Result\n\nResult.after('soon')\nManagerOptions(name=1)\n"
    )

    found = mypy(wheel, tmp_path, "wrong.py")

    assert 'Argument 1 to "after" of "Result" has incompatible type "str"; expected "float"' in found
    assert "Found 2 errors in 1 file" in found


def test_the_examples_pass_mypy_strict(wheel: WheelEnvironment) -> None:
    for example, package in (("website", "website"), ("embedded", "notes")):
        said = mypy(wheel, ROOT / "examples" / example, package, "tests")
        assert said.startswith("Success: no issues found"), said


def test_the_operator_of_the_readme_has_ten_lines_and_passes_mypy_strict(
    wheel: WheelEnvironment, tmp_path: Path
) -> None:
    (snippet,) = read_page(ROOT / "README.md").of("python")
    shutil.copytree(ROOT / "examples" / "website" / "website", tmp_path / "website")
    (tmp_path / "operator_in_ten_lines.py").write_text(IMPORTS + snippet)

    said = mypy(wheel, tmp_path, "operator_in_ten_lines.py")

    assert said == "Success: no issues found in 1 source file\n"
    assert len([line for line in snippet.splitlines() if line.strip()]) == 10
