"""Orphans: children whose owner is gone and that the garbage collector does not delete.

Their owner references were stripped, manually or by a restored backup, or their owner was deleted with the propagation
policy Orphan. The annotation with the owner's UID identifies the owner.
"""

import logging
from collections.abc import Iterable
from typing import Final

from attrs import field, frozen
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.names import GROUP
from gpuruntime.control import OwnershipAnnotations
from gpuruntime.kube import Client, NotFoundError, form_of, metadata_only
from gpuruntime.meta import DynamicObject, ResourceKind, TypedObject

__all__ = ["OWNERSHIP", "OrphanCollector", "OrphanRemoval"]

_LOG = logging.getLogger(__name__)
OWNERSHIP: Final = OwnershipAnnotations(GROUP)


@frozen
class OrphanRemoval:
    """Deletes orphans of owners of one kind, and counts them by the kind of the orphan.

    Guarantees:
        - Nothing is deleted unless a live read confirms that this very owner is gone. A cache that lags, an error, or a
          kind that is not served confirms nothing.
        - Only the state that was read is deleted, by UID and resource version.
        - An object with an owner reference to its owner is left to the garbage collector.
    """

    client: Client
    owner: ResourceKind
    removed: dict[str, int] = field(factory=dict)

    async def remove(self, obj: TypedObject | DynamicObject, owner_name: str) -> bool:
        """Delete an object if it is an orphan; returns whether it was deleted.

        `owner_name` is the name of its owner, "" if that is not certain.

        Raises:
            ConflictError: it changed since it was read.
            KubeError: any other failure of a request.
        """
        meta, uid = obj.metadata, OWNERSHIP.owner_uid(obj.metadata)
        collected = any(reference.uid == uid for reference in meta.owner_references)
        if not uid or collected or meta.deletion_timestamp is not None:
            return False
        if await self._exists(meta.namespace, owner_name, uid):
            return False
        try:
            await self.client.delete(
                form_of(obj), meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except NotFoundError:
            return False
        kind = obj.kind.kind
        self.removed[kind] = self.removed.get(kind, 0) + 1
        about = {"kind": kind, "object": str(obj.key), "owner": owner_name, "owner_uid": uid}
        _LOG.warning("orphan deleted", extra=about)
        return True

    async def _exists(self, namespace: str, name: str, uid: str) -> bool:
        # A list and not a get: for a kind that is not served a get says "not found" too.
        fields = f"metadata.name={name}" if name else None
        found = await self.client.list(metadata_only(self.owner), namespace, fields=fields)
        return any(owner.metadata.uid == uid for owner in found.items)


class OrphanCollector(Collector):
    """Exports the number of deleted orphans by kind; `owner` is the word for their owners in the name of the metric."""

    def __init__(
        self, registry: CollectorRegistry, removal: OrphanRemoval, owner: str, children: Iterable[ResourceKind]
    ) -> None:
        self._removal = removal
        self._owner = owner
        self._children = tuple(child.kind for child in children)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            f"gpuruntime_{self._owner}_orphans_removed",
            f"Deleted orphans: objects whose {self._owner} was gone, by kind.",
            labels=("kind",),
        )
        for kind in self._children:
            family.add_metric((kind,), self._removal.removed.get(kind, 0))
        return [family]
