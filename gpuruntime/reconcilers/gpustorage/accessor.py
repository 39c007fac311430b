"""The accessor of a storage, synced with its spec, its lock and the operator's config.

| spec.accessor.enabled | storage | config | accessor |
|---|---|---|---|
| false | any | any | removed; none is reported |
| true | any | none | removed, Pending |
| true | cannot be mounted, or its volume is not bound | set | removed, Pending |
| true | its holder excludes the accessor | set | removed, Pending |
| true | otherwise | set | applied; Ready when its pod is, Pending before, Failed if the API server refuses it |

Every row is reached from every other one by another run, so a crash between two writes needs no repair.
"""

from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpustorage import AccessorStatus, GPUStorage
from gpuruntime.api.names import STORAGE_ACCESSOR_LABEL
from gpuruntime.api.reasons import ACCESSOR_PENDING, FAILED, PENDING, READY
from gpuruntime.control import Cache, Context, ControllerBuilder, Informer, WriteRefusedError
from gpuruntime.desired.storage.accessor import (
    AccessorRendering,
    accessor_deployment,
    accessor_name,
    accessor_path,
    accessor_service,
)
from gpuruntime.desired.storage.accessor_turn import gives_way
from gpuruntime.kube import KubeError
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.child_sync_errors import child_sync_error
from gpuruntime.reconcilers.orphans import OWNERSHIP

__all__ = ["AccessorCaches", "AccessorOutcome", "AccessorSync"]

_NOT_CONFIGURED: Final = "The operator's config has no accessor.image and accessor.publicKeys."
_NOT_MOUNTABLE: Final = "The storage cannot be mounted yet."
_NOT_BOUND: Final = "The volume is not bound: the first unit that mounts it decides where it is."


@frozen
class AccessorCaches:
    """The Deployments and Services of accessors."""

    deployments: Informer[Deployment]
    services: Informer[Service]

    @classmethod
    def of(cls, cache: Cache, namespaces: Sequence[str]) -> "AccessorCaches":
        label = STORAGE_ACCESSOR_LABEL
        return cls(
            cache.informer(Deployment, namespaces=namespaces, labels=label),
            cache.informer(Service, namespaces=namespaces, labels=label),
        )

    def owned_by(self, builder: "ControllerBuilder[Any]") -> "ControllerBuilder[Any]":
        """Have the controller of storages own them: their changes reconcile the storage, and permissions follow."""
        return builder.owns(self.deployments, deletes=True).owns(self.services, deletes=True)


@frozen
class AccessorOutcome:
    """The state of an accessor, None if it is not enabled, and after how many seconds to try a refused write again."""

    status: AccessorStatus | None = None
    retry_seconds: float | None = None


@frozen
class AccessorSync:
    """Syncs accessors.

    Guarantees:
        - An unchanged storage costs no write.
        - The unit wins: see `desired.storage.accessor_turn`.
        - The accessor never decides on which node a late-binding volume is.
        - Foreign objects are left alone: the accessor is Failed then, and the message names them.

    Args:
        rendering: None if accessors are not configured.
    """

    caches: AccessorCaches
    rendering: AccessorRendering | None = None

    async def sync(self, ctx: Context, storage: GPUStorage, *, is_mountable: bool, is_bound: bool) -> AccessorOutcome:
        """Bring the accessor of a storage to its desired state. `ctx` is that of the storage.

        Raises:
            KubeError: the API server is away or behind; raise it, so that it is retried with backoff.
        """
        if not storage.spec.accessor.enabled:
            await self.remove(ctx, storage)
            return AccessorOutcome()
        waits = self._waits_for(storage, is_mountable=is_mountable, is_bound=is_bound)
        if waits or self.rendering is None:
            await self.remove(ctx, storage)
            return AccessorOutcome(_status(storage, PENDING, waits))
        try:
            deployment = (await ctx.apply(accessor_deployment(storage, self.rendering))).object
            await ctx.apply(accessor_service(storage))
        except (KubeError, WriteRefusedError) as error:
            failed = child_sync_error(error, "accessor", ACCESSOR_PENDING, is_living=lambda _namespace, _uid: False)
            if failed is None or failed.seconds is None:
                raise
            return AccessorOutcome(_status(storage, FAILED, failed.failure.message), failed.seconds)
        if _is_ready(deployment):
            return AccessorOutcome(_status(storage, READY, ""))
        return AccessorOutcome(_status(storage, PENDING, _progress(deployment)))

    async def remove(self, ctx: Context, storage: GPUStorage) -> bool:
        """Delete the accessor; returns whether anything of it is left. Its pod goes with the Deployment."""
        key = ObjectKey(storage.metadata.namespace, accessor_name(storage.metadata.name))
        is_left = False
        for child in (self.caches.deployments.store.get(key), self.caches.services.store.get(key)):
            if child is not None and OWNERSHIP.owner_uid(child.metadata) == storage.metadata.uid:
                await ctx.delete(child)
                is_left = True
        return is_left

    def _waits_for(self, storage: GPUStorage, *, is_mountable: bool, is_bound: bool) -> str:
        if self.rendering is None:
            return _NOT_CONFIGURED
        if not is_mountable:
            return _NOT_MOUNTABLE
        if not is_bound:
            return _NOT_BOUND
        holder = gives_way(storage)
        return f"It gives way to {holder}, which has the storage." if holder else ""


def _status(storage: GPUStorage, phase: str, message: str) -> AccessorStatus:
    name = accessor_name(storage.metadata.name)
    return AccessorStatus(phase, name, accessor_path(storage), message or None)


def _is_ready(deployment: Deployment) -> bool:
    status = deployment.status
    is_current = status.observed_generation >= deployment.metadata.generation
    return is_current and status.updated_replicas >= 1 and status.available_replicas >= 1


def _progress(deployment: Deployment) -> str:
    refused = next((each for each in deployment.status.conditions if each.type == "ReplicaFailure"), None)
    if refused is not None and refused.status == "True" and refused.message:
        return f"Its pod was refused: {refused.message}"
    return "Its pod is not ready yet."
