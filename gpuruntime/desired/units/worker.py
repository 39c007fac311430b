"""The worker that a serverless unit is: its function, and what its pod has more than that of another unit.

::

    pod of a worker
      serverless-sidecar   init container that stays; token of the pod; /healthz, /readyz, /drain on port 8091
      runtime-worker       the user's program; starts when the sidecar serves, serves the socket
      volume               the directory of the socket, in both; the token, in the sidecar alone

| what happens | then |
|---|---|
| the sidecar is not up yet | the program waits: it never misses its sidecar |
| the program takes long to be healthy | the pod is not ready; after the startup timeout the program is restarted |
| the program ends | the kubelet restarts it; the sidecar stays connected, and the pod is not ready meanwhile |
| the sidecar ends | the kubelet restarts it; the program goes on |
| the pod is deleted | the kubelet asks /drain; then SIGTERM goes to the program, and at its end to the sidecar |
| the program does not end what was cancelled | the sidecar says so on /livez, and the kubelet restarts the program |
| the program does not end | SIGKILL at the end of the grace period |
"""

from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID, FUNCTION_REVISION
from gpuruntime.api.serverless import (
    ACTIVATOR_CA_ENV,
    ACTIVATOR_URL_ENV,
    CONCURRENCY_ENV,
    CONTRACT_ENV,
    DRAIN_PATH,
    DRAIN_SECONDS_ENV,
    FRAMEWORK_HEALTH_PATH_ENV,
    FRAMEWORK_INVOKE_PATH_ENV,
    FRAMEWORK_SOCKET_ENV,
    FUNCTION_ENV,
    HEALTH_PATH,
    HEALTH_PORT,
    HEALTH_PORT_ENV,
    LIVE_PATH,
    NAMESPACE_ENV,
    PROGRAM_SOCKET_ENV,
    READY_PATH,
    REQUEST_ID_ENV,
    REVISION_ENV,
    SIDECAR_NAME,
    SOCKET_DIRECTORY,
    TOKEN_AUDIENCE,
    TOKEN_DIRECTORY,
    TOKEN_FILE,
    TOKEN_FILE_ENV,
    TOKEN_SECONDS,
    WORKER_ENV,
    WORKER_NAME_ENV,
    WORKER_NAMESPACE_ENV,
    UnitServerless,
)
from gpuruntime.desired.rendering import Rendering, SidecarRendering
from gpuruntime.kube.builtin.containers import Container, EnvVar, ResourceRequirements, VolumeMount
from gpuruntime.kube.builtin.volumes import EmptyDirVolumeSource, Volume
from gpuruntime.meta import EMPTY, FrozenDict, freeze

__all__ = [
    "DRAIN_MARGIN_SECONDS",
    "WorkerParts",
    "function_of",
    "is_worker",
    "progress_seconds",
    "serverless_of",
    "worker_parts",
]

DRAIN_MARGIN_SECONDS: Final = 30
"""Time between the end of a drain and the end of the grace period, for the program to end."""

