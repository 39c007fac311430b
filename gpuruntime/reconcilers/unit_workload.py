"""What runs for a unit, by live reads: its Deployment, its ReplicaSets and its pods."""

from typing import Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.names import UNIT_LABEL, label_value
from gpuruntime.desired.storage.volume_use import excludes_others, uses_of_template
from gpuruntime.desired.units.names import child_name
from gpuruntime.kube import Client
from gpuruntime.kube.builtin.apps import Deployment, ReplicaSet
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey, controller_of
from gpuruntime.service.reads.reader import read_or_none

__all__ = ["UnitWorkload"]

_OVER: Final = frozenset({"Succeeded", "Failed"})


@frozen
class UnitWorkload:
    """The Deployment of a unit, None if there is none, its ReplicaSets that want pods, and its pods that are not over.

    Guarantees:
        They were read in the order in which pods come into being: what is gone in this order stays gone, unless another
        Deployment is created.
    """

    deployment: Deployment | None
    sets: tuple[ReplicaSet, ...]
    pods: tuple[Pod, ...]

    @classmethod
    async def read(cls, client: Client, unit: ObjectKey) -> "UnitWorkload":
        """The workload of the unit of this name.

        Raises:
            KubeError: the API server is not available.
        """
        labels = f"{UNIT_LABEL}={label_value(unit.name)}"
        deployment = await read_or_none(client, Deployment, ObjectKey(unit.namespace, child_name(unit.name)))
        sets = await client.list(ReplicaSet, unit.namespace, labels=labels)
        pods = await client.list(Pod, unit.namespace, labels=labels)
        return cls(
            deployment,
            tuple(each for each in sets.items if each.spec.replicas),
            tuple(pod for pod in pods.items if pod.status.phase not in _OVER),
        )

    def without_adopted(self) -> "UnitWorkload":
        """Without what the next Deployment of the unit adopts: ReplicaSets that no controller owns, and their pods.

        They are left by a deletion of the Deployment with `--cascade=orphan`. The next one lets them run, or ends them
        before it starts a pod.
        """
        adopted = {
            each.metadata.uid
            for each in self.sets
            if controller_of(each.metadata) is None and each.metadata.deletion_timestamp is None
        }
        return UnitWorkload(
            self.deployment,
            tuple(each for each in self.sets if each.metadata.uid not in adopted),
            tuple(pod for pod in self.pods if _controller_uid(pod) not in adopted),
        )

    def users_of(self, storage: GPUStorage) -> tuple[str, ...]:
        """What mounts the volume of a storage exclusively, or can still create a pod that does, in words."""
        templates = (*(() if self.deployment is None else (self.deployment,)), *self.sets)
        makers = (
            f"{each.KIND.kind} {each.metadata.name}"
            for each in templates
            if excludes_others(storage, uses_of_template(each.spec.template.spec.volumes))
        )
        pods = (pod for pod in self.pods if excludes_others(storage, uses_of_template(pod.spec.volumes)))
        return (*makers, *(f"pod {pod.metadata.name}" for pod in pods))


def _controller_uid(pod: Pod) -> str:
    controller = controller_of(pod.metadata)
    return "" if controller is None else controller.uid
