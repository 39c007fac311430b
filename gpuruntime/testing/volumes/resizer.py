"""The controller that resizes volumes: it raises the capacity of the volume, then that of its claim.

Each run reads the state of both objects and makes one step of `resizing.next_step`, so a process that ends at any
moment leaves nothing that the next one would do differently.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from attrs import frozen

from gpuruntime.control import Context, Manager, Result, Source, Store, allow, projected
from gpuruntime.kube import dynamic
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import DynamicObject, ObjectKey
from gpuruntime.testing.volumes.faults import VolumeFaults
from gpuruntime.testing.volumes.objects import PERSISTENT_VOLUME, is_of_claim
from gpuruntime.testing.volumes.provisioner import Provisioner, claims_of
from gpuruntime.testing.volumes.resizing import PodUse, RaiseVolume, next_step

__all__ = ["resize_volumes"]

_LOG: Final = logging.getLogger(__name__)
_FINISHED: Final = ("Succeeded", "Failed")


def resize_volumes(
    manager: Manager,
    provisioner: Provisioner,
    faults: VolumeFaults | None = None,
    sources: Sequence[Source[ObjectKey]] = (),
) -> None:
    """Add a controller to a manager that resizes the volumes of a provisioner when their claims ask for more.

    Kubernetes refuses the request if the class does not allow it. Pods are watched only for faults.
    """
    one = _Resizing(faults)
    builder = manager.controller(claims_of(manager), name="volume-resizer")
    builder.watches(dynamic(PERSISTENT_VOLUME), _claim_of_volume, labels=provisioner.selector)
    if faults is not None:
        builder.watches(_PODS, _claims_of_pod)
    builder.source(*sources).updates_status().records_events().permissions(allow(PERSISTENT_VOLUME, "patch"))
    builder.reconcile(one.resize)


def _pod_use(pod: Mapping[str, Any]) -> PodUse:
    named = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    meta, phase = pod["metadata"], pod.get("status", {}).get("phase", "")
    return PodUse(meta["namespace"], meta["uid"], phase, tuple(one["claimName"] for one in named if one is not None))


_PODS: Final = projected(Pod.KIND, _pod_use)


def _claims_of_pod(pod: PodUse) -> list[ObjectKey]:
    return [ObjectKey(pod.namespace, name) for name in pod.claims]


def _claim_of_volume(volume: DynamicObject) -> list[ObjectKey]:
    claim = volume.body["spec"].get("claimRef")
    return [] if claim is None else [ObjectKey(claim["namespace"], claim["name"])]


def _users(claim: PersistentVolumeClaim, pods: Store[PodUse]) -> list[PodUse]:
    """The pods that have not ended and name the claim."""
    meta = claim.metadata
    named = (pod for pod in pods.list().items if pod.namespace == meta.namespace and meta.name in pod.claims)
    return [pod for pod in named if pod.phase not in _FINISHED]


@frozen
class _Resizing:
    faults: VolumeFaults | None

    async def resize(self, claim: PersistentVolumeClaim, ctx: Context) -> Result:
        volume = ctx.get(dynamic(PERSISTENT_VOLUME), claim.spec.volume_name or "", "")
        if claim.status.phase != "Bound" or volume is None or not is_of_claim(volume, claim):
            return Result.done()
        fault = None if self.faults is None else self.faults.resize_of(claim)
        users = [] if fault is None else _users(claim, ctx.store(_PODS))
        step = next_step(claim, volume, users, fault, datetime.now(UTC))
        if isinstance(step, RaiseVolume):
            # The change of the volume brings the next step.
            await ctx.client.patch(dynamic(PERSISTENT_VOLUME), volume.metadata.name, "", step.patch)
            _LOG.info("volume resized", extra={"volume": volume.metadata.name})
        elif await ctx.update_status(step.status) and step.refusal:
            ctx.record("Warning", "VolumeResizeFailed", step.refusal, action="Resize")
        return Result.done()
