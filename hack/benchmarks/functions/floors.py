"""The floors of an invocation: what its steps cost on this machine when nothing else is done.

An invocation from HTTP to HTTP takes at least one publish, one create-only commit, two exchanges between processes and
one call over a unix socket. What the product takes is judged by the sum of these, measured in the same run.
"""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import aiohttp
from attrs import frozen

from gpuruntime.bus import Bus
from gpuruntime.framework.http_messages import read_responses
from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.api.latencies import Latencies, one_by_one
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.figures import Figure
from hack.benchmarks.functions.answering import Answering, answering, cpu_seconds
from hack.benchmarks.functions.echo_program import SUBJECT
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["FLOOR", "FLOORS", "Floors", "measure_floors"]

FLOOR: Final = "floor"
PAYLOAD: Final = b'"' + b"x" * 1022 + b'"'
_TIMES, _QUICK_TIMES = 1000, 50
_WARM_UPS: Final = 20
_REQUEST_SECONDS: Final = 10.0
_OK: Final = 200
_FIELDS: Final = {
    "publish": "publish, sync always",
    "commit": "create-only commit, sync always",
    "request": "core request and reply, two processes",
    "socket": "call of a function over its unix socket",
}


@frozen
class Floors:
    """The steps, each measured one at a time, and the CPU of an HTTP echo in seconds."""

    publish: Latencies
    commit: Latencies
    request: Latencies
    socket: Latencies
    echo_cpu: float

    @property
    def sum_p50(self) -> float:
        """The sum of the medians of an invocation's steps, in milliseconds."""
        return self.publish.p50 + self.commit.p50 + 2 * self.request.p50 + self.socket.p50

    @property
    def reading(self) -> Reading:
        """All figures, in milliseconds."""
        found = {"sum": self.sum_p50, "echo cpu": self.echo_cpu * 1000}
        for name in _FIELDS:
            latencies: Latencies = getattr(self, name)
            found |= {f"{name} p50": latencies.p50, f"{name} p95": latencies.p95}
        return found


async def measure_floors(world: Answering, times: int, name: str) -> Floors:
    """Measure all steps, `times` each. `name` is used in no other measurement of the same world.

    Raises:
        ObjectsError: a step failed.
    """
    return Floors(
        publish=await _measured(times, lambda number: _publish(world.bus, f"inv.{name}.{number}")),
        commit=await _measured(times, lambda number: _commit(world.bus, f"res.{name}.{number}")),
        request=await _measured(times, lambda _: _request(world.bus)),
        socket=await _socket_calls(world.framework_socket, times),
        echo_cpu=await _echo_cpu(world, times),
    )


async def _measured(times: int, step: Callable[[int], Awaitable[None]]) -> Latencies:
    numbers = itertools.count()
    await one_by_one(_WARM_UPS, lambda _: step(next(numbers)))
    return await one_by_one(times, lambda _: step(next(numbers)))


async def _publish(bus: Bus, subject: str) -> None:
    await bus.jetstream.publish(subject, PAYLOAD, message_id=subject)


async def _commit(bus: Bus, subject: str) -> None:
    await bus.jetstream.publish(subject, PAYLOAD, expect_last_subject_sequence=0)


async def _request(bus: Bus) -> None:
    await bus.request(SUBJECT, PAYLOAD, timeout=_REQUEST_SECONDS)


async def _socket_calls(path: Path, times: int) -> Latencies:
    """Calls with a connection for each, as the sidecar makes them, in the plainest client there is."""
    body = json.dumps({"invocationID": "inv-1", "payload": json.loads(PAYLOAD)}).encode()
    request = b"POST /invoke HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def call(_number: int) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        messages = read_responses()
        writer.write(request)
        while (message := messages.next()) is None:
            data = await reader.read(65536)
            if not data:
                raise ObjectsError("the framework ended the connection")
            messages.feed(data)
        writer.close()
        if message.status != _OK:
            raise ObjectsError(f"the framework answered with the status {message.status}")

    return await _measured(times, call)


async def _echo_cpu(world: Answering, times: int) -> float:
    """The CPU that the HTTP echo takes for a request."""
    async with aiohttp.ClientSession() as session:

        async def ask(_number: int) -> None:
            async with session.post(world.echo_url, data=PAYLOAD) as response:
                await response.read()

        await one_by_one(_WARM_UPS, ask)
        before = cpu_seconds(world.echo_pid)
        await one_by_one(times, ask)
        return (cpu_seconds(world.echo_pid) - before) / times


@frozen
class _Value:
    key: str

    def __call__(self, reading: Reading) -> float | None:
        return reading.get(self.key)


def _measures() -> tuple[Measure, ...]:
    steps = [
        Measure(f"{text}, {part}", "ms", _Value(f"{name} {part}"))
        for name, text in _FIELDS.items()
        for part in ("p50", "p95")
    ]
    total = Measure("sum of the p50 of an invocation: publish, commit, two requests, call", "ms", _Value("sum"))
    return (*steps, total, Measure("CPU of an aiohttp echo", "ms", _Value("echo cpu")))


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (Contender(FLOOR, (), "1 KiB, one at a time"),)


async def _run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    times = _QUICK_TIMES if bench.quick else _TIMES
    readings: list[Reading] = []
    async with answering(bench.directory / "floors") as world:
        for number in range(bench.repeat):
            bench.say(f"round {number + 1} of {bench.repeat}")
            readings.append((await measure_floors(world, times, f"round-{number}")).reading)
    results = Results({FLOOR: readings})
    return tuple(results.figure(measure) for measure in _measures())


FLOORS: Final[Scenario[Bench]] = Scenario("floors", "the steps of an invocation, bare", False, _contenders, _run)
