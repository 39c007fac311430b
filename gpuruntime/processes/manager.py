"""The all-in-one process: everything that the product does, in one event loop."""

from gpuruntime.control.manager import Manager, ManagerOptions
from gpuruntime.control.permissions.nowhere import NOWHERE
from gpuruntime.kube.credentials import Credentials
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.kubeconfig import find, from_kubeconfig
from gpuruntime.kube.transport import Transport
from gpuruntime.processes.api import Api, api_of_memory, api_of_product, gate_of, tls_of
from gpuruntime.processes.late_credentials import LateCredentials
from gpuruntime.processes.options import KubeMode, ManagerSettings
from gpuruntime.processes.product import build_product
from gpuruntime.processes.status_reporter import StatusReporter
from gpuruntime.web.app import install
from gpuruntime.web.authentication import Gate

__all__ = ["NoClusterError", "run_manager"]

_REACH_SECONDS = 10.0


class NoClusterError(Exception):
    """A cluster is required and does not answer; the message says why."""


async def run_manager(settings: ManagerSettings) -> None:
    """Serve until SIGTERM or SIGINT; requests being answered then are finished first.

    Raises:
        CredentialsError, NoClusterError: a cluster is required, and there is no way into one.
        CertificateError, TokenFileError, UnguardedAddressError: the API cannot be served as the settings say.
        ListenError: the address cannot be listened on.
    """
    if settings.kube_mode is KubeMode.OFF:
        manager = Manager(NOWHERE, ManagerOptions("gpuruntime", signals=True))
        await _serve(manager, api_of_memory(), gate_of(settings, None), settings)
        return
    credentials = LateCredentials(lambda: _find(settings))
    if settings.kube_mode is KubeMode.REQUIRED:
        await _require(credentials.look())
    product = build_product(credentials, settings.places)
    gate = gate_of(settings, product.service.units.client)
    await _serve(product.manager, api_of_product(product), gate, settings)


async def _serve(manager: Manager, api: Api, gate: Gate, settings: ManagerSettings) -> None:
    install(manager.operations.app, api.routes, gate)
    manager.serve(manager.operations.app, settings.address, tls=tls_of(settings))
    reporter = StatusReporter(api.health.health, settings.report_seconds)
    manager.add(reporter.run, "status reporter", group="always")
    await manager.run()


def _find(settings: ManagerSettings) -> Credentials:
    return find() if settings.kubeconfig is None else from_kubeconfig(settings.kubeconfig)


async def _require(credentials: Credentials) -> None:
    async with Transport(credentials, user_agent="gpuruntime") as transport:
        try:
            await transport.request("GET", "/version", timeout=_REACH_SECONDS)
        except KubeError as error:
            raise NoClusterError(
                f"the cluster at {credentials.endpoint.server} does not answer: {error}; start it, or leave"
                " --kube-mode required out"
            ) from error
