"""The caches of the GPUUnit reconciler, small enough for five thousand units.

Units, their storages, their Deployments and their Services are kept whole, because they are compared in every run. Pods
and nodes are kept as summaries; all pods, because any of them may mount a storage. All Deployments and Services are
watched, because a child may have lost every label and reference; of those that cannot be a child, little more than the
name is kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import label_value
from gpuruntime.control import (
    Cache,
    Change,
    Informer,
)
from gpuruntime.desired.provenance import provenance_of
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.desired.storage.mountable import not_mountable
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.gpuunit.children import BY_UNIT, DEPLOYMENTS, SERVICES
from gpuruntime.reconcilers.gpuunit.handoff import TakenStock
from gpuruntime.reconcilers.pod_summary import PodSummary
from gpuruntime.reconcilers.pods import BY_NODE, BY_UNIT_LABEL, exclusive_pods, volumes_freed, watch_pods
from gpuruntime.service.reads.informers import (
    NodeSummary,
    units_mounting,
    watch_nodes,
    watch_storages,
    watch_units,
)

__all__ = ["UnitCaches", "storage_changed", "summary_changed"]

_UNREADABLE_AT_A_TIME: Final = 100


@frozen
class UnitCaches:
    """The informers of the reconciler, and the triggers and queries over several of them."""

    units: Informer[GPUUnit]
    deployments: Informer[Deployment]
    services: Informer[Service]
    pods: Informer[PodSummary]
    nodes: Informer[NodeSummary]
    storages: Informer[GPUStorage]

    @classmethod
    def of(cls, cache: Cache, namespaces: Sequence[str] = (), active: Sequence[str] = ()) -> Self:
        """The informers of these namespaces, of which the active ones have storages; none is all of them."""
        return cls(
            units=watch_units(cache, namespaces),
            deployments=cache.informer(DEPLOYMENTS, namespaces=namespaces, indexes=[BY_UNIT]),
            services=cache.informer(SERVICES, namespaces=namespaces, indexes=[BY_UNIT]),
            pods=watch_pods(cache, namespaces),
            nodes=watch_nodes(cache),
            storages=watch_storages(cache, active),
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
        return self.pods.store.list(unit.namespace, where={BY_UNIT_LABEL.name: label_value(unit.name)}).items

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

    def users_of(self, storage: GPUStorage) -> tuple[PodSummary, ...]:
        """The pods that have a storage exclusively, and those of its accessor; none that is over."""
        return exclusive_pods(self.pods.store, storage)

    def units_of_pod(self, change: Change[PodSummary]) -> Iterable[ObjectKey]:
        """The units of a pod, before and after a change, and those that may wait for a volume that it uses."""
        states = [state for state in (change.before, change.after) if state is not None]
        labels = dict.fromkeys(state.unit for state in states if state.unit)
        own = [key for label in labels for key in self._labelled(change.key.namespace, label)]
        return [*own, *(unit for storage in volumes_freed(change) for unit in self._mounting(storage))]

    def units_of_storage(self, change: Change[GPUStorage]) -> Iterable[ObjectKey]:
        """The units that mount a storage."""
        return self._mounting(change.key)

    def _mounting(self, storage: ObjectKey) -> Iterable[ObjectKey]:
        return tuple(unit.key for unit in units_mounting(self.units.store, storage))

    def units_on_node(self, change: Change[NodeSummary]) -> Iterable[ObjectKey]:
        """The units with pods on a node."""
        # Every unit is reconciled when a process starts, without a change of its node.
        if change.initial:
            return ()
        pods = self.pods.store.list(where={BY_NODE.name: change.key.name}).items
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


def storage_changed(change: Change[GPUStorage]) -> bool:
    """A predicate: whether units can mount a storage, why not, or who has it, differs."""
    before, after = (
        None
        if state is None
        else (
            state.metadata.uid,
            not_mountable(change.key.name, state),
            lock_of(state.metadata),
            state.spec.access_mode,
        )
        for state in (change.before, change.after)
    )
    return before != after


def summary_changed(change: Change[PodSummary] | Change[NodeSummary]) -> bool:
    """A predicate: the summary differs."""
    return change.before != change.after
