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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from attrs import frozen

from gpuruntime.control import Context, Informer, Manager, Result, Source, allow, by_field
from gpuruntime.kube import AlreadyExistsError, MergePatch, NotFoundError, dynamic
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import DynamicObject, ObjectKey
from gpuruntime.testing.volumes.faults import VolumeFaults
from gpuruntime.testing.volumes.objects import (
    FINALIZER,
    PERSISTENT_VOLUME,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_CLASS,
    persistent_volume,
    volume_labels,
    volume_name,
)

__all__ = ["CLASS_INDEX", "Backend", "Provisioner", "claims_of", "provision_volumes"]

_LOG: Final = logging.getLogger(__name__)
CLASS_INDEX: Final = "spec.storageClassName"
_SOURCE_INDEX: Final = "spec.dataSource.name"
_RETRY_SECONDS: Final = 0.05


class Backend(Protocol):
    """Where the data of volumes is. Calls block, and may be repeated after a crash."""

    @property
    def keeps_data(self) -> bool:
        """Whether there is data to remove when a volume is deleted."""

    def create(self, volume: str) -> Mapping[str, Any]:
        """Make room for the data of a volume, and return the source of its PersistentVolume."""

    def remove(self, volume: str) -> None:
        """Remove all data of a volume."""


@frozen
class Provisioner:
    """A provisioner: its name in storage classes, its node, its backend, and which of its classes can clone.

    Without a node, it serves all nodes, and its volumes can be used on each of them.
    """

    name: str
    node: str | None
    backend: Backend
    cloning_classes: tuple[str, ...] = ()

    @property
    def selector(self) -> str:
        """The label selector of its volumes."""
        return ",".join(f"{label}={value}" for label, value in volume_labels(self.name, self.node).items())


def claims_of(manager: Manager) -> Informer[PersistentVolumeClaim]:
    """The informer of all PersistentVolumeClaims of a manager, with the indexes that the controllers here need."""
    return manager.cache.informer(PersistentVolumeClaim, indexes=[by_field(CLASS_INDEX), by_field(_SOURCE_INDEX)])


def provision_volumes(
    manager: Manager,
    provisioner: Provisioner,
    faults: VolumeFaults | None = None,
    sources: Sequence[Source[ObjectKey]] = (),
) -> None:
    """Add the controllers of a provisioner to a manager.

    A PersistentVolumeClaim gets a volume if its class names the provisioner and, for a class that waits for the first
    consumer, the scheduler has selected its node, or any node where it serves all. A claim that names another one as
    its data source gets a volume when that is bound, if the class can clone; otherwise an event says that it cannot.
    The data of a volume whose class says Delete is removed when the claim is gone, or when the PersistentVolume is
    deleted.
    """
    volumes = dynamic(PERSISTENT_VOLUME)
    one = _Provisioning(provisioner, faults or VolumeFaults())
    claims = claims_of(manager)

    def of_class(found: DynamicObject) -> list[ObjectKey]:
        return [claim.key for claim in claims.store.list(where={CLASS_INDEX: found.metadata.name}).items]

    def clones_of(found: PersistentVolumeClaim) -> list[ObjectKey]:
        clones = claims.store.list(where={_SOURCE_INDEX: found.metadata.name}).items
        return [claim.key for claim in clones if claim.metadata.namespace == found.metadata.namespace]

    builder = manager.controller(claims, name="volume-provisioner").watches(claims, clones_of)
    builder.watches(dynamic(STORAGE_CLASS), of_class).reads(volumes, labels=provisioner.selector)
    builder.source(*sources).records_events().permissions(allow(PERSISTENT_VOLUME, "create"))
    builder.reconcile(one.provision)
    reclaimer = manager.controller(volumes, name="volume-reclaimer", labels=provisioner.selector)
    reclaimer.permissions(allow(PERSISTENT_VOLUME, "delete"))
    if provisioner.backend.keeps_data:
        reclaimer.permissions(allow(PERSISTENT_VOLUME, "patch"))
    reclaimer.reconcile_keys(one.reclaim)


