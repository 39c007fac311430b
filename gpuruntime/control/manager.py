"""The manager: one process's controllers with everything they need, started and stopped in order, in the caller's loop.

::

    manager = Manager(find(), ManagerOptions(name="widgets"))
    widgets = manager.cache.informer(Widget)
    manager.add_controller("widget", WidgetReconciler(widgets.store, manager.client), [Watch(widgets, itself())])
    await manager.run()
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Literal, TypeVar, get_args

from aiohttp import web
from attrs import evolve, frozen

from gpuruntime.aio.loops import require_loop, require_same_loop
from gpuruntime.control.controllers.controller import Controller, ControllerOptions
from gpuruntime.control.controllers.freshness import Freshness
from gpuruntime.control.controllers.journal import JournalingTransport
from gpuruntime.control.controllers.reconcile import Reconciler
from gpuruntime.control.controllers.sources import Source
from gpuruntime.control.controllers.usage import check_reads, check_work
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.health.checks import NotHealthyError
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.reflection import ReflectorSettings
from gpuruntime.control.leader_caches import LeaderCaches
from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import Term
from gpuruntime.control.leadership.fence import Fence
from gpuruntime.control.leadership.fenced_transport import FencedTransport
from gpuruntime.control.manager_options import Election, ManagerOptions
from gpuruntime.control.observability import Observability
from gpuruntime.control.permissions.declarations import Declaration
from gpuruntime.control.permissions.resolving import LeaseName, rights_of
from gpuruntime.control.permissions.rights import Right
from gpuruntime.control.runnable_group import RunnableGroup
from gpuruntime.control.serving.limits import OBSERVABILITY_LIMITS, HttpLimits
from gpuruntime.control.serving.site import HttpAddress, HttpSite
from gpuruntime.control.stop_signals import StopSignals
from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog
from gpuruntime.control.writing.hot_loops import HotLoopGuard
from gpuruntime.kube.client import Client
from gpuruntime.kube.credentials import Credentials
from gpuruntime.kube.retrying import RetryPolicy
from gpuruntime.kube.transport import Transport
from gpuruntime.kube.wire import Wire

__all__ = ["Election", "Group", "Manager", "ManagerOptions"]

_LOG = logging.getLogger(__name__)
_REACH_SECONDS = 0.9
K = TypeVar("K", bound=Hashable)
Group = Literal["http", "front", "always", "leader"]


@frozen
class _Work:
    """What was added to a manager. `reads` is what leader-only work waits for; None is every informer there is."""

    group: Group
    name: str
    begin: Callable[[], Coroutine[Any, Any, None]]
    reads: tuple[Informer[Any], ...] | None


class Manager:
    """Starts HTTP, the event recorder, the caches, what runs always, what runs on the leader; stops in reverse.

    What is at the "front" starts with HTTP and stops before everything else: whatever its requests need is still there
    while they are finished.

    Guarantees:
        - Runs in the caller's loop, beside other managers and foreign tasks, and touches none of them.
        - Starts while the API server is down, and begins to work when it is there.
        - A controller begins when the informers of its sources, and those that it is said to read, have reached the
          state that the server had when this process came to lead, so that a new leader never repeats what the last one
          did. It waits for no others. Losing the lease stops leader-only work, not the process.
        - The client's writes, and events, belong to the leader: past the local deadline of the lease no byte of one is
          sent. Writes are noted, so that a run sees those of the last one, and held back when another client keeps
          undoing them.
        - What fails takes the manager down in order; the error is raised by `run`.
    """

    def __init__(self, credentials: Credentials, options: ManagerOptions) -> None:
        """Make a manager, in a running loop: that in which it is to run.

        Raises:
            RuntimeError: there is no running loop.
        """
        self._loop = require_loop("a manager")
        self._phase: Literal["new", "running", "ended"] = "new"
        self.options = options
        self._fence = Fence()
        self._transport = Transport(credentials, user_agent=options.name)
        # Renewals must not wait behind anything else, nor be tried again by anybody but the election.
        self._renewals = Transport(credentials, user_agent=f"{options.name}/election", retries=RetryPolicy.none())
        writes: Wire = self._transport if options.election is None else FencedTransport(self._transport, self._fence)
        guarded = HotLoopGuard(writes, options.name)
        self.client = Client(JournalingTransport(guarded), field_manager=options.name)
        self.server_time = self._transport.server_time
        self.cache = Cache(self._transport, settings=ReflectorSettings(stream_lists=options.stream_lists))
        instance = options.election.identity if options.election else socket.gethostname()
        self.recorder = Recorder(Client(writes, field_manager=options.name), controller=options.name, instance=instance)
        self.election = None if options.election is None else self._make_election(options.election)
        self.observability = Observability(self.cache, self._transport, self._renewals)
        self.observability.watch_recorder(self.recorder)
        if options.election is not None and self.election is not None:
            self.observability.watch_election(options.election.name, self.election)
        self._controllers: list[Controller[Any]] = []
        self._works: list[_Work] = []
        self._declarations: list[Declaration] = []
        self.sites: list[HttpSite] = []
        self._crews: list[RunnableGroup] = []
        self._stop = asyncio.Event()
        self.observability.ready.add("running", self._not_stopping)
        self._failure: BaseException | None = None
        self._stop_at = float("inf")
        if options.http is not None:
            self.serve(self.observability.app, options.http, limits=OBSERVABILITY_LIMITS)

    def add_controller(
        self,
        name: str,
        reconciler: Reconciler[K],
        sources: Sequence[Source[K]],
        options: ControllerOptions | None = None,
        *,
        reads: Sequence[Informer[Any]] = (),
    ) -> Controller[K]:
        """Have a controller run, on the leader. Before `run`.

        It waits for the informers of its sources. `reads` are further informers whose stores its reconciler reads: it
        waits for them too. Its runs get half of the manager's grace at most: there must be time to release the lease.

        Raises:
            ValueError: there is one of this name, or another one has one of the sources.
            RuntimeError: the manager runs, or ran.
        """
        self._check_new(f"controller {name!r}")
        if any(known.name == name for known in self._controllers):
            raise ValueError(f"there is a controller {name!r} already: give each a name of its own")
        for known in self._controllers:
            if any(source is other for source in sources for other in known.sources):
                raise ValueError(f"controllers {known.name!r} and {name!r} have one source: make one for each of them")
        freshness = Freshness(self.cache, self._transport)
        chosen = options or ControllerOptions()
        chosen = evolve(chosen, grace=min(chosen.grace, self.options.grace / 2))
        controller = Controller(name, reconciler, sources, options=chosen, freshness=freshness, reads=reads)
        self._controllers.append(controller)
        self.observability.watch_controller(controller)
        return controller

    def add(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        name: str,
        *,
        group: Group = "leader",
        reads: Sequence[Informer[Any]] | None = None,
    ) -> None:
        """Have `work` run until the manager stops. Before `run`.

        Work of the leader waits for the informers that it `reads`, as a controller does for those of its sources;
        without a word about that, for every informer there is.

        Raises:
            ValueError: there is no such group, or work of another group than the leader's has `reads`.
            RuntimeError: the manager runs, or ran.
        """
        self._check_new(f"work {name!r}")
        check_work(work)
        if group not in get_args(Group):
            raise ValueError(f"work {name!r}: expected a group, one of {', '.join(get_args(Group))}, got {group!r}")
        if reads is not None and group != "leader":
            raise ValueError(f"work {name!r}: `reads` is for the group leader; in {group} await informer.synced()")
        check_reads(reads or (), f"work {name!r}")
        self._works.append(_Work(group, name, work, None if reads is None else tuple(reads)))

    def serve(
        self,
        app: web.Application,
        address: HttpAddress,
        *,
        tls: ssl.SSLContext | None = None,
        group: Literal["http", "front"] = "http",
        drain: float = 10.0,
        limits: HttpLimits | None = None,
    ) -> HttpSite:
        """Serve an application from the first moment to the last, with `tls` as HTTPS. Before `run`.

        Requests under way at its end get `drain` seconds to finish. In group "front" that end comes first. Bodies reach
        the application as they were sent: what has a Content-Encoding is not inflated.
        """
        self._check_new(f"an application at {address.url}")
        site = HttpSite(app, address, tls=tls, drain=drain, limits=limits)
        self.sites.append(site)
        self.observability.watch_site(site)
        self.add(site.run, f"http {address.url}", group=group)
        return site

    def declare(self, *declarations: Declaration) -> None:
        """Say what is written, for whoever grants rights to this process; see `permissions_of`. It changes nothing."""
        self._declarations += declarations

    @property
    def rights(self) -> tuple[Right, ...]:
        """The least rights with which this manager can do its work, as far as it has been told.

        Raises:
            PermissionsError: a declaration is about wherever a kind is watched, and nobody watches it.
        """
        election = self.options.election
        lease = None if election is None else LeaseName(election.namespace, election.name)
        return rights_of([informer.scope for informer in self.cache.informers], self._declarations, lease)

    async def reach_server(self) -> None:
        """Returns if the API server answers now; for a check of readiness.

        Raises:
            KubeError: it does not.
        """
        await self._transport.request("GET", "/version", timeout=_REACH_SECONDS)

    def stop(self) -> None:
        """Begin to stop; `run` returns when that is done. One that is stopped before it runs returns at once."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether the manager was told to stop, or something failed that stops it."""
        return self._stop.is_set()

    async def run(self) -> None:
        """Run everything until `stop`, cancellation, or a failure. A manager runs once.

        Raises:
            RuntimeError: it runs, or ran, or was made in another event loop.
            Exception: whatever failed first; a group if several things failed at once.
        """
        require_same_loop(f"the manager {self.options.name!r}", self._loop)
        if self._phase != "new":
            todo = "await that run, or stop it" if self._phase == "running" else "make another one to run again"
            raise RuntimeError(f"the manager {self.options.name!r} was started before: {todo}")
        self._phase = "running"
        try:
            await self._run()
        finally:
            self._phase = "ended"

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            if self.options.signals:
                stack.enter_context(StopSignals(self.stop, self._under_way))
            await stack.enter_async_context(self._transport)
            await stack.enter_async_context(self._renewals)
            watchdog = LoopWatchdog(threshold=self.options.stall)
            self.observability.watch_loop(await stack.enter_async_context(watchdog))
            try:
                crews: dict[str, RunnableGroup] = {}
                for name, works in self._floors():
                    crew = crews[name] = await stack.enter_async_context(self._crew(name))
                    for label, work in works:
                        crew.start(work(), label)
                    if name == "front":
                        await self._until_listening()
                await self._stop.wait()
                self._start_grace()
                await self._close(crews["front"])
            finally:
                # Before the floors are left, whatever the reason.
                self._start_grace()
        if self._failure is not None:
            raise self._failure

    def _floors(self) -> list[tuple[str, list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]]]:
        """What runs, from the first to start to the last: the order of stopping is the reverse."""

        def works(group: Group) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
            return [(work.name, work.begin) for work in self._works if work.group == group]

        return [
            ("http", works("http")),
            ("front", works("front")),
            ("recorder", [("event recorder", self.recorder.run)]),
            ("caches", [("caches", self.cache.run)]),
            ("always", works("always")),
            ("leader", [("leadership", self._campaign)]),
        ]

    async def _until_listening(self) -> None:
        """Probes must answer before anything that takes long begins; a failure to listen is heard of by the alarm."""
        listening = [asyncio.ensure_future(site.listening()) for site in self.sites]
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            for site in listening:
                await asyncio.wait([site, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in (*listening, stopping):
                waiter.cancel()
            await asyncio.wait([*listening, stopping])

    async def _campaign(self) -> None:
        if self.election is None:
            await self._lead(None)
        else:
            await self.election.run(self._lead)

    async def _lead(self, term: Term | None) -> None:
        _LOG.info("leading", extra={"term": str(term)})
        try:
            async with LeaderCaches(self._transport, compared=term is not None) as caches, self._crew("leader") as crew:
                for work in self._works:
                    if work.group == "leader":
                        reads = self.cache.informers if work.reads is None else work.reads
                        crew.start(_once_ready(caches, reads, work.begin), work.name)
                for controller in self._controllers:
                    ready = _once_ready(caches, controller.informers, controller.run)
                    crew.start(ready, f"controller {controller.name}")
                await asyncio.get_running_loop().create_future()
        finally:
            # Events are the leader's to send, and the lease is released after this.
            if self._fence.remaining() > 0:
                await self.recorder.flush()

    def _check_new(self, what: str) -> None:
        if self._phase != "new":
            raise RuntimeError(
                f"{what} comes too late, the manager {self.options.name!r} was started before: add everything, then run"
            )

    def _crew(self, name: str) -> RunnableGroup:
        crew = RunnableGroup(name, self._alarm, self._grace)
        self._crews = [known for known in self._crews if known.names] + [crew]
        return crew

    def _under_way(self) -> list[str]:
        return sorted(name for crew in self._crews for name in crew.names)

    def _not_stopping(self) -> None:
        if self.is_stopping:
            raise NotHealthyError("the manager is stopping")

    def _start_grace(self) -> None:
        self._stop.set()
        self._stop_at = min(self._stop_at, asyncio.get_running_loop().time() + self.options.grace)

    async def _close(self, front: RunnableGroup) -> None:
        """Finish what was let in, while all that it needs is there. After a failure nobody knows whether that is so."""
        if self._failure is None:
            await asyncio.sleep(min(self.options.drain, self.options.grace))
        await front.close()

    def _make_election(self, election: Election) -> LeaseElection:
        return LeaseElection(
            Client(self._renewals, field_manager=self.options.name),
            name=election.name,
            namespace=election.namespace,
            identity=election.identity,
            timing=election.timing,
            fence=self._fence,
            keeper=Client(FencedTransport(self._renewals, self._fence), field_manager=self.options.name),
        )

    def _alarm(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]  # the task groups on the way add nothing
        if self._failure is None:
            self._failure = error
            _LOG.error("a part of the manager failed, stopping", exc_info=error)
        self._stop.set()

    def _grace(self) -> float:
        """What is left of the grace; while nobody stops the manager, a lost lease leaves all the time of the grace."""
        return min(self._stop_at - asyncio.get_running_loop().time(), self.options.grace)


async def _once_ready(
    caches: LeaderCaches, informers: Sequence[Informer[Any]], begin: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    await caches.ready(informers)
    await begin()
