"""Orphans: objects that were made for an owner that is gone, and that the garbage collector does not know to be its.

Their owner references were stripped, by hand or by a restored backup, or their owner was deleted without what it owned.
The annotation with the owner's UID tells whose they were.
"""

import logging
from collections.abc import Iterable
from typing import Final

from attrs import field, frozen
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.names import GROUP
from gpuruntime.control.writing.desired_state import OwnershipAnnotations
from gpuruntime.kube import Client, NotFoundError, metadata_only
from gpuruntime.kube.forms import form_of
from gpuruntime.meta import DynamicObject, ResourceKind, TypedObject

__all__ = ["OWNERSHIP", "OrphanCollector", "OrphanRemoval"]

_LOG = logging.getLogger(__name__)
OWNERSHIP: Final = OwnershipAnnotations(GROUP)


@frozen
class OrphanRemoval:
    """Removes what was made for owners of one kind that are gone, and counts it by the kind of what was removed.

    Guarantees:
        - Nothing is removed unless the server says, in this moment and about this very owner, that it is not there. A
          cache that is behind, an error, or a kind that is not served says nothing.
        - Only the state that was judged is removed: by UID and resource version.
        - What names its owner in an owner reference is left to the garbage collector.
    """

    client: Client
    owner: ResourceKind
    removed: dict[str, int] = field(factory=dict)

    async def remove(self, obj: TypedObject | DynamicObject, owner_name: str) -> bool:
        """Remove an object if it is an orphan; gives whether it was removed.

        `owner_name` is what its owner was called, "" if that is not certain.

        Raises:
            ConflictError: it changed since it was read.
            KubeError: whatever else a request may end with.
        """
        meta, uid = obj.metadata, OWNERSHIP.owner_uid(obj.metadata)
        collected = any(reference.uid == uid for reference in meta.owner_references)
        if not uid or collected or meta.deletion_timestamp is not None:
            return False
        if await self._lives(meta.namespace, owner_name, uid):
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
        _LOG.warning("an object outlived its owner and was removed", extra=about)
        return True

    async def _lives(self, namespace: str, name: str, uid: str) -> bool:
        # A list and not a get: for a kind that is not served a get says "not found" too.
        fields = f"metadata.name={name}" if name else None
        found = await self.client.list(metadata_only(self.owner), namespace, fields=fields)
        return any(owner.metadata.uid == uid for owner in found.items)


class OrphanCollector(Collector):
    """Shows in a registry how many orphans were removed, by kind; `owner` is the word for what they were made for."""

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
            f"Objects that outlived the {self._owner} that they were made for and were removed, by kind.",
            labels=("kind",),
        )
        for kind in self._children:
            family.add_metric((kind,), self._removal.removed.get(kind, 0))
        return [family]
