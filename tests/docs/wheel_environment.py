"""A virtual environment with our wheel: no checkout, no development tools."""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]


@frozen
class WheelEnvironment:
    """A virtual environment with our wheel, built from our sdist, and its extra `testing`."""

    programs: Path

    @property
    def python(self) -> Path:
        return self.programs / "python"

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
    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "wheel"
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            _make(directory)
            (directory / "complete").touch()
    return WheelEnvironment(directory / "venv" / "bin")


def _make(directory: Path) -> None:
    directory.mkdir()
    # A copy, because setuptools writes files into its source, which two runs in one checkout would share.
    source = directory / "source"
    source.mkdir()
    for name in ("gpuruntime", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        _copy(ROOT / name, source / name)
    built = directory / "dist"
    subprocess.run([sys.executable, "-m", "build", "--outdir", built, source], check=True, stdout=subprocess.DEVNULL)
    (built_wheel,) = built.glob("*.whl")
    venv.create(directory / "venv", with_pip=True)
    subprocess.run(
        [directory / "venv" / "bin" / "pip", "install", "--quiet", f"{built_wheel}[testing]"],
        check=True,
        env={**os.environ, "PYTHONPATH": "", "PIP_CONSTRAINT": str(ROOT / "hack" / "constraints.txt")},
    )


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)
