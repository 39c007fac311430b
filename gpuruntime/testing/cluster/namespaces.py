"""Creation of namespaces that are ready for pods."""

import time

from gpuruntime.testing.cluster.admin import AdminClient, RefusedError

__all__ = ["create_namespace"]

_TIMEOUT_SECONDS = 30.0


def create_namespace(admin: AdminClient, name: str) -> None:
    """Create a namespace, and wait until pods can be created in it.

    Raises:
        RefusedError: the server rejected it, or its default ServiceAccount did not appear within 30 seconds.
    """
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        # Pods are rejected until the controller manager has created the default ServiceAccount.
        try:
            admin.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")
        except RefusedError as error:
            if error.status != 404 or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
