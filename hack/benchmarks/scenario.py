"""What a scenario is, what it is given, and which there are of the library."""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

from attrs import frozen

from gpuruntime.testing.progress import Progress
from hack.benchmarks import scenarios
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Runner
from hack.benchmarks.figures import Figure

__all__ = ["Bench", "LibraryBench", "Scenario", "load_scenarios"]

B = TypeVar("B", bound="Bench")


@frozen(kw_only=True)
class Bench:
    """What every scenario works with. `directory` is for files that may vanish with the bench."""

    runner: Runner
    progress: Progress
    directory: Path
    repeat: int
    quick: bool

    def say(self, text: str) -> None:
        self.progress.step(f"  {text}")


@frozen(kw_only=True)
class LibraryBench(Bench):
    """`kubeconfig` leads to a cluster that holds `objects` pods, if a scenario needs one."""

    kubeconfig: Path | None
    objects: int


@frozen
class Scenario(Generic[B]):
    """Something to measure: `contenders` sets everybody up, which may take minutes; `run` measures them.

    `needs_cluster` asks for the cluster of the bench; a scenario may also make clusters of its own.
    """

    name: str
    title: str
    needs_cluster: bool
    contenders: Callable[[Catalogue], tuple[Contender, ...]]
    run: Callable[[B, tuple[Contender, ...]], Awaitable[tuple[Figure, ...]]]


def load_scenarios() -> dict[str, Scenario[LibraryBench]]:
    """Every scenario of the library by its name."""
    modules = [
        importlib.import_module(f"{scenarios.__name__}.{found.name}")
        for found in pkgutil.iter_modules(scenarios.__path__)
    ]
    return {module.SCENARIO.name: module.SCENARIO for module in modules}
