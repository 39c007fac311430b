"""The manager: the controllers of a process with everything they need, started and stopped in order.

::

    manager = Manager(infer(), ManagerOptions("websites"))
    manager.controller(Website).owns(ConfigMap, Deployment, Service).reconcile(reconcile)
    await manager.run()
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Literal, TypeVar, get_args, overload

from aiohttp import web
from attrs import evolve, frozen

from gpuruntime.aio.loops import require_loop, require_same_loop
from gpuruntime.control.builder import ControllerBuilder, Watched
from gpuruntime.control.controllers.controller import Controller, ControllerOptions
from gpuruntime.control.controllers.freshness import Freshness
from gpuruntime.control.controllers.journal import JournalingTransport
from gpuruntime.control.controllers.predicates import Predicate
from gpuruntime.control.controllers.reconcile import Reconciler
from gpuruntime.control.controllers.sources import Source
from gpuruntime.control.controllers.usage import check_reads, check_work
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.health.checks import NotHealthyError
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.control.leader_caches import LeaderCaches
from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import Term
from gpuruntime.control.leadership.fence import Fence
from gpuruntime.control.leadership.fenced_transport import FencedTransport
from gpuruntime.control.manager_options import Election, ManagerOptions
from gpuruntime.control.observability import Observability
from gpuruntime.control.permissions.declarations import Declaration
from gpuruntime.control.permissions.permission import Permission
from gpuruntime.control.permissions.resolving import LeaseName, required_permissions
from gpuruntime.control.runnable_group import RunnableGroup
from gpuruntime.control.serving.http_site import HttpAddress, HttpSite
from gpuruntime.control.serving.limits import OBSERVABILITY_LIMITS, HttpLimits
from gpuruntime.control.stop_signals import StopSignals
from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog
from gpuruntime.control.writing.hot_loops import HotLoopGuard
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.retries import RetryPolicy
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta.field_selectors import FieldSelector
from gpuruntime.meta.label_selectors import Selector

__all__ = ["Election", "Group", "Manager", "ManagerOptions"]

_LOG = logging.getLogger(__name__)
_REACH_SECONDS = 0.9
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Group = Literal["http", "serving", "always", "leader"]


@frozen
class _Work:
    """A runnable. `reads` are the informers that a leader-only one waits for; None is all of them."""

    group: Group
    name: str
    begin: Callable[[], Coroutine[Any, Any, None]]
    reads: tuple[Informer[Any], ...] | None


class Manager:
    """Runs controllers, caches, the event recorder and HTTP servers: started in order, stopped in reverse.

    The order is HTTP, the event recorder, the caches, runnables of the group "always", those of the leader. The group
    "serving" starts with HTTP and stops before everything else, so that requests find what they need until the end.

    Guarantees:
        - Runs in the caller's loop, beside other managers and foreign tasks, and leaves them alone.
        - Starts while the API server is down, and works when it is back.
        - A controller starts when the informers of its sources, and those that it reads, have reached the state that
          the server had when this process became the leader: a new leader never repeats what the last one did. It waits
          for no other informers. Losing the lease stops leader-only runnables, not the process.
        - The client's writes, and events, belong to the leader: past the local deadline of the lease no byte of one is
          sent. A run sees the writes of the last run of its key, and writes are held back while another client keeps
          undoing them.
        - A failure of a runnable stops the manager in order; `run` raises the error.
    """

    def __init__(self, credentials: Credentials, options: ManagerOptions) -> None:
        """Create a manager, in the running loop in which it is to run.

        Raises:
            RuntimeError: there is no running loop.
        """
        self._loop = require_loop("a manager")
        self._phase: Literal["new", "running", "ended"] = "new"
        self.options = options
        self._fence = Fence()
        self._transport = Transport(credentials, user_agent=options.name)
        # Renewals must not wait behind other requests, and only the election retries them.
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
        self._builders: list[ControllerBuilder[Any]] = []
        self._controllers: list[Controller[Any]] = []
        self._works: list[_Work] = []
        self._declarations: list[Declaration] = []
        self.sites: list[HttpSite] = []
        self._groups: list[RunnableGroup] = []
        self._stop = asyncio.Event()
        self.observability.ready.add("running", self._not_stopping)
        self._failure: BaseException | None = None
        self._stop_at = float("inf")
        if options.http is not None:
            self.serve(self.observability.app, options.http, limits=OBSERVABILITY_LIMITS)

    @overload
    def controller(
        self,
        kind: Watched[T],
        *,
        name: str = "",
        namespaces: Sequence[str] = (),
        labels: str | Selector = "",
        fields: str | FieldSelector = "",
        indexes: Sequence[Index] = (),
        when: Predicate | None = None,
        options: ControllerOptions | None = None,
        field_manager: str = "",
    ) -> ControllerBuilder[T]: ...

    @overload
    def controller(
        self,
        kind: None = None,
        *,
        name: str,
        namespaces: Sequence[str] = (),
        options: ControllerOptions | None = None,
        field_manager: str = "",
    ) -> ControllerBuilder[Any]: ...

    def controller(
        self,
        kind: Any = None,
        *,
        name: str = "",
        namespaces: Sequence[str] = (),
        labels: str | Selector = "",
        fields: str | FieldSelector = "",
        indexes: Sequence[Index] = (),
        when: Predicate | None = None,
        options: ControllerOptions | None = None,
        field_manager: str = "",
    ) -> ControllerBuilder[Any]:
        """A builder of a controller for a kind: each change of an object of it enqueues the object. Before `run`.

        ::

            manager.controller(Website).owns(ConfigMap, Deployment, Service).reconcile(reconcile)

        Args:
            kind: a typed class, a form, a storage, or an informer of `cache`. Without it the controller watches what
                `.watches` names, and reconciles keys.
            name: in logs, metrics and debug pages; the kind in lower case unless given.
            namespaces: the only namespaces of the controller; none is all of them.
            labels: the only objects of the kind, selected by the server.
            fields: the same by fields.
            indexes: of the kind, for `ctx.store(kind)`.
            when: a predicate that a change must pass, such as `generation_changed()`.
            options: concurrency, timeout, backoff.
            field_manager: of the writes, and the prefix of the annotations on children; the name of the manager unless
                given. Keep it: children of another field manager are foreign.

        Raises:
            RuntimeError: the manager runs, or ran.
            ValueError: neither a kind nor a name.
        """
        builder = ControllerBuilder(
            self,
            kind,
            name=name,
            namespaces=namespaces,
            labels=labels,
            fields=fields,
            indexes=indexes,
            when=when,
            options=options,
            field_manager=field_manager or self.options.name,
        )
        self._check_new(f"controller {builder.name!r}")
        self._builders.append(builder)
        return builder

    def add_controller(
        self,
        name: str,
        reconciler: Reconciler[K],
        sources: Sequence[Source[K]],
        options: ControllerOptions | None = None,
        *,
        reads: Sequence[Informer[Any]] = (),
    ) -> Controller[K]:
        """Add a controller of the lower layer, with sources and a reconciler of your own. Before `run`.

        It waits for the informers of its sources and for those in `reads`, whose stores its reconciler reads. Its runs
        get half of the manager's grace at most: there must be time to release the lease.

        Raises:
            ValueError: there is a controller of this name, or one of the sources belongs to another controller.
            RuntimeError: the manager runs, or ran.
        """
        self._check_new(f"controller {name!r}")
        if any(known.name == name for known in self._controllers):
            raise ValueError(f"there is a controller {name!r} already: give this one another name, name=...")
        for known in self._controllers:
            if any(source is other for source in sources for other in known.sources):
                raise ValueError(
                    f"controllers {known.name!r} and {name!r} have one source: create one for each of them"
                )
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
        """Add a runnable, which runs until the manager stops. Before `run`.

        A runnable of the leader waits for the informers that it `reads`, as a controller does for those of its sources;
        without `reads`, for every informer.

        Raises:
            ValueError: an unknown group, or `reads` in another group than the leader's.
            RuntimeError: the manager runs, or ran.
        """
        self._check_new(f"the runnable {name!r}")
        check_work(work)
        if group not in get_args(Group):
            raise ValueError(f"runnable {name!r}: expected a group of {', '.join(get_args(Group))}, got {group!r}")
        if reads is not None and group != "leader":
            raise ValueError(f"runnable {name!r}: `reads` is for the group leader; in {group} await informer.synced()")
        check_reads(reads or (), f"runnable {name!r}")
        self._works.append(_Work(group, name, work, None if reads is None else tuple(reads)))

    def serve(
        self,
        app: web.Application,
        address: HttpAddress,
        *,
        tls: ssl.SSLContext | None = None,
        group: Literal["http", "serving"] = "http",
        drain: float = 10.0,
        limits: HttpLimits | None = None,
    ) -> HttpSite:
        """Serve an application from start to stop, with `tls` as HTTPS. Before `run`.

        Requests in progress at its end get `drain` seconds to finish. In group "serving" that end comes first. Bodies
        reach the application as they were sent: what has a Content-Encoding is not decompressed.
        """
        self._check_new(f"an application at {address.url}")
        site = HttpSite(app, address, tls=tls, drain=drain, limits=limits)
        self.sites.append(site)
        self.observability.watch_site(site)
        self.add(site.run, f"http {address.url}", group=group)
        return site

    def declare(self, *declarations: Declaration) -> None:
        """Declare requests of this process, from which `permissions` follow; the process behaves the same."""
        self._declarations += declarations

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The least permissions with which this manager works, from its informers, controllers and declarations.

        Raises:
            PermissionsError: a declaration holds wherever its kind is watched, and it is not watched.
            RuntimeError: a controller was not completed.
        """
        self._check_completed()
        election = self.options.election
        lease = None if election is None else LeaseName(election.namespace, election.name)
        return required_permissions([informer.scope for informer in self.cache.informers], self._declarations, lease)

    async def reach_server(self) -> None:
        """Returns if the API server answers now; for a readiness check.

        Raises:
            KubeError: it does not.
        """
        await self._transport.send(Request("GET", "/version", timeout=_REACH_SECONDS))

    def stop(self) -> None:
        """Begin to stop; `run` returns when that is done. A manager that is stopped before it runs returns at once."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether the manager stops, on request or after a failure."""
        return self._stop.is_set()

    async def run(self) -> None:
        """Run everything until `stop`, cancellation, or a failure. A manager runs once.

        Raises:
            RuntimeError: it runs, or ran, or was created in another event loop; or a controller was not completed.
            Exception: the first failure; a group if several things failed at once.
        """
        require_same_loop(f"the manager {self.options.name!r}", self._loop)
        if self._phase != "new":
            todo = "await that run, or stop it" if self._phase == "running" else "create another one to run again"
            raise RuntimeError(f"the manager {self.options.name!r} was started before: {todo}")
        self._check_completed()
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
                groups: dict[str, RunnableGroup] = {}
                for name, works in self._start_order():
                    group = groups[name] = await stack.enter_async_context(self._group(name))
                    for label, work in works:
                        group.start(work(), label)
                    if name == "serving":
                        await self._until_listening()
                await self._stop.wait()
                self._start_grace()
                await self._close(groups["serving"])
            finally:
                # Before the groups are left, whatever the reason.
                self._start_grace()
        if self._failure is not None:
            raise self._failure

    def _start_order(self) -> list[tuple[str, list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]]]:
        """The runnables in the order in which they start; they stop in reverse."""

        def works(group: Group) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
            return [(work.name, work.begin) for work in self._works if work.group == group]

        standing = [
            (f"controller {controller.name}", controller.run)
            for controller in self._controllers
            if not controller.options.needs_leader_election
        ]
        return [
            ("http", works("http")),
            ("serving", works("serving")),
            ("recorder", [("event recorder", self.recorder.run)]),
            ("caches", [("caches", self.cache.run)]),
            ("always", [*works("always"), *standing]),
            ("leader", [("leadership", self._campaign)]),
        ]

    async def _until_listening(self) -> None:
        """Probes must answer before anything slow starts; a failure to listen stops the manager."""
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
        if term is None:
            _LOG.info("leading", extra={"election": "none"})
        try:
            async with (
                LeaderCaches(self._transport, compared=term is not None) as caches,
                self._group("leader") as group,
            ):
                for work in self._works:
                    if work.group == "leader":
                        reads = self.cache.informers if work.reads is None else work.reads
                        group.start(_once_ready(caches, reads, work.begin), work.name)
                for controller in self._controllers:
                    if controller.options.needs_leader_election:
                        ready = _once_ready(caches, controller.informers, controller.run)
                        group.start(ready, f"controller {controller.name}")
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

    def _check_completed(self) -> None:
        for builder in self._builders:
            if not builder.is_complete:
                raise RuntimeError(
                    f"controller {builder.name!r} has no reconciler: complete it with .reconcile(function)"
                )

    def _group(self, name: str) -> RunnableGroup:
        group = RunnableGroup(name, self._alarm, self._grace)
        self._groups = [known for known in self._groups if known.names] + [group]
        return group

    def _under_way(self) -> list[str]:
        return sorted(name for group in self._groups for name in group.names)

    def _not_stopping(self) -> None:
        if self.is_stopping:
            raise NotHealthyError("the manager is stopping")

    def _start_grace(self) -> None:
        self._stop.set()
        self._stop_at = min(self._stop_at, asyncio.get_running_loop().time() + self.options.grace)

    async def _close(self, serving: RunnableGroup) -> None:
        """Finish accepted requests while all that they need runs. After a failure it may not, so there is no drain."""
        if self._failure is None:
            await asyncio.sleep(min(self.options.drain, self.options.grace))
        await serving.close()

    def _make_election(self, election: Election) -> LeaseElection:
        return LeaseElection(
            Client(self._renewals, field_manager=self.options.name),
            name=election.name,
            namespace=election.namespace,
            identity=election.identity,
            timing=election.timing,
            fence=self._fence,
            renew_client=Client(FencedTransport(self._renewals, self._fence), field_manager=self.options.name),
        )

    def _alarm(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]  # the task groups on the way add nothing
        if self._failure is None:
            self._failure = error
            _LOG.error("runnable failed, stopping the manager", exc_info=error)
        self._stop.set()

    def _grace(self) -> float:
        """Seconds left of the shutdown grace; all of it if the lease was lost and the manager does not stop."""
        return min(self._stop_at - asyncio.get_running_loop().time(), self.options.grace)


async def _once_ready(
    caches: LeaderCaches, informers: Sequence[Informer[Any]], begin: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    await caches.ready(informers)
    await begin()
