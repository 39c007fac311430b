"""Two or three candidates on a lease whose server is slow, deaf, forgetful or late: never two leaders, soon one again.

A failure prints the faults and a blob for `hypothesis.reproduce_failure`.
"""

import asyncio
from datetime import timedelta

from attrs import define, field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.control.leadership.election_terms import ElectionTiming, Term
from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.lease_server import Candidate, Exchange, Fate, LeaseServer

TIMING = ElectionTiming(lease=15, renew=10.0, retry=2.0)
# A third of a lease is the room that clocks of different speed have together.
RATES = st.floats(0.9, 1.1)
DELAYS = st.sampled_from([0.0, 0.01, 0.3]) | st.floats(0.0, 12.0)
EXCHANGES = st.builds(Exchange, st.sampled_from(Fate), DELAYS, DELAYS)
HEALTHY = st.just([Exchange(before=0.01, after=0.01)])


@frozen
class Stop:
    """A candidate ends its work after some seconds of leading, is shut down, or goes on."""

    after: float
    how: str


@frozen
class Fortune:
    """What one candidate has to live with."""

    faults: list[Exchange]
    rate: float
    ahead: float
    skew: timedelta
    seed: int
    stop: Stop | None


FORTUNES = st.builds(
    Fortune,
    faults=st.lists(st.lists(EXCHANGES, min_size=1, max_size=6) | HEALTHY, max_size=12).map(
        lambda spells: [exchange for spell in spells for exchange in spell]
    ),
    rate=RATES,
    ahead=st.sampled_from([0.0, 1e6, -1e6]),
    skew=st.sampled_from([timedelta(), timedelta(hours=-4), timedelta(days=3000)]),
    seed=st.integers(0, 2**16),
    stop=st.none() | st.builds(Stop, st.floats(0.0, 40.0), st.sampled_from(["shutdown", "crash"])),
)


class CrashError(Exception):
    """The work of a leader failed."""


@define
class Country:
    """All candidates on one lease, and everything that must not happen."""

    fortunes: list[Fortune]
    server: LeaseServer = field(factory=LeaseServer)
    changes: ChangeSignal = field(factory=ChangeSignal)
    candidates: list[Candidate] = field(factory=list)
    terms: list[Term] = field(factory=list)

    async def live(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, fortune in enumerate(self.fortunes):
                candidate = Candidate(
                    f"candidate-{number}",
                    self.server,
                    fortune.skew,
                    fortune.rate,
                    TIMING,
                    fortune.ahead,
                    fortune.seed,
                )
                candidate.wire.script = list(fortune.faults)
                candidate.wire.usual = Exchange(before=0.01, after=0.01)
                self.candidates.append(candidate)
            tasks = [
                group.create_task(self._run(candidate, fortune))
                for candidate, fortune in zip(self.candidates, self.fortunes, strict=True)
            ]
            for candidate in self.candidates:
                await candidate.wire.healthy.wait()
            await self._a_replica_leads()
            for task in tasks:
                task.cancel()

    async def _run(self, candidate: Candidate, fortune: Fortune) -> None:
        stop = fortune.stop

        async def lead(term: Term) -> None:
            # Two fences can be open together only if one opened while the other was; this is where they open.
            others = [other.name for other in self.candidates if other is not candidate and other.fence.remaining() > 0]
            assert others == []
            assert candidate.fence.remaining() > 0
            self.terms.append(term)
            self.changes.announce()
            if stop is not None and stop.how == "crash":
                await asyncio.sleep(stop.after)
                raise CrashError
            await asyncio.Event().wait()

        while True:
            try:
                async with asyncio.timeout(stop.after if stop is not None and stop.how == "shutdown" else None):
                    await candidate.election.run(lead)
            except (CrashError, TimeoutError):
                stop = None  # it stands again, for good
            assert candidate.fence.remaining() == 0

    async def _a_replica_leads(self) -> None:
        # Somebody who has just seen a sign of life of a dead leader waits for a lease, by a clock that may be slow.
        bound = TIMING.lease / 0.9 + TIMING.attempt + 2 * 1.2 * TIMING.retry + 1.0
        async with asyncio.timeout(bound + max((e.before for f in self.fortunes for e in f.faults), default=0.0)):
            await self.changes.until(lambda: any(one.fence.remaining() > 0 for one in self.candidates))


@settings(max_examples=150)
@given(st.lists(FORTUNES, min_size=2, max_size=3))
def test_there_are_never_two_leaders_and_soon_one_again(fortunes: list[Fortune]) -> None:
    country = Country(fortunes)

    run_virtual(country.live())

    numbers = [term.number for term in country.terms]
    assert numbers == sorted(set(numbers))
    assert numbers
