"""One Lease in memory, with the API server's optimistic locking, behind wires with scripted failures."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from random import Random

from attrs import define, evolve, field, frozen

from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import ElectionTiming
from gpuruntime.control.leadership.fence import Fence
from gpuruntime.kube.builtin.coordination import Lease, LeaseSpec
from gpuruntime.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError, Status, UnavailableError
from gpuruntime.meta.objects import ObjectMeta

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Fate(Enum):
    """What becomes of a request; the server executes all but the last two."""

    ANSWERED = "answered"
    LOST = "executed, then the connection breaks"
    HUNG = "executed, then silence"
    REFUSED = "not executed, the connection breaks"
    SWALLOWED = "not executed, silence"


@frozen
class Exchange:
    """One request: seconds until the server has it, its fate, seconds until the client knows."""

    fate: Fate = Fate.ANSWERED
    before: float = 0.0
    after: float = 0.0


REFUSED = Exchange(Fate.REFUSED)
SWALLOWED = Exchange(Fate.SWALLOWED)


@define
class LeaseServer:
    """The object, and every version of it with the time at which it was written."""

    lease: Lease | None = None
    history: list[tuple[float, LeaseSpec]] = field(factory=list)
    _version: int = 0

    def hold(self, holder: str, *, seconds: int | None = 15, transitions: int = 0, time: str = "1999-01-01") -> None:
        """Write the lease as a candidate of another make would."""
        moment = f"{time}T00:00:00.000000Z"
        self.store(Lease(ObjectMeta(name="lease", namespace="a"), _spec(holder, seconds, moment, transitions)))

    def store(self, lease: Lease) -> Lease:
        if self.lease is not None and lease == self.lease:
            return self.lease
        self._version += 1
        self.lease = evolve(lease, metadata=evolve(lease.metadata, resource_version=str(self._version)))
        self.history.append((asyncio.get_running_loop().time(), self.lease.spec))
        return self.lease

    def get(self) -> Lease:
        if self.lease is None:
            raise NotFoundError(Status(404))
        return self.lease

    def create(self, obj: Lease) -> Lease:
        if self.lease is not None:
            raise AlreadyExistsError(Status(409, "AlreadyExists"))
        return self.store(obj)

    def update(self, obj: Lease) -> Lease:
        if self.get().metadata.resource_version != obj.metadata.resource_version:
            raise ConflictError(Status(409, "Conflict"))
        return self.store(obj)


@define
class Wire:
    """One candidate's way to the server: plays the script, then `usual` for ever, and notes when it was asked what.

    `healthy` is set with the first request after the script. `writes`, where given, is what becomes of updates in
    place of `usual`.
    """

    server: LeaseServer
    script: list[Exchange] = field(factory=list)
    usual: Exchange = Exchange()
    writes: Exchange | None = None
    asked: list[tuple[float, str]] = field(factory=list)
    healthy: asyncio.Event = field(factory=asyncio.Event)

    async def get(self, form: type[Lease], name: str, namespace: str) -> Lease:
        assert (form, name, namespace) == (Lease, "lease", "a")
        return await self._exchange("get", self.server.get)

    async def create(self, obj: Lease) -> Lease:
        return await self._exchange("create", lambda: self.server.create(obj))

    async def update(self, obj: Lease) -> Lease:
        return await self._exchange("update", lambda: self.server.update(obj))

    async def _exchange(self, verb: str, execute: Callable[[], Lease]) -> Lease:
        loop = asyncio.get_running_loop()
        self.asked.append((loop.time(), verb))
        usual = self.writes if self.writes is not None and verb == "update" else self.usual
        if not self.script:
            self.healthy.set()
        step = self.script.pop(0) if self.script else usual
        answer: asyncio.Future[Lease] = loop.create_future()

        # By callbacks of the loop: the server goes on with a request whose client has given it up.
        def arrive() -> None:
            outcome: Lease | KubeError = UnavailableError("broken", outcome_unknown=True)
            if step.fate not in {Fate.REFUSED, Fate.SWALLOWED}:
                done = _outcome(execute)
                outcome = done if step.fate is Fate.ANSWERED else outcome
            if step.fate not in {Fate.HUNG, Fate.SWALLOWED}:
                loop.call_later(step.after, settle, outcome)

        def settle(outcome: Lease | KubeError) -> None:
            if answer.done():
                return
            if isinstance(outcome, KubeError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        loop.call_later(step.before, arrive)
        return await answer


@define
class Candidate:
    """An election on a wire, with clocks that may be wrong: `skew` of the wall clock, `rate` of the local one."""

    name: str
    server: LeaseServer
    skew: timedelta = timedelta()
    rate: float = 1.0
    timing: ElectionTiming = field(factory=ElectionTiming)
    ahead: float = 0.0
    seed: int = 0
    wire: Wire = field(init=False)
    fence: Fence = field(init=False)
    election: LeaseElection = field(init=False)

    def __attrs_post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.wire = Wire(self.server)
        self.fence = Fence(lambda: loop.time() * self.rate + self.ahead)
        self.election = LeaseElection(
            self.wire,
            name="lease",
            namespace="a",
            identity=self.name,
            fence=self.fence,
            timing=self.timing,
            now=lambda: START + self.skew + timedelta(seconds=loop.time()),
            random=Random(self.seed),
        )


def _spec(holder: str, seconds: int | None, moment: str, transitions: int) -> LeaseSpec:
    return LeaseSpec(holder, seconds, moment, moment, transitions)


def _outcome(execute: Callable[[], Lease]) -> Lease | KubeError:
    try:
        return execute()
    except KubeError as error:
        return error
