"""The pages for users of the test kit do what they say, from an installed wheel in an empty environment."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from gpuruntime import __version__
from gpuruntime.testing import assets

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def empty_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with our wheel, built from our sdist, its extra `testing`, and nothing else."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", directory / "dist", ROOT], check=True, stdout=subprocess.DEVNULL
    )
    (wheel,) = (directory / "dist").glob("*.whl")
    venv.create(directory / "venv", with_pip=True)
    subprocess.run(
        [directory / "venv" / "bin" / "pip", "install", "--quiet", f"{wheel}[testing]"],
        check=True,
        env={**strangers_environment(), "PIP_CONSTRAINT": str(ROOT / "hack" / "constraints.txt")},
    )
    return directory / "venv" / "bin"


def strangers_environment() -> dict[str, str]:
    """An environment that does not know this checkout."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTEST_ADDOPTS"}}


def run(command: list[str | Path], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env=strangers_environment(), capture_output=True, text=True, check=False
    )


def test_the_command_works(empty_environment: Path, tmp_path: Path) -> None:
    done = run([empty_environment / "gpuruntime", "--version"], tmp_path)

    assert done.stdout == f"gpuruntime {__version__}\n"


def test_the_wheel_knows_what_to_build(empty_environment: Path, tmp_path: Path) -> None:
    done = run([empty_environment / "python", "-m", "gpuruntime.testing", "assets"], tmp_path)

    assert (done.returncode, Path(done.stdout.strip())) == (0, assets.locate())


def test_every_test_on_the_pages_passes(empty_environment: Path, tmp_path: Path) -> None:
    pages = [(ROOT / "docs" / name).read_text() for name in ("testing.md", "faults.md")]
    blocks = [
        block for page in pages for block in re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", page, re.DOTALL)
    ]
    for name, code in blocks:
        (tmp_path / name).write_text(code)

    done = run([empty_environment / "pytest", "-q"], tmp_path)

    assert len(blocks) == 4
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
