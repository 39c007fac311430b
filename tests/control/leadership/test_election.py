"""When a candidate asks, claims and renews: in virtual time, on a lease in memory."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from attrs import evolve

from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import Term
from gpuruntime.control.leadership.fence import Fence
from gpuruntime.kube.builtin.coordination import LeaseSpec
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.lease_server import START, Candidate, LeaseServer, Wire


async def lead_for_ever(_: Term) -> None:
    await asyncio.Event().wait()


async def observe(candidate: Candidate, seconds: float) -> list[Term]:
    """Let a candidate run for so long; gives the terms it led."""
    terms: list[Term] = []

    async def lead(term: Term) -> None:
        terms.append(term)
        await lead_for_ever(term)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await candidate.election.run(lead)
    return terms


def test_the_first_candidate_makes_the_lease_and_leads_at_once() -> None:
    async def story() -> tuple[list[Term], LeaseServer]:
        server = LeaseServer()
        return await observe(Candidate("one", server), 1.0), server

    terms, server = run_virtual(story())

    assert terms == [Term("one", 0, START)]
    moment = "2026-01-02T03:04:05.000000Z"
    assert server.history[0] == (0.0, LeaseSpec("one", 15, moment, moment, 0))


def test_a_leader_renews_every_retry_period_with_a_single_request() -> None:
    async def story() -> Candidate:
        candidate = Candidate("one", LeaseServer())
        await observe(candidate, 7.0)
        return candidate

    candidate = run_virtual(story())

    renewals = candidate.wire.asked[2:-1]
    assert renewals == [(2.0, "update"), (4.0, "update"), (6.0, "update")]
    assert candidate.server.history[2][1] == LeaseSpec(
        "one", 15, "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:09.000000Z", 0
    )
    assert candidate.election.slow_paths == 0


@pytest.mark.parametrize("year", ["1999", "2026", "2099"])
def test_a_standby_waits_for_a_whole_lease_from_what_it_saw_itself_whatever_the_record_says(year: str) -> None:
    async def story() -> Candidate:
        server = LeaseServer()
        candidate = Candidate("two", server)
        server.hold("one", time=f"{year}-01-01")
        await observe(candidate, 25.0)
        return candidate

    candidate = run_virtual(story())

    moment, spec = candidate.server.history[1]
    assert spec.holder_identity == "two"
    assert 15.0 <= moment <= 15.0 + 2.4


def test_a_record_is_valid_for_as_long_as_it_says_itself() -> None:
    async def story() -> Candidate:
        server = LeaseServer()
        candidate = Candidate("two", server)
        server.hold("one", seconds=40)
        await observe(candidate, 50.0)
        return candidate

    candidate = run_virtual(story())

    assert 40.0 <= candidate.server.history[1][0] <= 40.0 + 2.4


def test_a_record_without_a_duration_is_given_ours() -> None:
    async def story() -> Candidate:
        server = LeaseServer()
        candidate = Candidate("two", server)
        server.hold("one", seconds=None)
        await observe(candidate, 25.0)
        return candidate

    candidate = run_virtual(story())

    assert 15.0 <= candidate.server.history[1][0] <= 15.0 + 2.4


def test_a_standby_asks_at_random_intervals_a_little_longer_than_a_retry_period() -> None:
    async def story() -> Wire:
        server = LeaseServer()
        candidate = Candidate("two", server)
        server.hold("one", seconds=1000)
        await observe(candidate, 500.0)
        return candidate.wire

    wire = run_virtual(story())

    times = [moment for moment, _ in wire.asked]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert {verb for _, verb in wire.asked} == {"get"}
    assert all(2.0 <= gap <= 2.4 for gap in gaps)
    assert max(gaps) - min(gaps) > 0.3


def test_a_free_lease_is_taken_at_once_and_counts_the_change_of_hands() -> None:
    async def story() -> list[Term]:
        server = LeaseServer()
        candidate = Candidate("two", server)
        server.hold("", transitions=7)
        return await observe(candidate, 1.0)

    terms = run_virtual(story())

    assert terms == [Term("two", 8, START)]


def test_a_standby_waits_as_long_as_the_holder_renews() -> None:
    async def story() -> list[Term]:
        server = LeaseServer()
        holder, standby = Candidate("one", server), Candidate("two", server, skew=timedelta(days=-3))
        async with asyncio.TaskGroup() as group:
            group.create_task(observe(holder, 100.0))
            await asyncio.sleep(1.0)
            return await observe(standby, 98.0)

    terms = run_virtual(story())

    assert terms == []


def test_the_lease_moves_on_even_if_the_wall_clock_stands_still() -> None:
    async def story() -> tuple[Candidate, list[Term]]:
        server = LeaseServer()
        holder, standby = Candidate("one", server), Candidate("two", server)
        stuck = LeaseElection(
            holder.wire, name="lease", namespace="a", identity="one", fence=holder.fence, now=lambda: START
        )
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(stuck.run(lead_for_ever))
            await asyncio.sleep(1.0)
            terms = await observe(standby, 60.0)
            leading.cancel()
        return holder, terms

    holder, terms = run_virtual(story())

    times = [spec.renew_time or "" for _, spec in holder.server.history[:-1]]
    assert terms == []
    assert len(times) > 20
    assert times == sorted(set(times))


def test_what_others_write_into_the_lease_costs_a_second_request_and_stays() -> None:
    async def story() -> Candidate:
        candidate = Candidate("one", LeaseServer())
        async with asyncio.TaskGroup() as group:
            group.create_task(observe(candidate, 9.0))
            await asyncio.sleep(3.0)
            lease = candidate.server.get()
            spec = evolve(lease.spec, extra=FrozenDict({"strategy": "OldestEmulationVersion"}))
            metadata = evolve(lease.metadata, labels=FrozenDict({"team": "blue"}))
            candidate.server.store(evolve(lease, metadata=metadata, spec=spec))
        return candidate

    candidate = run_virtual(story())

    lease = candidate.server.get()
    assert candidate.wire.asked[3:7] == [(4.0, "update"), (4.0, "get"), (4.0, "update"), (6.0, "update")]
    assert candidate.election.slow_paths == 1
    assert lease.metadata.labels == {"team": "blue"}
    assert lease.spec.extra == {"strategy": "OldestEmulationVersion"}
    assert lease.spec.lease_transitions == 0


def test_probes_can_see_who_leads_and_how_old_the_last_renewal_is() -> None:
    async def story() -> None:
        server = LeaseServer()
        holder, standby = Candidate("one", server), Candidate("two", server)
        before = (holder.election.is_leader, holder.election.leader, holder.election.seconds_since_renewal)
        async with asyncio.TaskGroup() as group:
            group.create_task(observe(holder, 12.0))
            group.create_task(observe(standby, 12.0))
            await asyncio.sleep(11.0)

            assert before == (False, "", float("inf"))
            assert (holder.election.is_leader, standby.election.is_leader) == (True, False)
            assert (holder.election.leader, standby.election.leader) == ("one", "one")
            assert (holder.election.transitions, standby.election.transitions) == (0, 0)
            assert holder.election.seconds_since_renewal == 1.0

    run_virtual(story())


async def test_an_identity_is_needed_because_an_empty_one_means_that_the_lease_is_free() -> None:
    with pytest.raises(ValueError, match="identity"):
        LeaseElection(Wire(LeaseServer()), name="lease", namespace="a", identity="", fence=Fence())
