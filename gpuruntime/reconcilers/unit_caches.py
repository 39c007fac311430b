"""What the GPUUnit reconciler sees of the cluster, in a form that five thousand units can afford.

Units, their Deployments and their Services are kept whole, because they are compared in every run. Pods and nodes are
kept as summaries. All Deployments and Services are watched, because a child may have lost every label and reference; of
those that cannot be a child, little more than the name is kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import UNIT_LABEL, label_value
from gpuruntime.control import (
    Cache,
    Change,
    Informer,
    Source,
    Timer,
    Trigger,
    Watch,
    annotations_changed,
    any_of,
    by_field,
    by_label,
    enqueue_object,
    generation_changed,
    projected,
)
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.foreign_status import status_touched
from gpuruntime.reconcilers.pod_summary import PodSummary, summarize_pod
from gpuruntime.reconcilers.unit_children import BY_UNIT, DEPLOYMENTS, SERVICES, units_of_child
from gpuruntime.service.reads.node_summary import NodeSummary, watch_nodes
from gpuruntime.service.reads.unit_index import watch_units

__all__ = ["UnitCaches"]

_BY_UNIT: Final = by_label(UNIT_LABEL)
_BY_NODE: Final = by_field("spec.nodeName")
_UNREADABLE_SECONDS: Final = 10.0
_UNREADABLE_AT_A_TIME: Final = 100


@frozen
class UnitCaches:
    """The informers of the reconciler."""

    units: Informer[GPUUnit]
    deployments: Informer[Deployment]
    services: Informer[Service]
    pods: Informer[PodSummary]
    nodes: Informer[NodeSummary]

    @classmethod
    def of(cls, cache: Cache, namespaces: Sequence[str] = ()) -> Self:
        """Informers of these namespaces, of all if there are none."""
        return cls(
            units=watch_units(cache, namespaces),
            deployments=cache.informer(DEPLOYMENTS, namespaces=namespaces, indexes=[BY_UNIT]),
            services=cache.informer(SERVICES, namespaces=namespaces, indexes=[BY_UNIT]),
            pods=cache.informer(
                projected(Pod.KIND, summarize_pod),
                namespaces=namespaces,
                labels=UNIT_LABEL,
                indexes=[_BY_UNIT, _BY_NODE],
            ),
            nodes=watch_nodes(cache),
        )

    def sources(self) -> tuple[Source[ObjectKey], ...]:
        """What makes a unit be looked at: its spec and its annotations, its children, its pods, their nodes;
        and, every ten seconds, that it cannot be read.

        The status of a unit is not among it as long as the reconciler is who writes it.
        """
        return (
            Watch(self.units, enqueue_object(), [any_of(generation_changed(), annotations_changed(), status_touched)]),
            Watch(self.deployments, units_of_child),
            Watch(self.services, units_of_child),
            Watch(self.pods, self._units_of_pod(), [_says_something_new]),
            Watch(self.nodes, self._units_on_node(), [_says_something_new]),
            # No change tells of what cannot be read.
            Timer(_UNREADABLE_SECONDS, self._unreadable, "unreadable units", (self.units,)),
        )

    def children_of(self, unit: ObjectKey) -> Iterator[Deployment | Service]:
        """What says that a unit of this name made it, whichever unit of the name that was."""
        for informer in (self.deployments, self.services):
            yield from informer.store.list(unit.namespace, where={BY_UNIT.name: unit.name}).items

    def is_living(self, namespace: str, uid: str) -> bool:
        """Whether a unit with this UID is known."""
        store = self.units.store
        return any(key.namespace == namespace and (store.version_of(key) or ("",))[0] == uid for key in store)

    def pods_of(self, unit: ObjectKey) -> tuple[PodSummary, ...]:
        """The pods that carry the label of the unit."""
        return self.pods.store.list(unit.namespace, where={_BY_UNIT.name: label_value(unit.name)}).items

    def nodes_of(self, pods: Iterable[PodSummary]) -> dict[str, NodeSummary]:
        """The nodes of these pods that are known, by name."""
        found = {pod.node: self.nodes.store.get(ObjectKey("", pod.node)) for pod in pods if pod.node}
        return {name: node for name, node in found.items() if node is not None}

    def _units_of_pod(self) -> Trigger[ObjectKey]:
        def keys(change: Change[PodSummary]) -> Iterable[ObjectKey]:
            states = (change.before, change.after)
            labels = dict.fromkeys(state.unit for state in states if state is not None)
            return [key for label in labels for key in self._labelled(change.key.namespace, label)]

        return keys

    def _units_on_node(self) -> Trigger[ObjectKey]:
        def keys(change: Change[NodeSummary]) -> Iterable[ObjectKey]:
            # Every unit is looked at when a process starts, without its node's asking for it.
            if change.initial:
                return ()
            pods = self.pods.store.list(where={_BY_NODE.name: change.key.name}).items
            return [key for pod in pods for key in self._labelled(pod.namespace, pod.unit)]

        return keys

    def _unreadable(self) -> Iterable[ObjectKey]:
        return [key for key, _ in self.units.store.faults(_UNREADABLE_AT_A_TIME)]

    def _labelled(self, namespace: str, label: str) -> Iterable[ObjectKey]:
        """The units for which a label value stands: the value is the name, but for names that are too long for one."""
        if "_" not in label:
            return (ObjectKey(namespace, label),)
        keys = self.units.store
        return [key for key in keys if key.namespace == namespace and label_value(key.name) == label]


def _says_something_new(change: Change[PodSummary] | Change[NodeSummary]) -> bool:
    return change.before != change.after
