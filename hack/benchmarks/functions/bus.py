"""Accepted messages a second with 64 in flight: by group commit, as the API does, and by single publishes."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.bus import Bus, OutgoingMessage
from gpuruntime.service.invocations.group_commit import GroupCommit
from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.functions.answering import QUEUE, answering
from hack.benchmarks.functions.floors import PAYLOAD
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["BUS", "MEASURES", "OURS", "SINGLE"]

OURS: Final = "group commit"
SINGLE: Final = "single publishes"
_IN_FLIGHT: Final = 64
_MESSAGES, _QUICK_MESSAGES = 5_000, 640
MEASURES: Final = (
    Measure(
        f"a message, {_IN_FLIGHT} in flight, sync always",
        "ms",
        lambda reading: reading["seconds"] / reading["messages"] * 1000,
        (Bar(OURS, 1 / 3, SINGLE),),
    ),
    Measure(
        f"accepted, {_IN_FLIGHT} in flight, sync always",
        "a second",
        lambda reading: reading["messages"] / reading["seconds"],
    ),
)


async def in_flight(number: int, publish: Callable[[int], Awaitable[object]]) -> Reading:
    """Publish `number` messages, always 64 at a time until they run out."""
    numbers = iter(range(number))

    async def caller() -> None:
        for each in numbers:
            await publish(each)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_IN_FLIGHT):
            group.create_task(caller())
    return {"seconds": time.perf_counter() - began, "messages": float(number)}


@asynccontextmanager
async def _group_commit(bus: Bus) -> AsyncIterator[GroupCommit]:
    commit = GroupCommit(bus.jetstream)
    running = asyncio.create_task(commit.run())
    # It takes batches from its first turn on.
    await asyncio.sleep(0)
    try:
        yield commit
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _once(bus: Bus, name: str, contender: str, messages: int) -> Reading:
    """One round of a contender, into a stream that is empty before and after."""

    def message(number: int) -> OutgoingMessage:
        subject = f"inv.{name}.{number}"
        return OutgoingMessage(subject, PAYLOAD, message_id=subject)

    if contender == OURS:
        async with _group_commit(bus) as commit:
            reading = await in_flight(messages, lambda number: commit.publish(QUEUE.name, message(number)))
    else:
        reading = await in_flight(
            messages,
            lambda number: bus.jetstream.publish(
                f"inv.{name}.{number}", PAYLOAD, message_id=f"inv.{name}.{number}", timeout=60.0
            ),
        )
    stored = await bus.jetstream.purge(QUEUE.name)
    if stored != messages:
        raise RuntimeError(f"{contender}: {messages} messages were accepted, and {stored} were stored")
    return reading


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (
        Contender(OURS, (), "`GroupCommit` of the API: atomic batches where 20 or more wait"),
        Contender(SINGLE, (), "one JetStream publish a message"),
    )


async def _run(bench: Bench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    messages = _QUICK_MESSAGES if bench.quick else _MESSAGES
    names = [contender.name for contender in participants] or [OURS, SINGLE]
    readings: dict[str, list[Reading]] = {name: [] for name in names}
    async with answering(bench.directory / "bus") as world:
        for number in range(bench.repeat):
            # They take turns, and take turns in being first: a disk is not as fast at all times.
            for name in names if number % 2 == 0 else names[::-1]:
                bench.say(f"{name}: round {number + 1} of {bench.repeat}")
                readings[name].append(await _once(world.bus, f"{number}-{names.index(name)}", name, messages))
    results = Results(readings)
    return tuple(results.figure(measure) for measure in MEASURES)


BUS: Final[Scenario[Bench]] = Scenario("bus", "messages are accepted, 64 in flight", False, _contenders, _run)
