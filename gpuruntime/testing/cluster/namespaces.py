"""Namespaces for tests, ready to be used."""

import time

from gpuruntime.testing.cluster.admin import AdminClient, RefusedError

__all__ = ["create_namespace"]

_PATIENCE_SECONDS = 30.0


def create_namespace(admin: AdminClient, name: str) -> None:
    """Make a namespace; returns when pods can be made in it.

    Raises:
        RefusedError: it cannot be made, or nobody makes its default account within half a minute.
    """
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        # Pods are refused until the controller manager has made the default account.
        try:
            admin.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")
        except RefusedError as error:
            if error.status != 404 or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
