"""The controllers that make the volumes of PersistentVolumeClaims, and remove their data.

What happens when the process ends at any moment:

| after | then |
|---|---|
| the data is made | the next run finds it, and creates the PersistentVolume |
| the PersistentVolume is created | Kubernetes binds it |
| the claim is deleted before that | the PersistentVolume names its UID, is Released at once, and removed as usual |
| the PersistentVolume is deleted, its data is not yet removed | the finalizer keeps it; the next run removes the data |
| the data is removed, in part or whole | the next run removes the rest, then the finalizer |
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from attrs import frozen

from gpuruntime.control import Context, Manager, Result, by_field
from gpuruntime.kube import AlreadyExistsError, MergePatch, NotFoundError, dynamic
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import DynamicObject, ObjectKey
from gpuruntime.testing.volumes.objects import (
    FINALIZER,
    NODE_LABEL,
    PERSISTENT_VOLUME,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_CLASS,
    persistent_volume,
    volume_name,
)

__all__ = ["Backend", "provision_volumes"]

_LOG: Final = logging.getLogger(__name__)
_CLASS_INDEX: Final = "spec.storageClassName"


class Backend(Protocol):
    """Where the data of volumes is. Calls block, and may be repeated after a crash."""

    def create(self, volume: str) -> Mapping[str, Any]:
        """Make room for the data of a volume, and return the source of its PersistentVolume."""

    def remove(self, volume: str) -> None:
        """Remove all data of a volume."""


def provision_volumes(manager: Manager, provisioner: str, node: str, backend: Backend) -> None:
    """Add the controllers of a provisioner to a manager: one for each node.

    A PersistentVolumeClaim gets a volume if its class names the provisioner and, for a class that waits for the first
    consumer, the scheduler has selected this node. The data of a volume whose class says Delete is removed when the
    claim is gone, or when the PersistentVolume is deleted.
    """
    volumes = dynamic(PERSISTENT_VOLUME)
    one = _Provisioner(provisioner, node, backend)
    claims = manager.cache.informer(PersistentVolumeClaim, indexes=[by_field(_CLASS_INDEX)])

    def claims_of(found: DynamicObject) -> list[ObjectKey]:
        return [claim.key for claim in claims.store.list(where={_CLASS_INDEX: found.metadata.name}).items]

    builder = manager.controller(claims, name="volume-provisioner")
    builder.watches(dynamic(STORAGE_CLASS), claims_of).reads(volumes, labels=f"{NODE_LABEL}={node}")
    builder.reconcile(one.provision)
    manager.controller(volumes, name="volume-reclaimer", labels=f"{NODE_LABEL}={node}").reconcile_keys(one.reclaim)


@frozen
class _Provisioner:
    name: str
    node: str
    backend: Backend

    async def provision(self, claim: PersistentVolumeClaim, ctx: Context) -> Result:
        found = ctx.get(dynamic(STORAGE_CLASS), claim.spec.storage_class_name or "", "")
        volume = volume_name(claim)
        existing = ctx.get(dynamic(PERSISTENT_VOLUME), volume, "")
        if found is None or existing is not None or not self._is_for_us(claim, found):
            return Result.done()
        source = await asyncio.to_thread(self.backend.create, volume)
        body = persistent_volume(claim, self.node, self.name, found.body.get("reclaimPolicy", "Delete"), source)
        with suppress(AlreadyExistsError):
            await ctx.client.create(DynamicObject.decode(PERSISTENT_VOLUME, body))
            _LOG.info("volume provisioned", extra={"volume": volume, "node": self.node})
        return Result.done()

    def _is_for_us(self, claim: PersistentVolumeClaim, found: DynamicObject) -> bool:
        is_open = not claim.spec.volume_name and claim.metadata.deletion_timestamp is None
        if not is_open or found.body["provisioner"] != self.name:
            return False
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        return selected == self.node or (selected is None and found.body.get("volumeBindingMode") == "Immediate")

    async def reclaim(self, key: ObjectKey, ctx: Context) -> Result:
        volume = ctx.get(dynamic(PERSISTENT_VOLUME), key.name, "")
        if volume is None:
            return Result.done()
        meta = volume.metadata
        if meta.annotations.get(PROVISIONED_BY) != self.name or FINALIZER not in meta.finalizers:
            return Result.done()
        is_deleted = volume.body["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        if meta.deletion_timestamp is None:
            if is_deleted and volume.body.get("status", {}).get("phase") == "Released":
                with suppress(NotFoundError):
                    await ctx.client.delete(dynamic(PERSISTENT_VOLUME), meta.name, uid=meta.uid)
            return Result.done()
        if meta.finalizers != (FINALIZER,):
            # Kubernetes protects a volume that is bound; the end of that is a change of this object.
            return Result.done()
        if is_deleted:
            await asyncio.to_thread(self.backend.remove, meta.name)
            _LOG.info("volume data removed", extra={"volume": meta.name, "node": self.node})
        patch = MergePatch({"metadata": {"finalizers": None, "resourceVersion": meta.resource_version}})
        with suppress(NotFoundError):
            await ctx.client.patch(dynamic(PERSISTENT_VOLUME), meta.name, "", patch)
        return Result.done()
