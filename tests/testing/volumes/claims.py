"""PersistentVolumeClaims and pods of the tests of fake volumes."""

import asyncio
from collections.abc import Callable
from typing import Any

from attrs import frozen

from gpuruntime.control import WaitCondition, wait_for
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.testing import AdminClient
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes

__all__ = ["Claims", "eventually"]

_WITHIN = 60.0


@frozen
class Claims:
    """Claims of one namespace, made by an administrator."""

    admin: AdminClient
    volumes: FakeVolumes
    namespace: str

    def key(self, name: str = "data") -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def create(self, name: str = "data", *, of: str = "", size: str = "1Gi", **spec: Any) -> ObjectKey:
        """Create a claim of a class, which is the immediate one unless given."""
        wanted = {
            "storageClassName": of or self.volumes.classes.immediate,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }
        self.admin.create(self._path(), {"metadata": {"name": name}, "spec": {**wanted, **spec}})
        return self.key(name)

    def ask_for(self, size: str, name: str = "data") -> None:
        self.admin.merge(f"{self._path()}/{name}", {"spec": {"resources": {"requests": {"storage": size}}}})

    def delete(self, name: str = "data") -> None:
        self.admin.delete(f"{self._path()}/{name}")

    def run_pod(self, name: str, claim: str = "data") -> None:
        """Create a pod that uses a claim; a fake node runs it as soon as the claim is bound."""
        spec = {
            "containers": [{"name": "x", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            "terminationGracePeriodSeconds": 0,
        }
        self.admin.create(f"/api/v1/namespaces/{self.namespace}/pods", {"metadata": {"name": name}, "spec": spec})

    def phase(self, name: str = "data") -> str:
        """The phase as the server has it now."""
        return str(self.admin.get(f"{self._path()}/{name}")["status"]["phase"])

    def volume(self, claim: PersistentVolumeClaim) -> dict[str, Any]:
        return dict(self.admin.get(f"/api/v1/persistentvolumes/{claim.spec.volume_name}"))

    async def until(
        self, text: str, holds: Callable[[PersistentVolumeClaim], bool], name: str = "data"
    ) -> PersistentVolumeClaim:
        """The claim, once a predicate holds."""
        wanted: WaitCondition[PersistentVolumeClaim] = WaitCondition(
            text, lambda claim: claim is not None and holds(claim)
        )
        found = await wait_for(self.volumes.claims, self.key(name), wanted, within=_WITHIN)
        assert found is not None
        return found

    async def marked(self, type_: str, name: str = "data") -> PersistentVolumeClaim:
        """The claim, once it has a condition."""
        return await self.until(
            f"has condition {type_}", lambda claim: find_condition(claim.status.conditions, type_) is not None, name
        )

    async def grown(self, size: str, name: str = "data") -> PersistentVolumeClaim:
        """The claim, once it has this size."""
        return await self.until(f"has {size}", lambda claim: claim.status.capacity.get("storage") == size, name)

    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"


async def eventually(condition: Callable[[], bool]) -> None:
    """Poll for what has no informer here; the timeout of the test is the limit."""
    while not condition():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.02)
