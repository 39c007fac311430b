"""The volume of a PersistentVolumeClaim, as a pure function."""

from collections.abc import Mapping
from typing import Any, Final

from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ResourceKind

__all__ = [
    "FINALIZER",
    "NODE_LABEL",
    "PERSISTENT_VOLUME",
    "PROVISIONED_BY",
    "SELECTED_NODE",
    "STORAGE_CLASS",
    "persistent_volume",
    "volume_name",
]

PERSISTENT_VOLUME: Final = ResourceKind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS: Final = ResourceKind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
# The words that all provisioners of Kubernetes use.
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NODE_LABEL: Final = "kubernetes.io/hostname"
FINALIZER: Final = "testing.gpuruntime.local/volume-data"


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The name of the volume of a PersistentVolumeClaim: one of its own, also if another has the name later."""
    return f"pvc-{claim.metadata.uid}"


def persistent_volume(
    claim: PersistentVolumeClaim, node: str, provisioner: str, reclaim_policy: str, source: Mapping[str, Any]
) -> dict[str, Any]:
    """The volume of a PersistentVolumeClaim on a node; `source` says where its data is, as in {"hostPath": ...}.

    It names the claim with its UID, so that no other one can be bound to it. The finalizer keeps it until its data is
    removed.
    """
    meta, spec = claim.metadata, claim.spec
    requested = spec.resources.requests.get("storage", "0") if spec.resources else "0"
    on_node = {"matchExpressions": [{"key": NODE_LABEL, "operator": "In", "values": [node]}]}
    return {
        "apiVersion": PERSISTENT_VOLUME.api_version,
        "kind": PERSISTENT_VOLUME.kind,
        "metadata": {
            "name": volume_name(claim),
            "labels": {NODE_LABEL: node},
            "annotations": {PROVISIONED_BY: provisioner},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "capacity": {"storage": str(requested)},
            "accessModes": list(spec.access_modes),
            "volumeMode": spec.volume_mode or "Filesystem",
            "persistentVolumeReclaimPolicy": reclaim_policy,
            "storageClassName": spec.storage_class_name or "",
            "claimRef": {
                "apiVersion": PersistentVolumeClaim.KIND.api_version,
                "kind": PersistentVolumeClaim.KIND.kind,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [on_node]}},
            **source,
        },
    }
