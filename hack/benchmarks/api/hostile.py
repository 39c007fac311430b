"""The effect of ten hostile requests on others: the same callers and probes in windows with and without them.

With each request of a caller the bench sends a bare GET to the API server: the delay that this machine adds by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp
from attrs import frozen

from gpuruntime.endpoints.auth.token_file import new_token
from gpuruntime.endpoints.server.route import Scope
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.transport import Transport
from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.api.attacks import BOMBS, FAULTS, KNOWN_BOMBS, Attack, strike
from hack.benchmarks.api.claims import OURS
from hack.benchmarks.api.latencies import arrivals, one_by_one, sent_at
from hack.benchmarks.api.serving import api_world
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["BARE_GET", "HOSTILE", "measures"]

BARE_GET: Final = "bare GET"
_ATTACKS: Final = (BOMBS, KNOWN_BOMBS, FAULTS)
_QUIET: Final = "no request"
_RATE: Final = 25.0
_SECONDS, _QUICK_SECONDS = 4.0, 2.0
# After the start of the callers and probes.
_STRIKE_SECONDS: Final = 0.5
_PROBES: Final = ("/livez", "/readyz", "/api/v1/health")
_PROBES_A_SECOND: Final = 5
_MOST_ADDED: Final = 250.0
# The shortest probe timeout of the manifests.
_MOST_OF_A_PROBE: Final = 2000.0


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (
        Contender(OURS, (), f"GET /gpu-units of one `gpuruntime manager`, {_RATE:g} a second, and probes"),
        Contender(BARE_GET, (), "GET /version of the API server beside each of them, in the same window"),
    )


def measures() -> tuple[Measure, ...]:
    """The figures. An attack is compared with the quiet window of the same round.

    The bar is on the latency beyond that of the simultaneous bare GET: both are delayed alike while the machine, or the
    bench itself, is busy.
    """
    added = [
        measure
        for attack in _ATTACKS
        for measure in (
            Measure(f"added to the slowest answer by {attack.name}", "ms", _Added(attack.name, "slowest")),
            Measure(
                f"the same beyond the bare GET of the same moment, {attack.name}",
                "ms",
                _Added(attack.name, "beyond"),
                (Bar(OURS, _MOST_ADDED),),
            ),
        )
    ]
    probes = [
        Measure(
            f"slowest probe, {name} hostile" if name == _QUIET else f"slowest probe beside {name}",
            "ms",
            _Value(f"{name} probe"),
            (Bar(OURS, _MOST_OF_A_PROBE),),
        )
        for name in (_QUIET, *(attack.name for attack in _ATTACKS))
    ]
    quiet = Measure(f"slowest answer to a caller, {_QUIET} hostile", "ms", _Value(f"{_QUIET} slowest"))
    return (quiet, *added, *probes)


@frozen
class _Value:
    key: str

    def __call__(self, reading: Reading) -> float | None:
        return reading.get(self.key)


@frozen
class _Added:
    attack: str
    what: str

    def __call__(self, reading: Reading) -> float | None:
        attacked, quiet = (reading.get(f"{window} {self.what}") for window in (self.attack, _QUIET))
        return None if attacked is None or quiet is None else max(0.0, attacked - quiet)


@frozen
class _Callers:
    """The callers and probes of a window."""

    session: aiohttp.ClientSession
    server: Transport
    seconds: float

    async def window(self, hostile: Callable[[], Awaitable[None]]) -> Mapping[str, dict[str, float]]:
        """The slowest responses while `hostile` runs."""
        times = arrivals(int(self.seconds * _RATE), _RATE, seed=16)
        pairs: list[tuple[float, float]] = []

        async def both(_number: int) -> None:
            ours = one_by_one(1, lambda _: self._ask("/api/v1/gpu-units?limit=10"))
            bare = one_by_one(1, lambda _: self._bare())
            pairs.append(tuple(one.p50 for one in await asyncio.gather(ours, bare)))  # type: ignore[arg-type]

        _, probes, _ = await asyncio.gather(
            sent_at(times, both), asyncio.gather(*(self._probe(path) for path in _PROBES)), hostile()
        )
        return {
            OURS: {
                "slowest": max(ours for ours, _ in pairs),
                "beyond": max(ours - bare for ours, bare in pairs),
                "probe": max(probes),
            },
            BARE_GET: {"slowest": max(bare for _, bare in pairs)},
        }

    async def _probe(self, path: str) -> float:
        async def ask(_number: int) -> None:
            await self._ask(path)

        async def wait_and_ask() -> float:
            await asyncio.sleep(1 / _PROBES_A_SECOND)
            return (await one_by_one(1, ask)).p50

        return max([await wait_and_ask() for _ in range(int(self.seconds * _PROBES_A_SECOND))])

    async def _ask(self, path: str) -> None:
        async with self.session.get(path) as response:
            said = await response.read()
        if response.status != 200:
            raise ObjectsError(f"GET {path}: expected 200, got {response.status}: {said[:300]!r}")

    async def _bare(self) -> None:
        await self.server.send(Request("GET", "/version"))


async def run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    readings: dict[str, list[Reading]] = {OURS: [], BARE_GET: []}
    bodies = {attack.name: attack.body() for attack in _ATTACKS}
    made = new_token("bench", Scope.OPERATOR)
    tokens = bench.directory / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(made.line)
    with api_world(bench.directory / "api", 0, "--token-file", str(tokens)) as world:
        await asyncio.to_thread(world.start)
        headers = {"Authorization": f"Bearer {made.token}"}
        async with (
            aiohttp.ClientSession(world.url, headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session,
            Transport(from_kubeconfig(world.access.kubeconfig), user_agent="bench") as server,
        ):
            crowd = _Callers(session, server, _QUICK_SECONDS if bench.quick else _SECONDS)
            await crowd.window(_nothing)

            async def attacked(attack: Attack) -> None:
                await asyncio.sleep(_STRIKE_SECONDS)
                address = world.url.removeprefix("http://")
                await strike(attack, address, made.token, bodies[attack.name])

            for number in range(bench.repeat):
                bench.say(f"round {number + 1} of {bench.repeat}")
                found: dict[str, dict[str, float]] = {OURS: {}, BARE_GET: {}}
                _note(found, _QUIET, await crowd.window(_nothing))
                for attack in _ATTACKS:
                    _note(found, attack.name, await crowd.window(lambda attack=attack: attacked(attack)))  # type: ignore[misc]
                for name, reading in found.items():
                    readings[name].append(reading)
    return tuple(Results(readings).figure(measure) for measure in measures())


async def _nothing() -> None:
    """The quiet window."""


def _note(found: dict[str, dict[str, float]], window: str, measured: Mapping[str, dict[str, float]]) -> None:
    for contender, figures in measured.items():
        found[contender] |= {f"{window} {name}": value for name, value in figures.items()}


HOSTILE = Scenario("hostile", "callers and probes beside hostile requests", False, _contenders, run)
"""The effect of hostile requests on other callers."""
