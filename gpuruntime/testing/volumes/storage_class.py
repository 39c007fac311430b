"""The storage class of a provisioner, as a pure function."""

from typing import Any

__all__ = ["storage_class"]


def storage_class(name: str, provisioner: str) -> dict[str, Any]:
    """A class whose volumes are made on the node of the first pod that uses them, and deleted with their claim."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
