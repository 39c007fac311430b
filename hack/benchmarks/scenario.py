"""Scenarios, their input, and the list of the library's scenarios."""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

from attrs import frozen

from gpuruntime.testing.progress import Progress
from hack.benchmarks import library
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Runner
from hack.benchmarks.figures import Figure

__all__ = ["Bench", "LibraryBench", "Scenario", "load_scenarios"]

B = TypeVar("B", bound="Bench")


@frozen(kw_only=True)
class Bench:
    """The input of every scenario. `directory` is temporary."""

    runner: Runner
    progress: Progress
    directory: Path
    repeat: int
    quick: bool

    def say(self, text: str) -> None:
        self.progress.step(f"  {text}")


@frozen(kw_only=True)
class LibraryBench(Bench):
    """The input of the library's scenarios: `kubeconfig` of a cluster with `objects` pods, if a scenario needs one."""

    kubeconfig: Path | None
    objects: int


@frozen
class Scenario(Generic[B]):
    """A scenario: `contenders` sets the contenders up, which may take minutes; `run` measures them.

    `needs_cluster` requests the cluster of the bench; a scenario may also start its own clusters.
    """

    name: str
    title: str
    needs_cluster: bool
    contenders: Callable[[Catalogue], tuple[Contender, ...]]
    run: Callable[[B, tuple[Contender, ...]], Awaitable[tuple[Figure, ...]]]


def load_scenarios() -> dict[str, Scenario[LibraryBench]]:
    """The scenarios of the library by name."""
    modules = [
        importlib.import_module(f"{library.__name__}.{found.name}") for found in pkgutil.iter_modules(library.__path__)
    ]
    return {module.SCENARIO.name: module.SCENARIO for module in modules}
