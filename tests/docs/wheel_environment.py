"""A virtual environment with our wheel: no checkout, no development tools."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import frozen

from tests.docs.once_per_run import once_per_run

ROOT = Path(__file__).resolve().parents[2]


@frozen
class WheelEnvironment:
    """A virtual environment with our wheel, built from our sdist, and its extra `testing`."""

    programs: Path

    @property
    def python(self) -> Path:
        return self.programs / "python"

    @property
    def mypy_cache(self) -> Path:
        """What mypy has found out about the installed packages."""
        return self.programs.parents[1] / "mypy"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables, without those that refer to this checkout."""
        ours = {"PYTHONPATH", "PYTEST_ADDOPTS", "KUBECONFIG"}
        known = {name: value for name, value in os.environ.items() if name not in ours}
        return {**known, "PATH": f"{self.programs}{os.pathsep}{known.get('PATH', os.defpath)}"}

    def run(self, command: Sequence[str | Path], directory: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=directory, env=self.environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> WheelEnvironment:
    """Created once per run, by the first xdist worker that needs it."""
    return WheelEnvironment(once_per_run(tmp_path_factory, worker_id, "wheel", _make) / "venv" / "bin")


def _make(directory: Path) -> None:
    # A copy, because setuptools writes files into its source, which two runs in one checkout would share.
    source = directory / "source"
    source.mkdir()
    for name in ("gpuruntime", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        _copy(ROOT / name, source / name)
    built = directory / "dist"
    subprocess.run([sys.executable, "-m", "build", "--outdir", built, source], check=True, stdout=subprocess.DEVNULL)
    (built_wheel,) = built.glob("*.whl")
    venv.create(directory / "venv")
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "venv" / "bin" / "python")]
    subprocess.run(
        [*pip, "install", "--quiet", f"{built_wheel}[testing]"],
        check=True,
        env={**os.environ, "PYTHONPATH": "", "PIP_CONSTRAINT": str(ROOT / "hack" / "constraints.txt")},
    )


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)
