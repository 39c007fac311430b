"""Storages that units can mount: each with a bound volume, and a status that a test writes instead of a reconciler."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import field, frozen

from gpuruntime.api.gpustorage import READ_WRITE_ONCE, GPUStorage
from gpuruntime.api.gpuunit import GPUUnitSpec
from gpuruntime.api.projection import project
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.desired.storage.locks import Lock, lock_of
from gpuruntime.meta import ObjectKey, decode
from gpuruntime.testing import AdminClient
from tests.service.service_scenes import SMALL

__all__ = ["Storages", "mounting", "storages_of"]

_KIND = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "GPUStorage"}
_PATH = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpustorages"


def mounting(*names: str, read_only: bool = False, **spec: Any) -> GPUUnitSpec:
    """The spec of a small unit that mounts storages, each at /NAME."""
    mounts = tuple(StorageMount(name, f"/{name}", read_only) for name in names)
    return project(SMALL, GPUUnitSpec, image="nginx", storage_mounts=mounts, **spec)


@frozen
class Storages:
    """The storages of a namespace."""

    admin: AdminClient
    namespace: str
    _volumes: list[str] = field(factory=list)

    def make(self, name: str, mode: str = READ_WRITE_ONCE, *, is_ready: bool = True, **metadata: Any) -> GPUStorage:
        """A new storage with a bound PersistentVolumeClaim; without `is_ready` it has no status yet."""
        self._make_volume(name, mode)
        body = {**_KIND, "metadata": {"name": name, **metadata}, "spec": {"size": "1Gi", "accessMode": mode}}
        self.admin.create(_PATH.format(self.namespace), body)
        if is_ready:
            self.say(name, "True", "StorageReady")
        return self.read(name)

    def say(self, name: str, status: str, reason: str, message: str = "", **others: Any) -> None:
        """Write the Ready condition of a storage, as its reconciler does."""
        since = "2026-01-01T00:00:00Z"
        ready = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
        self.admin.merge(f"{self._path(name)}/status", {"status": {"conditions": [ready], **others}})

    def annotate(self, name: str, annotations: dict[str, str | None]) -> None:
        """Change annotations of a storage by hand."""
        self.admin.merge(self._path(name), {"metadata": {"annotations": annotations}})

    def delete(self, name: str) -> None:
        self.admin.delete(self._path(name))

    def read(self, name: str) -> GPUStorage:
        return decode(GPUStorage, self.admin.get(self._path(name)))

    def lock(self, name: str) -> Lock | None:
        return lock_of(self.read(name).metadata)

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def _path(self, name: str) -> str:
        return f"{_PATH.format(self.namespace)}/{name}"

    def _make_volume(self, name: str, mode: str) -> None:
        volume = f"{self.namespace}-{name}"
        shape = {"accessModes": [mode], "storageClassName": ""}
        claim = {"name": name, "namespace": self.namespace}
        source = {"hostPath": {"path": "/nowhere"}, "capacity": {"storage": "1Gi"}, "claimRef": claim}
        self.admin.create(
            "/api/v1/persistentvolumes",
            {"metadata": {"name": volume}, "spec": {**shape, **source, "persistentVolumeReclaimPolicy": "Retain"}},
        )
        self._volumes.append(volume)
        wanted = {**shape, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
        self.admin.create(
            f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": wanted}
        )

    def clean_up(self) -> None:
        """Delete the volumes, which are in no namespace."""
        for volume in self._volumes:
            self.admin.delete(f"/api/v1/persistentvolumes/{volume}")


@contextmanager
def storages_of(admin: AdminClient, namespace: str) -> Iterator[Storages]:
    """The storages of a namespace, for the length of the block."""
    made = Storages(admin, namespace)
    try:
        yield made
    finally:
        made.clean_up()
