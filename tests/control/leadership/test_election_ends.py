"""How a term of leadership ends: by loss, by failure, by a shutdown. In virtual time, on a lease in memory."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from attrs import evolve

from gpuruntime.control.leadership.election_terms import Term
from gpuruntime.control.leadership.fence import NotLeaderError
from gpuruntime.kube.builtin.coordination import LeaseSpec
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.lease_server import REFUSED, SWALLOWED, Candidate, Exchange, Fate, LeaseServer

CLAIM = [Exchange(), Exchange()]
Notes = list[tuple[float, str]]


def now() -> float:
    return asyncio.get_running_loop().time()


def diligent(candidate: Candidate, notes: Notes) -> Callable[[Term], Awaitable[None]]:
    """Work that notes when it begins and is cancelled, and whether the fence is open then."""

    def note(what: str) -> None:
        notes.append((now(), f"{what}, {'open' if candidate.fence.remaining() else 'shut'}"))

    async def lead(_: Term) -> None:
        note("begin")
        try:
            await asyncio.Event().wait()
        finally:
            note("end")

    return lead


async def run_for(seconds: float, work: Awaitable[None]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


def test_a_server_that_hangs_is_named_as_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [*CLAIM, *[Exchange(Fate.HUNG)] * 40]
        await run_for(30.0, candidate.election.run(diligent(candidate, [])))

    run_virtual(story())

    errors = [vars(record)["error"] for record in caplog.records if "error" in vars(record)]
    assert errors
    assert set(errors) == {"no response in time"}


@pytest.mark.parametrize("fault", [REFUSED, SWALLOWED, Exchange(Fate.HUNG)], ids=lambda fault: fault.fate.name)
def test_a_leader_that_cannot_renew_stops_ten_seconds_after_it_began_its_last_renewal(fault: Exchange) -> None:
    async def story() -> tuple[Notes, LeaseServer]:
        notes: Notes = []
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [*CLAIM, Exchange(before=0.5, after=0.5), *[fault] * 40]
        await run_for(16.0, candidate.election.run(diligent(candidate, notes)))
        return notes, candidate.server

    notes, _ = run_virtual(story())

    (begin, begun), (end, ended) = notes[:2]
    assert (begin, begun) == (0.0, "begin, open")
    assert ended == "end, shut"
    # The last renewal that succeeded began at 2 s and was answered at 3 s.
    assert 11.98 <= end <= 12.0


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    async def story() -> Notes:
        notes: Notes = []
        candidate = Candidate("one", LeaseServer())
        async with asyncio.TaskGroup() as group:
            group.create_task(run_for(5.0, candidate.election.run(diligent(candidate, notes))))
            await asyncio.sleep(3.0)
            candidate.server.hold("two")
        return notes

    notes = run_virtual(story())

    assert notes == [(0.0, "begin, open"), (4.0, "end, shut")]


def test_a_leader_whose_lease_was_emptied_stops_at_once_and_stands_again() -> None:
    async def story() -> tuple[Notes, Candidate]:
        notes: Notes = []
        candidate = Candidate("one", LeaseServer())
        async with asyncio.TaskGroup() as group:
            group.create_task(run_for(5.0, candidate.election.run(diligent(candidate, notes))))
            await asyncio.sleep(3.0)
            candidate.server.hold("", transitions=4)
        return notes, candidate

    notes, candidate = run_virtual(story())

    assert notes[:3] == [(0.0, "begin, open"), (4.0, "end, shut"), (4.0, "begin, open")]
    assert candidate.election.transitions == 5


def test_a_leader_without_a_successor_waits_for_the_end_of_its_own_lease_and_leads_a_new_term() -> None:
    async def story() -> tuple[list[Term], LeaseServer]:
        terms: list[Term] = []
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [*CLAIM, *[REFUSED] * 4]

        async def lead(term: Term) -> None:
            terms.append(term)
            await asyncio.Event().wait()

        await run_for(25.0, candidate.election.run(lead))
        return terms, candidate.server

    terms, server = run_virtual(story())

    again = server.history[1][0]
    assert [term.number for term in terms] == [0, 1]
    assert 15.0 <= again <= 15.0 + 2.4


def test_a_leader_whose_renewals_arrive_but_whose_answers_do_not_makes_way_for_others() -> None:
    async def story() -> tuple[Notes, Candidate]:
        notes: Notes = []
        server = LeaseServer()
        deaf, other = Candidate("deaf", server), Candidate("other", server)
        deaf.wire.script = CLAIM.copy()
        deaf.wire.writes = Exchange(Fate.LOST)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_for(40.0, deaf.election.run(diligent(deaf, []))))
            await asyncio.sleep(1.0)
            group.create_task(run_for(39.0, other.election.run(diligent(other, notes))))
        return notes, other

    notes, other = run_virtual(story())

    assert notes[0][1] == "begin, open"
    # Only its first renewal, at 2 s, was accepted; the others came with an old version.
    assert 2.0 + 15.0 <= notes[0][0] <= 2.0 + 15.0 + 2 * 2.4
    assert other.election.transitions == 1


def test_a_claim_that_is_found_out_too_late_is_left_to_run_out() -> None:
    async def story() -> list[Term]:
        terms: list[Term] = []
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [Exchange(), Exchange(Fate.LOST), *[REFUSED] * 5]

        async def lead(term: Term) -> None:
            terms.append(term)
            await asyncio.Event().wait()

        await run_for(60.0, candidate.election.run(lead))
        return terms

    terms = run_virtual(story())

    assert [term.number for term in terms] == [1]


def test_a_clock_that_jumped_during_a_renewal_ends_the_term_although_the_renewal_succeeded() -> None:
    async def story() -> Notes:
        notes: Notes = []
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [*CLAIM, Exchange(before=0.5, after=0.5)]
        async with asyncio.TaskGroup() as group:
            group.create_task(run_for(4.0, candidate.election.run(diligent(candidate, notes))))
            await asyncio.sleep(2.5)
            candidate.ahead = 60.0
        return notes

    notes = run_virtual(story())

    assert notes[:2] == [(0.0, "begin, open"), (3.0, "end, shut")]


def test_a_leader_that_crashes_releases_the_lease_and_raises() -> None:
    async def story() -> LeaseServer:
        candidate = Candidate("one", LeaseServer())

        async def crash(_: Term) -> None:
            await asyncio.sleep(5.0)
            raise LookupError("no such unit")

        with pytest.raises(LookupError, match="no such unit"):
            await candidate.election.run(crash)
        assert not candidate.election.is_leader
        return candidate.server

    server = run_virtual(story())

    moment = "2026-01-02T03:04:10.000000Z"
    assert server.history[-1] == (5.0, LeaseSpec("", 1, moment, moment, 0))


def test_work_that_is_done_frees_the_lease_and_ends_the_election() -> None:
    async def story() -> LeaseServer:
        candidate = Candidate("one", LeaseServer())
        await candidate.election.run(lambda _: asyncio.sleep(5.0))
        return candidate.server

    server = run_virtual(story())

    assert server.history[-1][1].holder_identity == ""


def test_work_that_is_cancelled_from_outside_is_an_error() -> None:
    async def story() -> LeaseServer:
        candidate = Candidate("one", LeaseServer())

        async def cancelled(_: Term) -> None:
            raise asyncio.CancelledError

        with pytest.raises(RuntimeError):
            await candidate.election.run(cancelled)
        return candidate.server

    server = run_virtual(story())

    assert server.history[-1][1].holder_identity == ""


def test_a_shutdown_renews_the_lease_until_the_work_has_ended_and_only_then_frees_it() -> None:
    async def story() -> tuple[Notes, LeaseServer]:
        notes: Notes = []
        candidate = Candidate("one", LeaseServer())

        async def lead(_: Term) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(30.0)
                notes.append(
                    (now(), f"{candidate.fence.remaining() > 0} {candidate.server.get().spec.holder_identity}")
                )

        await run_for(5.0, candidate.election.run(lead))
        return notes, candidate.server

    notes, server = run_virtual(story())

    assert notes == [(35.0, "True one")]
    assert server.history[-1][0] == 35.0
    assert [spec.holder_identity for _, spec in server.history[-2:]] == ["one", ""]


def test_a_shutdown_before_the_claim_was_answered_frees_what_may_have_been_claimed() -> None:
    async def story() -> LeaseServer:
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [Exchange(), Exchange(Fate.HUNG)]
        await run_for(1.0, candidate.election.run(diligent(candidate, [])))
        return candidate.server

    server = run_virtual(story())

    assert [spec.holder_identity for _, spec in server.history] == ["one", ""]


def test_a_release_that_meets_a_conflict_is_retried() -> None:
    async def story() -> LeaseServer:
        candidate = Candidate("one", LeaseServer())

        async def lead(_: Term) -> None:
            await asyncio.sleep(3.0)
            lease = candidate.server.get()
            labels = FrozenDict({"team": "blue"})
            candidate.server.store(evolve(lease, metadata=evolve(lease.metadata, labels=labels)))

        await candidate.election.run(lead)
        return candidate.server

    server = run_virtual(story())

    assert server.get().spec.holder_identity == ""
    assert server.get().metadata.labels == {"team": "blue"}


def test_a_release_gives_up_where_the_server_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> float:
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [*CLAIM, SWALLOWED]
        await candidate.election.run(lambda _: asyncio.sleep(1.0))
        return now()

    ended = run_virtual(story())

    assert ended == 1.0 + 5.0
    assert "cannot release the lease, it will expire" in caplog.messages


def test_a_lease_whose_release_may_still_arrive_is_not_taken_up_again() -> None:
    async def story() -> tuple[list[int], LeaseServer]:
        numbers: list[int] = []
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [*CLAIM, Exchange(before=7.0)]

        async def lead(term: Term) -> None:
            numbers.append(term.number)

        await candidate.election.run(lead)
        await candidate.election.run(lead)
        return numbers, candidate.server

    numbers, server = run_virtual(story())

    assert numbers == [0, 1]
    assert [spec.holder_identity for _, spec in server.history] == ["one", "", "one", ""]


def test_work_that_notices_the_loss_before_its_election_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> Notes:
        notes: Notes = []
        candidate = Candidate("one", LeaseServer())

        async def lead(_: Term) -> None:
            notes.append((now(), "begin"))
            while True:
                candidate.fence.check("PUT /a/b")
                await asyncio.sleep(0.5)

        async with asyncio.TaskGroup() as group:
            group.create_task(run_for(5.0, candidate.election.run(lead)))
            await asyncio.sleep(0.75)
            candidate.ahead = 60.0
        return notes

    notes = run_virtual(story())

    failures = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert notes == [(0.0, "begin"), (1.0, "begin")]
    assert [type(failure) for failure in failures] == [NotLeaderError]


def test_work_that_fails_while_it_is_shut_down_is_reported_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        candidate = Candidate("one", LeaseServer())

        async def lead(_: Term) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise LookupError("no such unit")

        await run_for(5.0, candidate.election.run(lead))

    run_virtual(story())

    assert "work failed while it was stopping" in caplog.messages


def test_work_that_clings_to_its_end_keeps_the_candidate_from_standing_but_not_the_fence_from_shutting() -> None:
    async def story() -> tuple[Notes, Candidate]:
        notes: Notes = []
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = [*CLAIM, *[REFUSED] * 4]

        async def lead(_: Term) -> None:
            notes.append((now(), "begin"))
            try:
                await asyncio.Event().wait()
            finally:
                notes.append((now(), f"{candidate.fence.remaining()}"))
                await asyncio.sleep(100.0)

        await run_for(112.0, candidate.election.run(lead))
        return notes, candidate

    notes, candidate = run_virtual(story())

    asked = [moment for moment, _ in candidate.wire.asked]
    assert notes[1][1] == "0.0"
    assert notes[2][1] == "begin"
    assert 109.9 <= notes[2][0] <= 110.0
    assert not [moment for moment in asked if 10.0 < moment < 109.9]


def test_a_leader_that_is_stopped_after_its_deadline_sends_nothing_to_release_what_another_may_hold() -> None:
    async def story() -> list[tuple[float, str]]:
        candidate = Candidate("one", LeaseServer())
        candidate.wire.script = list(CLAIM)
        running = asyncio.create_task(candidate.election.run(diligent(candidate, [])))
        await asyncio.sleep(1.0)
        asked = len(candidate.wire.asked)
        # Frozen past its lease, and stopped before it has noticed.
        candidate.ahead = 60.0
        running.cancel()
        await asyncio.wait([running])
        return candidate.wire.asked[asked:]

    assert run_virtual(story()) == []
