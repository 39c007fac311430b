"""The activator in a manager: its caches, the route of workers, dispatch in every replica, and upkeep by the leader.

It is ready when it has reached NATS once: before, it cannot check the leases that workers bring. Afterwards it stays
ready while NATS is away. Its workers would find NATS away elsewhere too, and lose their connections for nothing.
"""

from typing import Final

from aiohttp import web
from attrs import evolve, frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.bus import Bus
from gpuruntime.control import HttpAddress, HttpLimits, Manager, NotHealthyError, allow
from gpuruntime.dispatch.activator.activator import Activator
from gpuruntime.dispatch.activator.figures import DispatchCollector, DispatchFigures
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.dispatch.activator.sources import CachedFunctions, CachedPods
from gpuruntime.dispatch.activator.upkeep.deletion import QueueDeletion
from gpuruntime.dispatch.activator.upkeep.expiry import Expiry, ExpirySettings
from gpuruntime.dispatch.activator.upkeep.queues import QueueSettings, install_queues
from gpuruntime.dispatch.activator.workers.identity import WorkerIdentities, worker_pods
from gpuruntime.dispatch.activator.workers.route import WorkerRoute, mount_workers
from gpuruntime.endpoints.auth.certificate import CertificateError, server_tls
from gpuruntime.kube import Client, Credentials, Transport
from gpuruntime.kube.builtin.authentication import TokenReview
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.processes.config.api_sections import Tls
from gpuruntime.processes.errors import StartError
from gpuruntime.service.invocations.functions import watch_functions

__all__ = ["ActivatorOptions", "InstalledActivator", "declare_activator", "install_activator"]

_STOP_SECONDS: Final = 2.0


@frozen(kw_only=True)
class ActivatorOptions:
    """How an activator dispatches, and how streams are made."""

    namespaces: Namespaces
    replicas: int = 1
    dispatch: DispatchSettings = DispatchSettings()  # noqa: RUF009 - frozen
    expiry: ExpirySettings = ExpirySettings()  # noqa: RUF009 - frozen


@frozen
class InstalledActivator:
    """An activator that runs with its manager."""

    manager: Manager
    activator: Activator
    route: WorkerRoute
    drain: float

    def serve(self, address: HttpAddress, tls: Tls, limits: HttpLimits) -> None:
        """Serve workers at an address. Before the manager runs.

        Raises:
            StartError: the certificate is invalid.
        """
        try:
            context = None if tls.files is None else server_tls(*tls.files)
        except CertificateError as error:
            raise StartError(str(error)) from error
        app = web.Application()
        mount_workers(app, self.route)
        self.manager.serve(app, address, tls=context, limits=limits, group="serving", drain=self.drain)


def declare_activator(manager: Manager, namespaces: Namespaces, rare: str = "") -> None:
    """Declare what an activator does beyond watching. `rare` says when, if the process may have none."""
    spaces = tuple(sorted(namespaces.instance))
    manager.declare(
        allow(TokenReview, "create", rare=rare),
        allow(Pod, "get", namespaces=spaces, rare=rare or "used for a worker whose pod the cache has not seen yet"),
        allow(GPUFunction, "patch", namespaces=spaces, rare=rare),
    )


def install_activator(
    manager: Manager, credentials: Credentials, bus: Bus, options: ActivatorOptions
) -> InstalledActivator:
    """Have the process of a manager dispatch, whether it leads or not, and keep the streams while it does.

    Before it runs. It has its own connections: the manager's client stops writing when the process is not the leader.
    """
    spaces = tuple(sorted(options.namespaces.instance))
    functions = watch_functions(manager.cache, options.namespaces)
    pods = worker_pods(manager.cache, spaces)
    declare_activator(manager, options.namespaces)
    figures, served = DispatchFigures(), CachedFunctions(functions)
    rest = manager.options.grace - manager.options.drain - _STOP_SECONDS
    settings = evolve(options.dispatch, drain=max(1.0, min(options.dispatch.drain, rest)))
    activator = Activator(manager.options.name, bus, served, CachedPods(pods), figures, settings)
    DispatchCollector(manager.observability.registry, figures, lambda: activator.slots)
    transport = Transport(credentials, user_agent=manager.options.name)
    manager.observability.watch_transport(transport)
    identities = WorkerIdentities(Client(transport, field_manager=manager.options.name), pods, spaces)
    # With the server of workers, which stops first: NATS and the caches are there until workers have left.
    manager.add(lambda: _run(transport, activator), "activator", group="serving")
    manager.observability.ready.add("activator", lambda: _require_key(activator))
    deletion = QueueDeletion(bus, activator.commits, activator.clock)
    queues = QueueSettings(replicas=options.replicas, ack_wait=settings.ack_wait)
    install_queues(manager, functions, bus, deletion, queues)
    expiry = Expiry(bus, served, activator.commits, activator.redeliveries, activator.clock, figures, options.expiry)
    manager.add(expiry.run, "expiry", reads=(functions,))
    route = WorkerRoute(identities.of, activator, settings)
    return InstalledActivator(manager, activator, route, settings.drain + 1.0)


async def _run(transport: Transport, activator: Activator) -> None:
    async with transport:
        await activator.run()


def _require_key(activator: Activator) -> None:
    if activator.key.signer is None:
        raise NotHealthyError("NATS has not been reached since the start")
