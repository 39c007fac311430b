"""The steps that all benches share: set up contenders, run scenarios in turn, describe the conditions."""

import importlib.util
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from gpuruntime.testing.processes.supervised import ChildProcesses
from gpuruntime.testing.progress import Progress
from hack.benchmarks.cache import bench_cache
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Runner
from hack.benchmarks.report import ScenarioReport
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["conditions", "run_all", "set_up_contenders", "temporary_runner"]

B = TypeVar("B", bound=Bench)
_ROOT = Path(__file__).resolve().parents[2]
_MEASURED = ("gpuruntime", "hack/benchmarks", ":!hack/benchmarks/results")
Contenders = Mapping[str, tuple[Contender, ...]]


def set_up_contenders(scenarios: Sequence[Scenario[B]], progress: Progress) -> Contenders:
    """The contenders of each scenario, ready to start."""
    catalogue = Catalogue(bench_cache(), progress)
    return {scenario.name: scenario.contenders(catalogue) for scenario in scenarios}


@contextmanager
def temporary_runner() -> Iterator[tuple[Path, Runner]]:
    """A temporary directory, and a runner whose contenders end with the block."""
    with tempfile.TemporaryDirectory(prefix="gpuruntime-bench-") as name:
        directory = Path(name)
        with ChildProcesses(directory / "contenders") as children:
            yield directory, Runner(children, directory)


async def run_all(bench: B, scenarios: Sequence[Scenario[B]], contenders: Contenders) -> tuple[ScenarioReport, ...]:
    reports = []
    for scenario in scenarios:
        bench.progress.step(f"{scenario.name}: {scenario.title}")
        taking_part = contenders[scenario.name]
        figures = await scenario.run(bench, taking_part)
        reports.append(ScenarioReport(scenario.name, scenario.title, taking_part, figures))
    return tuple(reports)


def conditions(*, quick: bool, repeat: int, **more: Any) -> dict[str, Any]:
    """The conditions of a run, for the head of its report."""
    return {
        "run:": "quick, too small to judge by" if quick else "full",
        **more,
        "rounds": repeat,
        "commit": _commit(),
        "day": datetime.now(UTC).date().isoformat(),
        "CPU": _cpu(),
        "cores": os.cpu_count(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "uvloop": "yes" if importlib.util.find_spec("uvloop") else "no",
    }


def _commit() -> str:
    """The commit of this checkout, with a "+" if measured code differs from it; "unknown" outside of a checkout."""
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for command in (("rev-parse", "--short=7", "HEAD"), ("status", "--porcelain", "--", *_MEASURED))
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}+" if changes else commit


def _cpu() -> str:
    """The model of the processor; its architecture where Linux does not know the model."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