@frozen
class _Provisioning:
    of: Provisioner
    faults: VolumeFaults

    async def provision(self, claim: PersistentVolumeClaim, ctx: Context) -> Result:
        found = ctx.get(dynamic(STORAGE_CLASS), claim.spec.storage_class_name or "", "")
        volume = volume_name(claim)
        existing = ctx.get(dynamic(PERSISTENT_VOLUME), volume, "")
        if found is None or existing is not None or not self._is_for_us(claim, found) or self.faults.is_held(claim):
            return Result.done()
        failure = self.faults.next_failure(claim)
        if failure is not None:
            self._record_failure(ctx, failure.message)
            return Result.after(_RETRY_SECONDS) if failure.is_retried else Result.done()
        source_volume, problem = self._source(claim, ctx)
        if problem:
            self._record_failure(ctx, problem)
            return Result.done()
        place = await asyncio.to_thread(self.of.backend.create, volume)
        body = persistent_volume(
            claim,
            self.of.name,
            found.body.get("reclaimPolicy", "Delete"),
            place,
            node=self.of.node,
            keeps_data=self.of.backend.keeps_data,
            cloned_from=source_volume,
        )
        with suppress(AlreadyExistsError):
            await ctx.client.create(DynamicObject.decode(PERSISTENT_VOLUME, body))
            _LOG.info("volume provisioned", extra={"volume": volume, "node": self.of.node})
        return Result.done()

    def _record_failure(self, ctx: Context, problem: str) -> None:
        note = f"failed to provision volume with StorageClass {ctx.object.spec.storage_class_name!r}: {problem}"
        ctx.record("Warning", "ProvisioningFailed", note, action="Provision")

    def _source(self, claim: PersistentVolumeClaim, ctx: Context) -> tuple[str, str]:
        """The volume that the claim is cloned from, "" for an empty one, and what prevents it."""
        wanted = claim.spec.data_source
        if wanted is None:
            return "", ""
        if wanted.kind != PersistentVolumeClaim.KIND.kind:
            return "", f"data source {wanted.kind} {wanted.name} is not supported: expected a PersistentVolumeClaim"
        if claim.spec.storage_class_name not in self.of.cloning_classes:
            return "", f"the class cannot clone PersistentVolumeClaim {wanted.name}"
        source = ctx.get(PersistentVolumeClaim, wanted.name, claim.metadata.namespace)
        if source is None or source.status.phase != "Bound" or source.spec.volume_name is None:
            return "", f"PersistentVolumeClaim {wanted.name} is not bound"
        return source.spec.volume_name, ""

    def _is_for_us(self, claim: PersistentVolumeClaim, found: DynamicObject) -> bool:
        is_open = not claim.spec.volume_name and claim.metadata.deletion_timestamp is None
        if not is_open or found.body["provisioner"] != self.of.name:
            return False
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if selected is None:
            return bool(found.body.get("volumeBindingMode") == "Immediate")
        return self.of.node is None or selected == self.of.node

    async def reclaim(self, key: ObjectKey, ctx: Context) -> Result:
        volume = ctx.get(dynamic(PERSISTENT_VOLUME), key.name, "")
        if volume is None:
            return Result.done()
        meta = volume.metadata
        if meta.annotations.get(PROVISIONED_BY) != self.of.name:
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
            await asyncio.to_thread(self.of.backend.remove, meta.name)
            _LOG.info("volume data removed", extra={"volume": meta.name, "node": self.of.node})
        patch = MergePatch({"metadata": {"finalizers": None, "resourceVersion": meta.resource_version}})
        with suppress(NotFoundError):
            await ctx.client.patch(dynamic(PERSISTENT_VOLUME), meta.name, "", patch)
        return Result.done()
