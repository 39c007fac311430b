"""Claims of ready stock: at a steady rate and in a burst, with reconcilers running and paused.

With each claim the bench sends one conditional PATCH to the API server: the cost of a single write on this machine
under this load.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.api.api_caller import ApiCaller, BarePatches, all_ready, api_caller, bare_patches, settled
from hack.benchmarks.api.latencies import arrivals, one_by_one, sent_at
from hack.benchmarks.api.serving import api_world
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["BARE_PATCH", "CLAIMS", "FULL", "OURS", "PUBLISHED", "Load", "measures"]

OURS: Final = "ours"
BARE_PATCH: Final = "bare PATCH"
PUBLISHED: Final = "agent-sandbox"
_PEER: Final = {"p50": 92.0, "p99": 376.0}
_BAR: Final = Bar(OURS, 4.0)


@frozen
class Load:
    """The load: `stock` ready units of a flavour, claims per second, and simultaneous claims."""

    stock: int
    rate: float
    burst: int


FULL: Final = Load(200, 45.0, 150)
_QUICK: Final = Load(20, 10.0, 15)
_REFUSED_CLAIMS: Final = 50


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (
        Contender(OURS, (), "POST /gpu-units of one `gpuruntime manager`, until 201"),
        Contender(BARE_PATCH, (), "one conditional PATCH of a GPUUnit beside each claim, in the same window"),
        Contender(PUBLISHED, (), "as published by its authors for 45 a second, on a cluster of theirs; not measured"),
    )


def measures(load: Load) -> tuple[Measure, ...]:
    """The figures under a load; the readings of a contender have names like `paused rate p50`.

    The p50 of claims and of bare PATCHes are compared within one window: the machine may be half as fast in the next
    one, and medians over several windows could come from different windows.
    """
    found = []
    for state in ("paused", "running"):
        for kind, text in (("rate", f"{load.rate:g} a second"), ("burst", f"{load.burst} at once")):
            for part in ("p50", "p99"):
                value = _Value(f"{state} {kind} {part}")
                found.append(Measure(f"claim {part}, {text}, reconcilers {state}", "ms", value))
            times = _Value(f"{state} {kind} times")
            bars = (_BAR,) if state == "paused" else ()
            found.append(Measure(f"p50 of bare PATCHes in the window, {text}, reconcilers {state}", "x", times, bars))
            again = _Value(f"{state} {kind} again")
            found.append(Measure(f"sent again after 503 or 504, {text}, reconcilers {state}", "claims", again))
    return (*found, Measure("refusal of a claim p50, no stock, one after another", "ms", _Value("refused p50")))


@frozen
class _Value:
    key: str

    def __call__(self, reading: Reading) -> float | None:
        return reading.get(self.key)


async def run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    load = _QUICK if bench.quick else FULL
    readings: dict[str, list[Reading]] = {OURS: [], BARE_PATCH: []}
    for number in range(bench.repeat):
        bench.say(f"round {number + 1} of {bench.repeat}")
        for name, reading in (await _round(bench, load)).items():
            readings[name].append(reading)
    # The published figure is for 45 claims a second, and is not comparable with another load.
    states = ("paused", "running") if load == FULL else ()
    published = {f"{state} rate {part}": value for state in states for part, value in _PEER.items()}
    results = Results({**readings, PUBLISHED: [published]})
    return tuple(results.figure(measure) for measure in measures(load))


async def _round(bench: Bench, load: Load) -> Mapping[str, Reading]:
    found: dict[str, dict[str, float]] = {OURS: {}, BARE_PATCH: {}}
    flavours = [f"{state}-{kind}" for state in ("running", "paused") for kind in ("rate", "burst")]
    with api_world(bench.directory / "api", len(flavours) * load.stock) as world:
        await asyncio.to_thread(world.start)
        async with api_caller(world) as caller, bare_patches(world, load.stock, bench.progress) as bare:
            bench.say(f"{len(flavours)} flavours of {load.stock} stock units get ready")
            for flavour in flavours:
                await caller.seed(flavour, load.stock)
            await all_ready(caller, bench, len(flavours) * load.stock)
            for flavour in flavours:
                if flavour == "paused-rate":
                    await settled(caller, bench)
                    await asyncio.to_thread(world.pause_reconcilers)
                bench.say(f"claims: {flavour}")
                for name, reading in (await _claims(caller, bare, flavour, load)).items():
                    found[name] |= reading
            refused = await one_by_one(
                _REFUSED_CLAIMS, lambda number: caller.claim_without_stock(f"refused-{number}", "none")
            )
            found[OURS]["refused p50"] = refused.p50
    return found


async def _claims(caller: ApiCaller, bare: BarePatches, flavour: str, load: Load) -> Mapping[str, dict[str, float]]:
    state, _, kind = flavour.partition("-")
    times = arrivals(load.stock, load.rate, seed=8) if kind == "rate" else (0.0,) * load.burst

    async def claim(number: int) -> None:
        await caller.claim(f"{flavour}-{number:03}", flavour)

    async def patch(number: int) -> None:
        await bare.patch(f"unit-{number:05d}")

    before = caller.sent_again
    ours, theirs = await sent_at(times, claim, patch)
    found = {
        name: {f"{state} {kind} p50": some.p50, f"{state} {kind} p99": some.p99}
        for name, some in ((OURS, ours), (BARE_PATCH, theirs))
    }
    found[OURS][f"{state} {kind} times"] = ours.p50 / theirs.p50
    found[OURS][f"{state} {kind} again"] = float(caller.sent_again - before)
    return found


CLAIMS = Scenario("claims", "stock is claimed by POST /gpu-units", False, _contenders, run)
"""The latency of claims of ready stock."""
