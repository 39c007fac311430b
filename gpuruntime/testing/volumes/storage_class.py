"""The storage class of a provisioner, as a pure function."""

from typing import Any, Final, Literal

__all__ = ["BindingMode", "storage_class"]

BindingMode = Literal["Immediate", "WaitForFirstConsumer"]
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


def storage_class(
    name: str,
    provisioner: str,
    *,
    binding: BindingMode = "WaitForFirstConsumer",
    expands: bool = False,
    is_default: bool = False,
) -> dict[str, Any]:
    """A class whose volumes are deleted with their claim, and by default made on the node of their first pod.

    Its claims can grow if it `expands`. The default class is that of claims that name none.
    """
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {_DEFAULT: "true"} if is_default else {}},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": binding,
        "allowVolumeExpansion": expands,
    }
