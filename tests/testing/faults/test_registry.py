"""Injection, matching and lifting of faults."""

import asyncio

from gpuruntime.testing.faults.definitions import (
    DieAfterWrites,
    DieAtOnce,
    DieBeforeWrite,
    DropRequests,
    Fault,
    HoldEvents,
    StallRequests,
)
from gpuruntime.testing.faults.exchanges import Call
from gpuruntime.testing.faults.registry import FaultRegistry, ProxiedRequest
from gpuruntime.testing.faults.request_pattern import RequestPattern

READ = ProxiedRequest("GET", "/api/v1/pods", {})
WATCH = ProxiedRequest("GET", "/api/v1/pods", {"watch": "1"})
WRITE = ProxiedRequest("POST", "/api/v1/pods", {})
EVERYTHING = RequestPattern()


def matching(faults: FaultRegistry, subject: ProxiedRequest) -> list[Fault]:
    return [active.fault for active in faults.matching(subject)]


async def test_matching_faults_apply_in_the_order_of_injection() -> None:
    faults = FaultRegistry()
    faults.inject(StallRequests(), EVERYTHING)
    faults.inject(DropRequests(), RequestPattern(method="POST"))
    faults.inject(HoldEvents(), RequestPattern(watch=True))

    assert matching(faults, READ) == [StallRequests()]
    assert matching(faults, WRITE) == [StallRequests(), DropRequests()]
    assert matching(faults, WATCH) == [StallRequests(), HoldEvents()]


async def test_a_fault_is_inactive_when_it_is_lifted_or_its_block_ends() -> None:
    faults = FaultRegistry()

    lifted = faults.inject(DropRequests(), EVERYTHING)
    with faults.inject(StallRequests(), EVERYTHING) as stall:
        inside = matching(faults, READ)
        lifted.lift()
        after_lifting = matching(faults, READ)

    assert inside == [DropRequests(), StallRequests()]
    assert after_lifting == [StallRequests()]
    assert matching(faults, READ) == []
    assert stall.lifted


async def test_a_fault_with_times_applies_only_that_often() -> None:
    faults = FaultRegistry()
    drop = faults.inject(DropRequests(times=2), EVERYTHING)

    seen = []
    for _ in range(3):
        seen.append(matching(faults, READ))
        drop.record()

    assert seen == [[DropRequests(times=2)], [DropRequests(times=2)], []]
    assert not drop.lifted


async def test_waiting_for_a_fault_ends_when_it_is_triggered() -> None:
    drop = FaultRegistry().inject(DropRequests(), EVERYTHING)

    async with asyncio.TaskGroup() as group:
        once, twice = group.create_task(drop.triggered()), group.create_task(drop.triggered(2))
        await asyncio.sleep(0)
        drop.record()
        await once
        assert not twice.done()
        drop.record()

    assert drop.count == 2


async def test_only_matching_writes_count_and_the_last_one_cuts_the_client_off_until_the_fault_is_lifted() -> None:
    faults = FaultRegistry()
    death = faults.inject(DieAfterWrites(2), RequestPattern(path=".*/pods"))

    others = [faults.budgets_of(READ), faults.budgets_of(ProxiedRequest("POST", "/api/v1/nodes", {}))]
    last = []
    for _ in range(2):
        (budget,) = faults.budgets_of(WRITE)
        last.append(budget.accepted())
    dead = faults.dead
    death.lift()

    assert others == [[], []]
    assert (last, dead) == ([False, True], True)
    assert not faults.dead
    assert faults.budgets_of(WRITE) == []


async def test_the_write_that_must_not_reach_the_server_cuts_the_client_off() -> None:
    faults = FaultRegistry()
    death = faults.inject(DieBeforeWrite(2), EVERYTHING)

    (budget,) = faults.budgets_of(WRITE)
    first = (budget.refused(), budget.accepted(), faults.dead)
    second = (budget.refused(), faults.dead)
    death.lift()

    assert (first, second) == ((False, False, False), (True, True))
    assert not faults.dead


async def test_die_at_once_lasts_until_it_is_lifted() -> None:
    faults = FaultRegistry()

    with faults.inject(DieAtOnce(), EVERYTHING):
        inside = faults.dead

    assert inside
    assert not faults.dead


async def test_dry_runs_and_reviews_are_not_writes() -> None:
    dry_run = ProxiedRequest("POST", "/api/v1/pods", {"dryRun": "All"})
    review = ProxiedRequest("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {})

    assert (WRITE.write, dry_run.write, review.write) == (True, False, False)


async def test_a_fault_for_one_call_applies_to_no_other() -> None:
    faults = FaultRegistry()
    faults.inject(DropRequests(), EVERYTHING, Call("POST", "pods", 2))

    calls = [Call("POST", "pods", 1), Call("POST", "pods", 2), Call("GET", "pods", 2), None]
    met = [len(faults.matching(ProxiedRequest("POST", "/api/v1/pods", {}, call))) for call in calls]

    assert met == [0, 1, 0, 0]
