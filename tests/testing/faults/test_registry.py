"""Faults come, are done, and go."""

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
from gpuruntime.testing.faults.registry import FaultRegistry, Subject
from gpuruntime.testing.faults.request_pattern import RequestPattern

READ = Subject("GET", "/api/v1/pods", {})
WATCH = Subject("GET", "/api/v1/pods", {"watch": "1"})
WRITE = Subject("POST", "/api/v1/pods", {})
EVERYTHING = RequestPattern()


def met_by(board: FaultRegistry, subject: Subject) -> list[Fault]:
    return [active.fault for active in board.meeting(subject)]


async def test_a_request_meets_the_faults_that_match_in_the_order_of_their_coming() -> None:
    board = FaultRegistry()
    board.inject(StallRequests(), EVERYTHING)
    board.inject(DropRequests(), RequestPattern(method="POST"))
    board.inject(HoldEvents(), RequestPattern(watch=True))

    assert met_by(board, READ) == [StallRequests()]
    assert met_by(board, WRITE) == [StallRequests(), DropRequests()]
    assert met_by(board, WATCH) == [StallRequests(), HoldEvents()]


async def test_a_fault_is_gone_when_it_is_lifted_or_its_block_ends() -> None:
    board = FaultRegistry()

    lifted = board.inject(DropRequests(), EVERYTHING)
    with board.inject(StallRequests(), EVERYTHING) as stall:
        inside = met_by(board, READ)
        lifted.lift()
        after_lifting = met_by(board, READ)

    assert inside == [DropRequests(), StallRequests()]
    assert after_lifting == [StallRequests()]
    assert met_by(board, READ) == []
    assert stall.lifted


async def test_a_fault_with_a_number_of_times_is_spent_after_that_many() -> None:
    board = FaultRegistry()
    drop = board.inject(DropRequests(times=2), EVERYTHING)

    seen = []
    for _ in range(3):
        seen.append(met_by(board, READ))
        drop.note()

    assert seen == [[DropRequests(times=2)], [DropRequests(times=2)], []]
    assert not drop.lifted


async def test_whoever_waits_for_a_fault_to_be_done_is_told() -> None:
    drop = FaultRegistry().inject(DropRequests(), EVERYTHING)

    async with asyncio.TaskGroup() as group:
        once, twice = group.create_task(drop.met()), group.create_task(drop.met(2))
        await asyncio.sleep(0)
        drop.note()
        await once
        assert not twice.done()
        drop.note()

    assert drop.count == 2


async def test_only_writes_that_match_count_and_the_last_one_ends_everything_until_the_fault_is_lifted() -> None:
    board = FaultRegistry()
    death = board.inject(DieAfterWrites(2), RequestPattern(path=".*/pods"))

    others = [board.writes_left(READ), board.writes_left(Subject("POST", "/api/v1/nodes", {}))]
    last = []
    for _ in range(2):
        (left,) = board.writes_left(WRITE)
        last.append(left.accepted())
    dead = board.dead
    death.lift()

    assert others == [[], []]
    assert (last, dead) == ([False, True], True)
    assert not board.dead
    assert board.writes_left(WRITE) == []


async def test_a_write_that_must_not_get_through_ends_everything_when_it_comes() -> None:
    board = FaultRegistry()
    death = board.inject(DieBeforeWrite(2), EVERYTHING)

    (left,) = board.writes_left(WRITE)
    first = (left.refused(), left.accepted(), board.dead)
    second = (left.refused(), board.dead)
    death.lift()

    assert (first, second) == ((False, False, False), (True, True))
    assert not board.dead


async def test_death_at_once_lasts_until_it_is_lifted() -> None:
    board = FaultRegistry()

    with board.inject(DieAtOnce(), EVERYTHING):
        inside = board.dead

    assert inside
    assert not board.dead


async def test_rehearsals_and_questions_are_no_writes() -> None:
    rehearsal = Subject("POST", "/api/v1/pods", {"dryRun": "All"})
    question = Subject("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {})

    assert (WRITE.write, rehearsal.write, question.write) == (True, False, False)


async def test_a_fault_for_one_call_meets_no_other() -> None:
    board = FaultRegistry()
    board.inject(DropRequests(), EVERYTHING, Call("POST", "pods", 2))

    calls = [Call("POST", "pods", 1), Call("POST", "pods", 2), Call("GET", "pods", 2), None]
    met = [len(board.meeting(Subject("POST", "/api/v1/pods", {}, call))) for call in calls]

    assert met == [0, 1, 0, 0]
