"""A replica that counts in a ConfigMap while it leads: in a test, or as a process of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import orjson
from attrs import define, field

from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import ElectionTiming, Term
from gpuruntime.control.leadership.fence import Fence, NotLeaderError
from gpuruntime.control.leadership.fenced_transport import FencedTransport
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.retries import RetryPolicy
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing.change_signal import ChangeSignal

TIMING = ElectionTiming(lease=3, renew=2.0, retry=0.5)
LEASE, COUNTER = "leader", "counter"
_PACE = 0.02


@define(eq=False)
class Replica:
    """`notify` is called for each term when its first count was accepted, and when it has ended."""

    identity: str
    namespace: str
    lease_transport: Transport
    fenced: FencedTransport
    fence: Fence
    notify: Callable[[str], None]
    changes: ChangeSignal
    rivals: list["Replica"] = field(factory=list)
    rivals_seen_leading: list[str] = field(factory=list)
    terms: list[Term] = field(factory=list)
    counts: int = 0
    ends: int = 0
    election: LeaseElection = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.election = LeaseElection(
            Client(self.lease_transport, field_manager=self.identity),
            name=LEASE,
            namespace=self.namespace,
            identity=self.identity,
            fence=self.fence,
            timing=TIMING,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls, identity: str, namespace: str, kubeconfig: Path, notify: Callable[[str], None], changes: ChangeSignal
    ) -> AsyncIterator[Self]:
        credentials, fence = from_kubeconfig(kubeconfig), Fence()
        async with (
            Transport(credentials, user_agent=f"{identity}-lease", retries=RetryPolicy.none()) as own,
            Transport(credentials, user_agent=f"{identity}-work") as shared,
        ):
            yield cls(identity, namespace, own, FencedTransport(shared, fence), fence, notify, changes)

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[None]:
        """A candidate for the length of the block, shut down properly after it."""
        task = asyncio.create_task(self.election.run(self.lead))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def lead(self, term: Term) -> None:
        self.rivals_seen_leading += [rival.identity for rival in self.rivals if rival.election.is_leader]
        self.terms.append(term)
        self.changes.announce()
        noted = self.counts
        try:
            while True:
                await self._count()
                if noted == self.counts - 1:
                    self.notify("counting")
                await asyncio.sleep(_PACE)
        finally:
            self.ends += 1
            self.changes.announce()
            self.notify("ended")

    async def has_led(self, terms: int = 1) -> None:
        """Wait until it has begun this number of terms."""
        await self.changes.until(lambda: len(self.terms) >= terms)

    async def has_counted(self) -> None:
        await self.changes.until(lambda: self.counts > 0)

    async def _count(self) -> None:
        try:
            await self.fenced.send(
                Request(
                    "PATCH",
                    f"/api/v1/namespaces/{self.namespace}/configmaps/{COUNTER}",
                    body=orjson.dumps({"data": {"by": self.identity, "at": str(self.fence.now())}}),
                    content_type="application/merge-patch+json",
                    timeout=1.0,
                )
            )
            self.counts += 1
            self.changes.announce()
        except NotLeaderError:
            raise
        except KubeError:
            pass  # the next one may be luckier


async def main(identity: str, namespace: str, kubeconfig: str) -> None:
    def notify(news: str) -> None:
        print(news, flush=True)

    async with Replica.open(identity, namespace, Path(kubeconfig), notify, ChangeSignal()) as replica:
        await replica.election.run(replica.lead)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
