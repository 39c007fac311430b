"""The initial sync of a cache: time, CPU, memory, and the longest stall of the loop."""

from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import GO, Catalogue, Variant, loops
from hack.benchmarks.contenders import Contender, Outcome, Reading
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import LibraryBench, Scenario

__all__ = ["SCENARIO"]

_LIMIT_SECONDS = 300.0
# The limit of the cache's memory, as a multiple of Go's.
_MEMORY = {"bytes": 0.5, "projection": 0.25}
_VARIANTS = tuple(
    Variant(f"{form} {loop.name}", (*loop.arguments, "--form", form)) for form in _MEMORY for loop in loops()
)


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    return (catalogue.go(), *catalogue.ours("sync.py", _VARIANTS), *catalogue.peers())


async def run(bench: LibraryBench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    async def once(contender: Contender) -> Outcome:
        return await bench.runner.run(
            contender,
            ("sync", "--objects", str(bench.objects)),
            {"KUBECONFIG": str(bench.kubeconfig)},
            _LIMIT_SECONDS,
        )

    results = await alternate(participants, bench.repeat, once, bench.say)
    return tuple(results.figure(measure) for measure in _measures())


def _measures() -> tuple[Measure, ...]:
    ours = [variant.contender for variant in _VARIANTS]
    time = tuple(
        bar for name in ours for bar in (Bar(name, 1.5, GO), Bar(name, 1 / 3, "kubernetes"), Bar(name, 1 / 6, "kopf"))
    )
    memory = tuple(Bar(f"ours {form} {loop.name}", limit, GO) for form, limit in _MEMORY.items() for loop in loops())
    return (
        Measure("time", "s", lambda reading: reading["seconds"], time),
        Measure("CPU", "s", lambda reading: reading["cpu_seconds"]),
        Measure("memory added", "MB", _added, memory),
        Measure("peak memory", "MB", lambda reading: reading["peak_rss_kb"] / 1024),
        Measure(
            "longest stall of the loop",
            "ms",
            lambda reading: reading.get("longest_stall_ms"),
            tuple(Bar(name, 30.0) for name in ours),
        ),
        Measure("most CPU between two ticks of the loop", "ms", lambda reading: reading.get("longest_busy_ms")),
    )


def _added(reading: Reading) -> float:
    return (reading["rss_after_kb"] - reading["rss_before_kb"]) / 1024


SCENARIO = Scenario("sync", "A cache of pods, from its start to all objects known", True, contenders, run)