_SOCKET_VOLUME: Final = "serverless-framework-socket"
_TOKEN_VOLUME: Final = "serverless-activator-token"  # noqa: S105  # the name of a volume
_SOCKET_MOUNT: Final = VolumeMount(_SOCKET_VOLUME, SOCKET_DIRECTORY)
_TOKEN_MOUNT: Final = VolumeMount(_TOKEN_VOLUME, TOKEN_DIRECTORY, read_only=True)
_PROBE_SECONDS: Final = 2
_LIVENESS_SECONDS: Final = 5
_LIVENESS_FAILURES: Final = 6
_SIDECAR_START_SECONDS: Final = 60
# A request would make the pod larger than the stock unit whose room it takes, so it asks for nothing.
_SIDECAR_RESOURCES: Final = ResourceRequirements(
    requests=FrozenDict({"cpu": "0", "memory": "0"}), limits=FrozenDict({"memory": "256Mi"})
)
_UNPRIVILEGED: Final = 65532
_SIDECAR_SECURITY: Final[FrozenDict[str, Any]] = freeze(
    {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": _UNPRIVILEGED,
        "runAsGroup": _UNPRIVILEGED,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
)
_DRAIN_FIRST: Final[FrozenDict[str, Any]] = freeze({"preStop": {"httpGet": {"path": DRAIN_PATH, "port": HEALTH_PORT}}})
_TOKEN_SOURCE: Final[FrozenDict[str, Any]] = freeze(
    {
        "projected": {
            "sources": [
                {
                    "serviceAccountToken": {
                        "audience": TOKEN_AUDIENCE,
                        "expirationSeconds": TOKEN_SECONDS,
                        "path": TOKEN_FILE.removeprefix(f"{TOKEN_DIRECTORY}/"),
                    }
                }
            ]
        }
    }
)


@frozen
class WorkerParts:
    """What the pod of a worker has more than that of another unit; empty for other units.

    Guarantees: only the sidecar mounts the token, and no process of the program can reach it: the containers share no
    process namespace. The sidecar satisfies the Pod Security Standard `restricted`, and asks for no resources.
    """

    labels: FrozenDict[str, str] = EMPTY
    sidecars: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    env: tuple[EnvVar, ...] = ()
    mounts: tuple[VolumeMount, ...] = ()
    startup_probe: FrozenDict[str, Any] | None = None
    liveness_probe: FrozenDict[str, Any] | None = None
    lifecycle: FrozenDict[str, Any] | None = None


def serverless_of(spec: GPUUnitSpec) -> UnitServerless | None:
    """The section of a spec that makes its unit a worker; None if it is absent or not enabled."""
    return spec.serverless if spec.serverless is not None and spec.serverless.enabled else None


def is_worker(unit: GPUUnit, rendering: Rendering) -> bool:
    """Whether a unit is a worker: stock never is."""
    return serverless_of(unit.spec) is not None and not rendering.namespaces.is_stock(unit.metadata.namespace)


def function_of(unit: GPUUnit) -> str:
    """The name of the function that a unit is a worker of; "" if it is none, or has not joined it yet."""
    serverless, meta = serverless_of(unit.spec), unit.metadata
    if serverless is None or meta.annotations.get(FUNCTION_REQUEST_ID) != serverless.request_id:
        return ""
    return meta.labels.get(FUNCTION_LABEL, "")


def progress_seconds(spec: GPUUnitSpec, deadline: int) -> int:
    """The progress deadline of a unit: a slow program that is in its time does not exceed it."""
    serverless = serverless_of(spec)
    return deadline if serverless is None else max(deadline, serverless.framework.startup_timeout_seconds)


def worker_parts(unit: GPUUnit, rendering: Rendering) -> WorkerParts:
    """The parts of a worker's pod; none for a unit that is no worker.

    Raises:
        ValueError: no sidecar is configured, or the unit has not joined its function yet; the reconciler renders no
            such worker.
    """
    serverless = serverless_of(unit.spec)
    if serverless is None or not is_worker(unit, rendering):
        return WorkerParts()
    function = function_of(unit)
    if rendering.sidecar is None or not function:
        raise ValueError(f"unit {unit.key}: expected a configured sidecar and a function that it has joined")
    startup = serverless.framework.startup_timeout_seconds
    return WorkerParts(
        labels=FrozenDict({FUNCTION_LABEL: function}),
        sidecars=(_sidecar(unit, serverless, function, rendering.sidecar),),
        volumes=(
            Volume(_SOCKET_VOLUME, empty_dir=EmptyDirVolumeSource()),
            Volume(_TOKEN_VOLUME, extra=_TOKEN_SOURCE),
        ),
        env=_program_env(unit, serverless),
        mounts=(_SOCKET_MOUNT,),
        # The sidecar answers for the program: the kubelet cannot ask a unix socket.
        startup_probe=_probe(READY_PATH, _PROBE_SECONDS, -(-startup // _PROBE_SECONDS)),
        # A sidecar that restarts does not answer for some seconds, which is no fault of the program.
        liveness_probe=_probe(LIVE_PATH, _LIVENESS_SECONDS, _LIVENESS_FAILURES),
        lifecycle=_DRAIN_FIRST,
    )


def _sidecar(unit: GPUUnit, serverless: UnitServerless, function: str, settings: SidecarRendering) -> Container:
    return Container(
        name=SIDECAR_NAME,
        image=settings.image,
        image_pull_policy="IfNotPresent",
        command=("gpuruntime", "sidecar"),
        env=_sidecar_env(unit, serverless, function, settings),
        resources=_SIDECAR_RESOURCES,
        volume_mounts=(_SOCKET_MOUNT, _TOKEN_MOUNT),
        termination_message_policy="FallbackToLogsOnError",
        # The program starts when this succeeds, so it must not wait for the program.
        startup_probe=_probe(HEALTH_PATH, 1, _SIDECAR_START_SECONDS),
        readiness_probe=_probe(READY_PATH, _PROBE_SECONDS, 3),
        security_context=_SIDECAR_SECURITY,
        restart_policy="Always",
    )


def _sidecar_env(
    unit: GPUUnit, serverless: UnitServerless, function: str, settings: SidecarRendering
) -> tuple[EnvVar, ...]:
    meta, framework = unit.metadata, serverless.framework
    authority = (EnvVar(ACTIVATOR_CA_ENV, settings.activator_ca),) if settings.activator_ca else ()
    return (
        EnvVar(ACTIVATOR_URL_ENV, settings.activator_url),
        *authority,
        EnvVar(TOKEN_FILE_ENV, TOKEN_FILE),
        EnvVar(FUNCTION_ENV, function),
        EnvVar(REQUEST_ID_ENV, serverless.request_id),
        EnvVar(NAMESPACE_ENV, meta.namespace),
        EnvVar(WORKER_ENV, meta.name),
        EnvVar(REVISION_ENV, meta.annotations.get(FUNCTION_REVISION, "")),
        EnvVar(CONCURRENCY_ENV, str(serverless.concurrency)),
        EnvVar(CONTRACT_ENV, framework.contract),
        EnvVar(FRAMEWORK_SOCKET_ENV, framework.socket_path),
        EnvVar(FRAMEWORK_INVOKE_PATH_ENV, framework.invoke_path),
        EnvVar(FRAMEWORK_HEALTH_PATH_ENV, framework.health_path),
        EnvVar(HEALTH_PORT_ENV, str(HEALTH_PORT)),
        EnvVar(DRAIN_SECONDS_ENV, str(_drain_seconds(unit.spec.termination_grace_period_seconds))),
    )


def _program_env(unit: GPUUnit, serverless: UnitServerless) -> tuple[EnvVar, ...]:
    framework = serverless.framework
    return (
        EnvVar(REQUEST_ID_ENV, serverless.request_id),
        EnvVar(WORKER_NAME_ENV, unit.metadata.name),
        EnvVar(WORKER_NAMESPACE_ENV, unit.metadata.namespace),
        EnvVar(PROGRAM_SOCKET_ENV, framework.socket_path),
        EnvVar(FRAMEWORK_INVOKE_PATH_ENV, framework.invoke_path),
        EnvVar(FRAMEWORK_HEALTH_PATH_ENV, framework.health_path),
        EnvVar(CONCURRENCY_ENV, str(serverless.concurrency)),
    )


def _drain_seconds(grace: int) -> int:
    return max(1, grace - min(DRAIN_MARGIN_SECONDS, grace // 2))


def _probe(path: str, period: int, failures: int) -> FrozenDict[str, Any]:
    probe: FrozenDict[str, Any] = freeze(
        {
            "httpGet": {"path": path, "port": HEALTH_PORT},
            "periodSeconds": period,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        }
    )
    return probe
