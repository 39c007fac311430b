"""The pods of the product's namespaces in a cache, as summaries, by unit, node and volume: all reconcilers share it."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.names import UNIT_LABEL
from gpuruntime.control import Cache, Change, Index, Informer, Store, by_field, by_label, projected
from gpuruntime.desired.storage.volume_use import excludes_others, uses_of_pod
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.pod_summary import PodSummary, summarize_pod

__all__ = ["BY_NODE", "BY_UNIT_LABEL", "exclusive_pods", "pods_using", "volumes_freed", "watch_pods"]

BY_UNIT_LABEL: Final = by_label(UNIT_LABEL)
BY_NODE: Final = by_field("spec.nodeName")
_BY_VOLUME: Final = Index("volume", lambda raw: {use.claim for use in uses_of_pod(raw.get("spec") or {})})


def watch_pods(cache: Cache, namespaces: Sequence[str] = ()) -> Informer[PodSummary]:
    """The informer of the pods in these namespaces; () is all. The cache holds their summaries only."""
    return cache.informer(
        projected(Pod.KIND, summarize_pod), namespaces=namespaces, indexes=[BY_UNIT_LABEL, BY_NODE, _BY_VOLUME]
    )


def exclusive_pods(pods: Store[PodSummary], storage: GPUStorage) -> tuple[PodSummary, ...]:
    """The cached pods that have a storage exclusively, and those of its accessor; none that is over."""
    found = pods_using(pods, storage.key)
    return tuple(pod for pod in found if not pod.is_over and (pod.accessor or excludes_others(storage, pod.volumes)))


def pods_using(pods: Store[PodSummary], storage: ObjectKey) -> tuple[PodSummary, ...]:
    """The cached pods that mount, or mounted, the volume of a storage, in the order of their names."""
    return pods.list(storage.namespace, where={_BY_VOLUME.name: storage.name}).items


def volumes_freed(change: Change[PodSummary]) -> Iterable[ObjectKey]:
    """The storages whose volume a pod used before a change, and does not use after it."""
    before, after = (
        frozenset() if state is None or state.is_over else frozenset(use.claim for use in state.volumes)
        for state in (change.before, change.after)
    )
    return [ObjectKey(change.key.namespace, claim) for claim in sorted(before - after)]
