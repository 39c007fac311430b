"""The all-in-one process: everything that the product does, in one event loop."""

from datetime import timedelta

from gpuruntime.control import OFFLINE_CREDENTIALS, Manager, ManagerOptions
from gpuruntime.processes.api import Api, api_of_desk, api_of_memory, gate_of, tls_of
from gpuruntime.processes.cluster_access import KubeMode, late_credentials, require_cluster
from gpuruntime.processes.options import ManagerSettings
from gpuruntime.processes.product import build_product
from gpuruntime.processes.status_reporter import StatusReporter
from gpuruntime.web.app import install
from gpuruntime.web.auth.access_control import AccessControl
from gpuruntime.web.auth.guarded_pages import guard_pages

__all__ = ["run_manager"]


async def run_manager(settings: ManagerSettings) -> None:
    """Serve until SIGTERM or SIGINT; requests being answered then are finished first.

    Raises:
        CredentialsError, NoClusterError: a cluster is required, and there is no way into one.
        CertificateError, TokenFileError, UnguardedAddressError: the API cannot be served as the settings say.
        ListenError: the address cannot be listened on.
    """
    if settings.kube_mode is KubeMode.OFF:
        manager = Manager(OFFLINE_CREDENTIALS, ManagerOptions("gpuruntime", signals=True))
        await _serve(manager, api_of_memory(), gate_of(settings.access, None), settings)
        return
    credentials = late_credentials(settings.kubeconfig)
    if settings.kube_mode is KubeMode.REQUIRED:
        await require_cluster(credentials.look())
    keep = timedelta(seconds=settings.keep_operations)
    desk = build_product(credentials, settings.places, keep=keep)
    gate = gate_of(settings.access, desk.service.units.client)
    await _serve(desk.manager, api_of_desk(desk), gate, settings)


async def _serve(manager: Manager, api: Api, gate: AccessControl, settings: ManagerSettings) -> None:
    install(manager.observability.app, api.routes, gate, manager.observability.registry)
    guard_pages(manager.observability.app, gate)
    access = settings.access
    manager.serve(manager.observability.app, access.address, tls=tls_of(access), limits=access.limits)
    reporter = StatusReporter(api.health.health, settings.report_seconds)
    manager.add(reporter.run, "status reporter", group="always")
    await manager.run()
