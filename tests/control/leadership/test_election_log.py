"""What a candidate logs: one line for each leader that it sees, its own term included."""

import asyncio

import pytest

from gpuruntime.control.leadership.election_terms import Term
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.lease_server import Candidate, LeaseServer


async def lead_for_ever(_: Term) -> None:
    await asyncio.Event().wait()


def test_a_standby_logs_each_leader_once_and_then_its_own_term(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def story() -> None:
        server = LeaseServer()
        candidate = Candidate("three", server)
        server.hold("one")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(candidate.election.run(lead_for_ever))
            await asyncio.sleep(10)
            server.hold("two")
            await asyncio.sleep(30)
            running.cancel()

    run_virtual(story())

    lines = [(record.getMessage(), getattr(record, "leader", None)) for record in caplog.records]
    assert lines == [("standing by", "one"), ("standing by", "two"), ("leading", None)]
