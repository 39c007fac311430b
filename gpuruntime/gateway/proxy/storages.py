"""Which accessor serves a storage, or why none does."""

from collections.abc import Callable
from typing import Final, Protocol

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.reasons import READY
from gpuruntime.desired.storage.accessor import ACCESSOR_PORT, accessor_name
from gpuruntime.endpoints.server.errors import CODES, ApiError
from gpuruntime.meta import ObjectKey, is_dns_label

__all__ = ["AccessorAddresses", "ClusterAddresses", "Storages"]

_RETRY: Final = {"Retry-After": "2"}


class AccessorAddresses(Protocol):
    """Where accessors are reached."""

    def url(self, storage: GPUStorage) -> str:
        """The URL of the accessor of a storage, without a path."""


@frozen
class ClusterAddresses:
    """The addresses of accessors inside the cluster: the DNS names of their Services."""

    cluster_domain: str = "cluster.local"

    def url(self, storage: GPUStorage) -> str:
        meta = storage.metadata
        return f"http://{accessor_name(meta.name)}.{meta.namespace}.svc.{self.cluster_domain}:{ACCESSOR_PORT}"


@frozen
class Storages:
    """The storages that callers can read.

    Args:
        find: the storage of a key, from a cache; None if there is none.
        not_ready: why the cache cannot be used yet; "" if it can.
    """

    find: Callable[[ObjectKey], GPUStorage | None]
    not_ready: Callable[[], str]

    def readable(self, namespace: str, name: str) -> GPUStorage:
        """The storage, if its accessor serves.

        Raises:
            ApiError: 404 if there is no such storage; 503 if the accessor is disabled or not ready, with its phase.
        """
        reason = self.not_ready()
        if reason:
            raise ApiError(503, CODES[503], reason, headers=_RETRY)
        is_name = is_dns_label(namespace) and is_dns_label(name)
        storage = self.find(ObjectKey(namespace, name)) if is_name else None
        if storage is None:
            shown = f"{namespace[:63]}/{name[:63]}"
            raise ApiError(404, "storage_not_found", f"there is no storage {shown}: check namespace and name")
        if not storage.spec.accessor.enabled:
            message = f"the accessor of storage {namespace}/{name} is disabled: set spec.accessor.enabled to true"
            raise ApiError(503, "accessor_disabled", message)
        accessor = storage.status.accessor
        phase = (accessor.phase if accessor is not None else None) or "Pending"
        if phase != READY:
            why = f": {accessor.message}" if accessor is not None and accessor.message else ""
            message = f"the accessor of storage {namespace}/{name} is {phase}{why}"
            raise ApiError(503, "accessor_not_ready", message, headers=_RETRY)
        return storage
