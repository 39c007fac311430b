"""What a scenario is, what it is given, and which there are."""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.progress import Progress
from hack.benching import scenarios
from hack.benching.catalogue import Catalogue
from hack.benching.contenders import Contender, Runner
from hack.benching.figures import Figure

__all__ = ["Bench", "Scenario", "load_scenarios"]


@frozen
class Bench:
    """What a scenario works with.

    `kubeconfig` leads to a cluster that holds `objects` pods, if the scenario asked for one. `directory` is for files
    that may vanish with the bench.
    """

    runner: Runner
    progress: Progress
    directory: Path
    kubeconfig: Path | None
    objects: int
    repeat: int
    quick: bool

    def say(self, text: str) -> None:
        self.progress.step(f"  {text}")


@frozen
class Scenario:
    """Something to measure: `contenders` sets everybody up, which may take minutes; `run` measures them."""

    name: str
    title: str
    needs_cluster: bool
    contenders: Callable[[Catalogue], tuple[Contender, ...]]
    run: Callable[[Bench, tuple[Contender, ...]], Awaitable[tuple[Figure, ...]]]


def load_scenarios() -> dict[str, Scenario]:
    """Every scenario by its name."""
    modules = [
        importlib.import_module(f"{scenarios.__name__}.{found.name}")
        for found in pkgutil.iter_modules(scenarios.__path__)
    ]
    return {module.SCENARIO.name: module.SCENARIO for module in modules}
