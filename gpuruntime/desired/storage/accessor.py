"""The accessor of a storage: a Deployment and a Service that serve its files, and where it may run beside a unit. Pure.

The unit wins:

| accessMode | who has the storage | accessor |
|---|---|---|
| ReadWriteOncePod | anybody | none: one pod can mount the volume |
| ReadWriteOnce | a unit | on the unit's node, where its pod is |
| ReadWriteOnce | a storage that copies it | none: the Job may need it on any node |
| ReadWriteMany | anybody | anywhere |
| any | nobody | anywhere |
"""

from hashlib import sha256
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpustorage import READ_WRITE_MANY, READ_WRITE_ONCE, GPUStorage
from gpuruntime.api.names import (
    APP_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    STORAGE_ACCESSOR_LABEL,
    STORAGE_LABEL,
    UNIT_LABEL,
    label_value,
)
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.desired.storage.rendering import GPU_NODES
from gpuruntime.kube.builtin.apps import Deployment, DeploymentSpec, DeploymentStrategy
from gpuruntime.kube.builtin.containers import Container, ContainerPort, ResourceRequirements, VolumeMount
from gpuruntime.kube.builtin.core import Service, ServicePort, ServiceSpec
from gpuruntime.kube.builtin.pods import PodSpec, PodTemplateSpec, Toleration
from gpuruntime.kube.builtin.volumes import ClaimVolumeSource, Volume
from gpuruntime.meta import LABEL_LIMIT, FrozenDict, LabelSelector, ObjectMeta, freeze

__all__ = [
    "ACCESSOR_APP",
    "ACCESSOR_PORT",
    "AccessorRendering",
    "accessor_deployment",
    "accessor_name",
    "accessor_path",
    "accessor_service",
    "gives_way",
]

