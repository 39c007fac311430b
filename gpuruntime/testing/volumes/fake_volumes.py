"""Volumes for fake nodes: storage classes, a provisioner and a resizer, and the faults that a test sets.

::

    async with kube_volumes.running():
        kube_volumes.hold(ObjectKey(kube_namespace, "data"))
        ...  # create the PersistentVolumeClaim with storageClassName kube_volumes.classes.immediate: it stays Pending
        kube_volumes.release(ObjectKey(kube_namespace, "data"))
        ...  # and is bound
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import define, frozen

from gpuruntime.control import (
    OFFLINE_CREDENTIALS,
    Channel,
    Informer,
    Manager,
    ManagerOptions,
    NotSyncedError,
    Permission,
    WaitCondition,
    wait_for,
)
from gpuruntime.kube import Credentials, MergePatch, NotFoundError, dynamic, from_kubeconfig
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.admin import AdminClient, RefusedError
from gpuruntime.testing.managers import running
from gpuruntime.testing.permissions import granted_account
from gpuruntime.testing.volumes.faults import ResizeFault, Target, VolumeFaults
from gpuruntime.testing.volumes.no_data import VolumesWithoutData
from gpuruntime.testing.volumes.objects import PERSISTENT_VOLUME
from gpuruntime.testing.volumes.provisioner import CLASS_INDEX, Provisioner, claims_of, provision_volumes
from gpuruntime.testing.volumes.resizer import resize_volumes
from gpuruntime.testing.volumes.storage_class import storage_class

__all__ = ["FakeClasses", "FakeVolumes", "Target"]

_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_VOLUMES: Final = "/api/v1/persistentvolumes"
_DOMAIN: Final = "testing.gpuruntime.local"
_MANAGER: Final = "fake-volumes"


@frozen
class FakeClasses:
    """The names of the storage classes.

    `immediate` makes volumes at once, `late` on the first use by a pod, `fixed` makes volumes that cannot grow, `clone`
    also copies other claims (`spec.dataSource`). Volumes of the others are empty, and claims with a data source fail.
    """

    immediate: str
    late: str
    fixed: str
    clone: str


@define(eq=False)
class _Work:
    """A manager at work, and how to make it look at a claim again."""

    manager: Manager
    provisioning: Channel[ObjectKey]
    resizing: Channel[ObjectKey]

    def wake(self, target: Target) -> None:
        store = claims_of(self.manager).store
        known = [target] if isinstance(target, ObjectKey) else []
        if not isinstance(target, ObjectKey):
            # Before its first list the controllers have seen no claim.
            with suppress(NotSyncedError):
                known = [claim.key for claim in store.list(where={CLASS_INDEX: target}).items]
        for key in known:
            self.provisioning.send(key, why="fault")
            self.resizing.send(key, why="fault")


class FakeVolumes:
    """Volumes for fake nodes: nothing is stored in them, and everything that Kubernetes shows of them is real.

    Flow:
        `installed` creates the storage classes, `running` runs provisioner and resizer in the test's own loop. Between
        two blocks of `running` nothing is provisioned, as if the provisioner had crashed; faults stay set.

    Guarantees:
        - Claims with one of `classes` are bound to a volume of their own; it is deleted with its claim.
        - A claim that asks for more gets it, if its class allows it.
        - Any number of them with different names run side by side in a cluster.
        - Provisioner and resizer have a ServiceAccount with exactly the permissions that they need.
        - Nothing stays after `installed`: no class and no volume. Claims that remain are Lost.

    A fault is for a target: the key of a PersistentVolumeClaim, or the name of a class and thereby all of its claims.
    Neither needs to exist yet. `release` clears all faults of a target.
    """

    def __init__(self, access: ClusterAccess, namespace: str, directory: Path, *, name: str = "fake") -> None:
        """Prepare volumes; nothing is created.

        Args:
            access: the cluster.
            namespace: of the ServiceAccount of provisioner and resizer; claims can be in any namespace.
            directory: for its kubeconfig.
            name: the name of the first class, and the prefix of the others.
        """
        self._access = access
        self._namespace = namespace
        self._directory = directory
        self.classes = FakeClasses(name, f"{name}-late", f"{name}-fixed", f"{name}-clone")
        backend = VolumesWithoutData()
        self._provisioner = Provisioner(f"{name}.{_DOMAIN}", None, backend, cloning_classes=(self.classes.clone,))
        self._faults = VolumeFaults(self._wake)
        self._work: _Work | None = None

    @contextmanager
    def installed(self, *, is_default: bool = False) -> Iterator["FakeVolumes"]:
        """Create the storage classes for the length of the block; then delete them and all of their volumes.

        With `is_default`, the class `immediate` is that of claims that name none.
        """
        admin = self._access.admin()
        try:
            for body in self._class_objects(is_default=is_default):
                admin.create(_CLASSES, body)
            yield self
        finally:
            for body in self._class_objects(is_default=is_default):
                admin.delete(f"{_CLASSES}/{body['metadata']['name']}")
            self._delete_volumes(admin)

    @asynccontextmanager
    async def running(self, *, within: float = 240.0) -> AsyncIterator["FakeVolumes"]:
        """Run provisioner and resizer for the length of the block, `within` seconds at most.

        Raises:
            RuntimeError: they run already.
            TimeoutError: the block has not ended in time.
        """
        if self._work is not None:
            raise RuntimeError("these fake volumes run already: leave the other block of running() first")
        granted = granted_account(self._access, self.permissions, namespace=self._namespace, directory=self._directory)
        stack = ExitStack()
        try:
            account = await asyncio.to_thread(stack.enter_context, granted)
            work = self._build(from_kubeconfig(account.kubeconfig))
            async with running(work.manager, within=within):
                self._work = work
                try:
                    yield self
                finally:
                    self._work = None
        finally:
            await asyncio.to_thread(stack.close)

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions of provisioner and resizer. Needs a running loop, as managers do."""
        return self._build(OFFLINE_CREDENTIALS).manager.permissions

    @property
    def claims(self) -> Informer[PersistentVolumeClaim]:
        """All PersistentVolumeClaims of the cluster, for `wait_for(kube_volumes.claims, key, ...)`.

        Raises:
            RuntimeError: outside of a block of `running`.
        """
        return claims_of(self._running("claims").manager)

    async def bound(self, claim: ObjectKey, *, within: float = 60.0) -> PersistentVolumeClaim:
        """The claim, once it is bound.

        Raises:
            WaitTimeoutError: it is not bound in time.
            RuntimeError: outside of a block of `running`.
        """
        is_bound: WaitCondition[PersistentVolumeClaim] = WaitCondition(
            "it is bound", lambda found: found is not None and found.status.phase == "Bound"
        )
        found = await wait_for(self.claims, claim, is_bound, within=within)
        assert found is not None  # noqa: S101 - the condition holds for no missing claim
        return found

    def hold(self, target: Target) -> None:
        """Make no volume, and say nothing: claims stay Pending until `release`."""
        self._faults.hold(target)

    def fail(self, target: Target, message: str = "no space left in the fake pool", *, times: int | None = 1) -> None:
        """Fail to make a volume this number of times, each with an event ProvisioningFailed; None is until `release`.

        The attempt after the last failure succeeds.
        """
        self._faults.fail(target, message, times)

    def stall_resize(self, target: Target) -> None:
        """Begin to resize, and make no progress: claims have the condition Resizing until `release`."""
        self._faults.resize(target, ResizeFault("stall"))

    def refuse_resize(
        self, target: Target, message: str = "the fake pool cannot grow volumes that far", *, above: str = "0"
    ) -> None:
        """Refuse sizes above a quantity, with the condition ControllerResizeError and an event VolumeResizeFailed.

        After `release`, or when the claim asks for a size that is not refused, it grows.
        """
        self._faults.resize(target, ResizeFault("refuse", message, above))

    def need_restart(self, target: Target) -> None:
        """Finish a resize only when a new pod uses the volume: until then the claim is FileSystemResizePending."""
        self._faults.resize(target, ResizeFault("restart"))

    def release(self, target: Target) -> None:
        """Clear all faults of a target; what they prevented happens now."""
        self._faults.release(target)

    async def lose(self, claim: ObjectKey, *, within: float = 60.0) -> None:
        """Take the volume of a bound claim away; returns when the claim is Lost.

        Raises:
            WaitTimeoutError: the claim is not bound in time, or Kubernetes does not say Lost.
            RuntimeError: outside of a block of `running`.
        """
        client, volume = self._running("lose").manager.client, dynamic(PERSISTENT_VOLUME)
        name = (await self.bound(claim, within=within)).spec.volume_name or ""
        with suppress(NotFoundError):
            await client.delete(volume, name)
            # Kubernetes protects a bound volume from deletion, not from a disk that is gone.
            await client.patch(volume, name, "", MergePatch({"metadata": {"finalizers": None}}))
        is_lost: WaitCondition[PersistentVolumeClaim] = WaitCondition(
            "it is Lost", lambda seen: seen is not None and seen.status.phase == "Lost"
        )
        await wait_for(self.claims, claim, is_lost, within=within)

    def _build(self, credentials: Credentials) -> _Work:
        manager = Manager(credentials, ManagerOptions(_MANAGER, grace=5.0))
        work = _Work(manager, Channel("faults"), Channel("faults"))
        provision_volumes(manager, self._provisioner, self._faults, [work.provisioning])
        resize_volumes(manager, self._provisioner, self._faults, [work.resizing])
        return work

    def _running(self, call: str) -> _Work:
        if self._work is None:
            raise RuntimeError(f"{call} needs running volumes: use it inside of `async with volumes.running():`")
        return self._work

    def _wake(self, target: Target) -> None:
        if self._work is not None:
            self._work.wake(target)

    def _class_objects(self, *, is_default: bool) -> list[dict[str, Any]]:
        of, names = self._provisioner.name, self.classes
        return [
            storage_class(names.immediate, of, binding="Immediate", expands=True, is_default=is_default),
            storage_class(names.late, of, binding="WaitForFirstConsumer", expands=True),
            storage_class(names.fixed, of, binding="Immediate"),
            storage_class(names.clone, of, binding="Immediate", expands=True),
        ]

    def _delete_volumes(self, admin: AdminClient) -> None:
        mine = f"{_VOLUMES}?labelSelector={self._provisioner.selector}"
        admin.delete(mine)
        for volume in admin.get(mine)["items"]:
            # Protected, because a claim is bound to it that outlives the test.
            with suppress(RefusedError):
                admin.merge(f"{_VOLUMES}/{volume['metadata']['name']}", {"metadata": {"finalizers": None}})
