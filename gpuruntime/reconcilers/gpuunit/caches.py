"""The caches of the GPUUnit reconciler, small enough for five thousand units.

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
    by_field,
    by_label,
    projected,
)
from gpuruntime.desired.provenance import provenance_of
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.gpuunit.children import BY_UNIT, DEPLOYMENTS, SERVICES
from gpuruntime.reconcilers.gpuunit.handoff import TakenStock
from gpuruntime.reconcilers.gpuunit.pod_summary import PodSummary, summarize_pod
from gpuruntime.service.reads.informers import NodeSummary, watch_nodes, watch_units

__all__ = ["UnitCaches", "summary_changed"]

_BY_UNIT: Final = by_label(UNIT_LABEL)
_BY_NODE: Final = by_field("spec.nodeName")
_UNREADABLE_AT_A_TIME: Final = 100


@frozen
class UnitCaches:
    """The informers of the reconciler, and the triggers and queries over several of them."""

    units: Informer[GPUUnit]
    deployments: Informer[Deployment]
    services: Informer[Service]
    pods: Informer[PodSummary]
    nodes: Informer[NodeSummary]

    @classmethod
    def of(cls, cache: Cache, namespaces: Sequence[str] = ()) -> Self:
        """The informers of these namespaces; none is all of them."""
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

    def children_of(self, unit: ObjectKey) -> Iterator[Deployment | Service]:
        """The Deployments and Services created for a unit of this name, by their annotations."""
        for informer in (self.deployments, self.services):
            yield from informer.store.list(unit.namespace, where={BY_UNIT.name: unit.name}).items

    def is_living(self, namespace: str, uid: str) -> bool:
        """Whether a unit with this UID is in the cache."""
        store = self.units.store
        return any(key.namespace == namespace and (store.version_of(key) or ("",))[0] == uid for key in store)

    def pods_of(self, unit: ObjectKey) -> tuple[PodSummary, ...]:
        """The pods that carry the label of the unit."""
        return self.pods.store.list(unit.namespace, where={_BY_UNIT.name: label_value(unit.name)}).items

    def stock_of(self, unit: GPUUnit) -> TakenStock | None:
        """What is left of the stock unit that a unit took over, None for a unit that took over none.

        Another unit that has the name by now is not meant, and neither are its pods.
        """
        source = provenance_of(unit.metadata)
        if source is None:
            return None
        version = self.units.store.version_of(source.stock)
        if version is not None and version[0] != source.uid:
            return TakenStock(source)
        return TakenStock(source, version is not None, self.pods_of(source.stock))

    def nodes_of(self, pods: Iterable[PodSummary]) -> dict[str, NodeSummary]:
        """The cached nodes of these pods, by name."""
        found = {pod.node: self.nodes.store.get(ObjectKey("", pod.node)) for pod in pods if pod.node}
        return {name: node for name, node in found.items() if node is not None}

    def units_of_pod(self, change: Change[PodSummary]) -> Iterable[ObjectKey]:
        """The units of a pod, before and after a change."""
        states = (change.before, change.after)
        labels = dict.fromkeys(state.unit for state in states if state is not None)
        return [key for label in labels for key in self._labelled(change.key.namespace, label)]

    def units_on_node(self, change: Change[NodeSummary]) -> Iterable[ObjectKey]:
        """The units with pods on a node."""
        # Every unit is reconciled when a process starts, without a change of its node.
        if change.initial:
            return ()
        pods = self.pods.store.list(where={_BY_NODE.name: change.key.name}).items
        return [key for pod in pods for key in self._labelled(pod.namespace, pod.unit)]

    def unreadable(self) -> Iterable[ObjectKey]:
        """Some of the units that cannot be decoded."""
        return [key for key, _ in self.units.store.faults(_UNREADABLE_AT_A_TIME)]

    def _labelled(self, namespace: str, label: str) -> Iterable[ObjectKey]:
        """The units with this label value: it is the name, except for names that are too long for a label."""
        if "_" not in label:
            return (ObjectKey(namespace, label),)
        keys = self.units.store
        return [key for key in keys if key.namespace == namespace and label_value(key.name) == label]


def summary_changed(change: Change[PodSummary] | Change[NodeSummary]) -> bool:
    """A predicate: the summary differs."""
    return change.before != change.after
