"""The operator's settings for the children of storages, and what is known of a StorageClass."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube.builtin.pods import Toleration
from gpuruntime.meta import EMPTY, FrozenDict

__all__ = ["GPU_NODES", "StorageClassFacts", "StorageRendering", "class_facts"]

GPU_NODES: Final = (Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),)
"""GPU nodes commonly have this taint, which repels pods without GPUs."""
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


@frozen
class StorageRendering:
    """The operator's inputs of a rendering, beside the storage."""

    default_class: str | None = None
    """StorageClass of storages that name none; None leaves it to the cluster."""
    clone_classes: frozenset[str] = frozenset()
    """StorageClasses whose provisioner clones a volume by `dataSource`."""
    copy_image: str = "busybox:1.36"
    """Image that copies and wipes volumes. It needs a shell, `cp` and `find`."""
    node_selector: FrozenDict[str, str] = EMPTY
    """Where a preparation runs that is the first consumer of its volume: where units can mount it afterwards."""
    tolerations: tuple[Toleration, ...] = GPU_NODES
    """Taints that preparations tolerate."""

    def class_name(self, requested: str | None) -> str | None:
        """The class of a storage that requests this one; None if the cluster decides."""
        return requested or self.default_class


@frozen
class StorageClassFacts:
    """What a storage needs to know of a StorageClass."""

    name: str
    is_late_binding: bool = False
    is_expandable: bool = False
    is_default: bool = False


def class_facts(raw: Mapping[str, Any]) -> StorageClassFacts:
    """The facts of a StorageClass in its JSON form."""
    metadata = raw["metadata"]
    return StorageClassFacts(
        metadata["name"],
        is_late_binding=raw.get("volumeBindingMode") == "WaitForFirstConsumer",
        is_expandable=bool(raw.get("allowVolumeExpansion")),
        is_default=(metadata.get("annotations") or {}).get(_DEFAULT_CLASS) == "true",
    )
