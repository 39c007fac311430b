"""The volume of a PersistentVolumeClaim, as a pure function."""

from collections.abc import Mapping
from typing import Any, Final

from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import DynamicObject, ResourceKind

__all__ = [
    "CLONED_FROM",
    "FINALIZER",
    "NODE_LABEL",
    "PERSISTENT_VOLUME",
    "PROVISIONED_BY",
    "PROVISIONER_LABEL",
    "SELECTED_NODE",
    "STORAGE_CLASS",
    "is_of_claim",
    "persistent_volume",
    "volume_labels",
    "volume_name",
]

PERSISTENT_VOLUME: Final = ResourceKind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS: Final = ResourceKind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
# The words that all provisioners of Kubernetes use.
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NODE_LABEL: Final = "kubernetes.io/hostname"
PROVISIONER_LABEL: Final = "testing.gpuruntime.local/provisioner"
CLONED_FROM: Final = "testing.gpuruntime.local/cloned-from"
FINALIZER: Final = "testing.gpuruntime.local/volume-data"


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The name of the volume of a PersistentVolumeClaim: one of its own, also if another has the name later."""
    return f"pvc-{claim.metadata.uid}"


def volume_labels(provisioner: str, node: str | None) -> dict[str, str]:
    """The labels by which a provisioner finds its volumes: those of one node, or of all nodes without one."""
    of_provisioner = {PROVISIONER_LABEL: provisioner}
    return of_provisioner if node is None else {**of_provisioner, NODE_LABEL: node}


def is_of_claim(volume: DynamicObject, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume was made for this PersistentVolumeClaim, and not for an earlier one of its name."""
    return bool(volume.body["spec"].get("claimRef", {}).get("uid") == claim.metadata.uid)


def persistent_volume(
    claim: PersistentVolumeClaim,
    provisioner: str,
    reclaim_policy: str,
    source: Mapping[str, Any],
    *,
    node: str | None,
    keeps_data: bool,
    cloned_from: str = "",
) -> dict[str, Any]:
    """The volume of a PersistentVolumeClaim; `source` says where its data is, as in {"hostPath": ...}.

    It names the claim with its UID, so that no other one can be bound to it. With a node, only pods of that node use
    it. If it keeps data, a finalizer keeps it until its data is removed.
    """
    meta, spec = claim.metadata, claim.spec
    requested = spec.resources.requests.get("storage", "0") if spec.resources else "0"
    body: dict[str, Any] = {
        "apiVersion": PERSISTENT_VOLUME.api_version,
        "kind": PERSISTENT_VOLUME.kind,
        "metadata": {
            "name": volume_name(claim),
            "labels": volume_labels(provisioner, node),
            "annotations": {PROVISIONED_BY: provisioner},
            "finalizers": [FINALIZER] if keeps_data else [],
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
            **source,
        },
    }
    if cloned_from:
        body["metadata"]["annotations"][CLONED_FROM] = cloned_from
    if node is not None:
        on_node = {"matchExpressions": [{"key": NODE_LABEL, "operator": "In", "values": [node]}]}
        body["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [on_node]}}
    return body