ACCESSOR_APP: Final = "gpu-runtime-storage-accessor"
ACCESSOR_PORT: Final = 8080
_PREFIX: Final = "storage-accessor-"
# No storage's name begins with a dash, so the name for a long storage name never equals that for a short one.
_LONG_PREFIX: Final = "storage-accessor--"
_DIGEST_LENGTH: Final = 10
_KEPT: Final = LABEL_LIMIT - len(_LONG_PREFIX) - _DIGEST_LENGTH - 1
_DIRECTORY: Final = "/data"
_VOLUME: Final = "data"
_PORT_NAME: Final = "http"
# The user `nonroot` of the image.
_USER: Final = 65532
_GRACE_SECONDS: Final = 5
_POD_SECURITY: Final[FrozenDict[str, Any]] = freeze(
    {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
)
_SECURITY: Final[FrozenDict[str, Any]] = freeze(
    {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
)
_RESOURCES: Final = ResourceRequirements(
    requests=FrozenDict({"cpu": "10m", "memory": "64Mi"}), limits=FrozenDict({"cpu": "1", "memory": "256Mi"})
)
# It can run on the unit's node only, whatever taints the unit tolerates there.
_EVERY_TAINT: Final = Toleration(operator="Exists", effect="NoSchedule")


@frozen
class AccessorRendering:
    """What the operator decides about accessors.

    Args:
        image: the image of the product.
        public_keys: the keys of the gateway that accessors trust, one or two texts of `gpuruntime access-key`. They are
            not secret.
        tolerations: the taints of the nodes on which volumes may be: those that preparations tolerate.
    """

    image: str
    public_keys: tuple[str, ...]
    tolerations: tuple[Toleration, ...] = GPU_NODES


def accessor_name(storage: str) -> str:
    """The name of the accessor of a storage: "storage-accessor-<name>" if that is a valid Service name.

    Guarantees: a DNS label of at most 63 characters. Different storages have different names, except for collisions of
    40 bits of SHA-256 between long names.
    """
    plain = f"{_PREFIX}{storage}"
    if len(plain) <= LABEL_LIMIT:
        return plain
    digest = sha256(storage.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{_LONG_PREFIX}{storage[:_KEPT].rstrip('-')}-{digest}"


def accessor_path(storage: GPUStorage) -> str:
    """The path of the files at the access gateway."""
    return f"/storage/{storage.metadata.namespace}/{storage.metadata.name}/"


def gives_way(storage: GPUStorage) -> str:
    """Why a storage has no accessor now: who excludes it. "" if it may have one."""
    lock = lock_of(storage.metadata)
    if lock is None or storage.spec.access_mode == READ_WRITE_MANY:
        return ""
    if storage.spec.access_mode == READ_WRITE_ONCE and lock.unit_name:
        return ""
    return lock.holder


def accessor_service(storage: GPUStorage) -> Service:
    """The Service of the accessor."""
    meta = storage.metadata
    return Service(
        metadata=ObjectMeta(name=accessor_name(meta.name), namespace=meta.namespace, labels=_labels(meta.name)),
        spec=ServiceSpec(
            type="ClusterIP",
            # The server's default, set explicitly: drift of an unset field would not be corrected.
            ip_family_policy="SingleStack",
            selector=_selector(meta.name),
            ports=(ServicePort(port=ACCESSOR_PORT, name=_PORT_NAME, protocol="TCP", target_port=ACCESSOR_PORT),),
        ),
    )


def accessor_deployment(storage: GPUStorage, rendering: AccessorRendering) -> Deployment:
    """The Deployment of the accessor, which serves the volume of this very storage, read-only.

    Guarantees: volume and mount are read-only. The pod has no ServiceAccount token, no root user, no writable file
    system and no capabilities. It satisfies the Pod Security Standard `restricted`. A pod that has to move ends before
    the next one starts.
    """
    meta = storage.metadata
    return Deployment(
        metadata=ObjectMeta(name=accessor_name(meta.name), namespace=meta.namespace, labels=_labels(meta.name)),
        spec=DeploymentSpec(
            replicas=1,
            paused=False,
            selector=LabelSelector(match_labels=_selector(meta.name)),
            strategy=DeploymentStrategy(type="Recreate"),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=_labels(meta.name)), spec=_pod(storage, rendering)),
            revision_history_limit=0,
        ),
    )


def _pod(storage: GPUStorage, rendering: AccessorRendering) -> PodSpec:
    name = storage.metadata.name
    unit = _followed_unit(storage)
    return PodSpec(
        containers=(_container(storage, rendering),),
        volumes=(Volume(_VOLUME, persistent_volume_claim=ClaimVolumeSource(name, read_only=True)),),
        affinity=_beside(unit) if unit else None,
        tolerations=(_EVERY_TAINT,) if unit else rendering.tolerations,
        automount_service_account_token=False,
        security_context=_POD_SECURITY,
        termination_grace_period_seconds=_GRACE_SECONDS,
        enable_service_links=False,
    )


def _container(storage: GPUStorage, rendering: AccessorRendering) -> Container:
    keys = [f"--public-key={text}" for text in rendering.public_keys]
    probe = {"httpGet": {"path": "/readyz", "port": ACCESSOR_PORT}, "timeoutSeconds": 5}
    return Container(
        name="accessor",
        image=rendering.image,
        image_pull_policy="IfNotPresent",
        args=(
            "accessor",
            f"--directory={_DIRECTORY}",
            f"--address=:{ACCESSOR_PORT}",
            f"--audience={storage.metadata.uid}",
            *keys,
        ),
        ports=(ContainerPort(container_port=ACCESSOR_PORT, name=_PORT_NAME, protocol="TCP"),),
        resources=_RESOURCES,
        volume_mounts=(VolumeMount(name=_VOLUME, mount_path=_DIRECTORY, read_only=True),),
        termination_message_policy="FallbackToLogsOnError",
        startup_probe=freeze({**probe, "periodSeconds": 2, "failureThreshold": 30}),
        readiness_probe=freeze({**probe, "periodSeconds": 5}),
        liveness_probe=freeze({**probe, "periodSeconds": 20, "failureThreshold": 6}),
        security_context=_SECURITY,
    )


def _followed_unit(storage: GPUStorage) -> str:
    """The unit on whose node the accessor must run; "" if it can run anywhere."""
    lock = lock_of(storage.metadata)
    return lock.unit_name if lock is not None and storage.spec.access_mode == READ_WRITE_ONCE else ""


def _beside(unit: str) -> FrozenDict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {UNIT_LABEL: label_value(unit)}}}
    required: FrozenDict[str, Any] = freeze({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    return required


def _selector(name: str) -> FrozenDict[str, str]:
    return FrozenDict({STORAGE_ACCESSOR_LABEL: name})


def _labels(name: str) -> FrozenDict[str, str]:
    return FrozenDict({APP_LABEL: ACCESSOR_APP, MANAGED_BY_LABEL: MANAGED_BY, STORAGE_LABEL: name}) | _selector(name)
