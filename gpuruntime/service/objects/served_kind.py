"""The use cases of one kind: a declaration, which is a row of the wiring, and what a process makes of it.

::

    STORAGES: Final = ServedKind(
        Storage,
        lambda namespaces: namespaces.instance,
        creation=CreateObjectHandler(
            "create_storage", CreateStorage, storage, lambda request: violations(request.spec, StorageSpec)
        ),
        update=UpdateObjectHandler("update_storage", Storage, lambda found, change: spec_patch(found.spec, change)),
        deletion=DeleteObjectHandler("delete_storage", Storage),
    )
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

from attrs import field, frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Cache, Declaration, Informer, allow
from gpuruntime.kube import Client
from gpuruntime.meta import ObjectKey, Struct, TypedObject, is_dns_subdomain
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.create import CreateObjectHandler, Creations
from gpuruntime.service.objects.delete import DeleteObject, DeleteObjectHandler, Deletions
from gpuruntime.service.objects.update import UpdateObject, UpdateObjectHandler, Updates, WriteResult
from gpuruntime.service.objects.wait import ObjectWaiter
from gpuruntime.service.operations.executor import OperationHandler
from gpuruntime.service.operations.submit import DEFAULT_WAIT_SECONDS, Operations, Performed
from gpuruntime.service.reads.reader import Reads
from gpuruntime.service.reads.watch_log import WatchLog

__all__ = ["ObjectService", "ServedKind"]

K = TypeVar("K", bound=TypedObject)
H = TypeVar("H")
_Class = type[K]
_Choice = Callable[[Namespaces], tuple[str, ...]]


@frozen(eq=False)
class ServedKind(Generic[K]):
    """The objects of one kind that callers read, and the requests by which they write them.

    Args:
        namespaces: chooses where requests create objects. The first is the default of requests that name no namespace.
        readable: chooses where objects are read; None is the same.
        watch: the informer, if the process shares one with indexes; None is one of the readable namespaces.
        creation, update, deletion: the handlers of requests; None if there are no such requests, or if the kind has a
            use case of its own for them.
        actions: the handlers of further requests that change an object.
    """

    kind: _Class[K]
    namespaces: _Choice
    readable: _Choice | None = field(default=None, kw_only=True)
    watch: Callable[[Cache, Namespaces], Informer[K]] | None = field(default=None, kw_only=True)
    creation: CreateObjectHandler[Any, K] | None = field(default=None, kw_only=True)
    update: UpdateObjectHandler[K] | None = field(default=None, kw_only=True)
    deletion: DeleteObjectHandler[K] | None = field(default=None, kw_only=True)
    actions: tuple[UpdateObjectHandler[K], ...] = field(default=(), kw_only=True)

    @property
    def handlers(self) -> tuple[OperationHandler, ...]:
        """The handlers of its requests."""
        declared = (self.creation, self.update, self.deletion, *self.actions)
        return tuple(handler for handler in declared if handler is not None)

    def readable_in(self, namespaces: Namespaces) -> tuple[str, ...]:
        """The namespaces in which objects are read."""
        return (self.readable or self.namespaces)(namespaces)

    def informer(self, cache: Cache, namespaces: Namespaces) -> Informer[K]:
        """The informer of the objects."""
        if self.watch is not None:
            return self.watch(cache, namespaces)
        return cache.informer(self.kind, namespaces=self.readable_in(namespaces))

    def permissions(self, namespaces: Namespaces) -> Iterator[Declaration]:
        """What reads and requests need, besides the informer."""
        yield allow(self.kind, "get")
        if self.creation is not None:
            yield allow(self.kind, "create", namespaces=tuple(sorted(self.namespaces(namespaces))))
        if self.update is not None or self.actions:
            yield allow(self.kind, "patch")
        if self.deletion is not None:
            yield allow(self.kind, "delete")


@frozen
class ObjectService(Generic[K]):
    """The use cases of one kind in one process: reads, writes on request, waits, and the log for watches.

    Args:
        namespaces: where requests create objects; the first is the default.
    """

    declared: ServedKind[K]
    namespaces: tuple[str, ...]
    reads: Reads[K]
    log: WatchLog[K]
    waiter: ObjectWaiter[K]
    creations: Creations
    updates: Updates
    deletions: Deletions

    @classmethod
    def of(
        cls, declared: ServedKind[K], cache: Cache, client: Client, operations: Operations, namespaces: Namespaces
    ) -> Self:
        """The use cases of a declared kind. Callers wait for the requests of `client`."""
        informer, readable = declared.informer(cache, namespaces), declared.readable_in(namespaces)
        reads = Reads(informer, client, declared.kind, readable)
        return cls(
            declared,
            declared.namespaces(namespaces),
            reads,
            # Followers can resume by resourceVersion if one watch covers the log. So it covers no more than is read.
            WatchLog(informer, namespaces=readable),
            ObjectWaiter(reads),
            Creations(operations, client),
            Updates(operations, client),
            Deletions(operations, client),
        )

    def key(self, name: str, namespace: str | None) -> ObjectKey:
        """The key of an object; without a namespace it is in the default one.

        Raises:
            ObjectNotFoundError: no object can have it.
        """
        key = ObjectKey(namespace or self.namespaces[0], name)
        if key.namespace not in self.reads.namespaces or not is_dns_subdomain(name):
            raise ObjectNotFoundError(f"{self.declared.kind.KIND.kind} {key}: not found")
        return key

    async def create(
        self, operation_id: str, request: Struct, *, within: float = DEFAULT_WAIT_SECONDS
    ) -> WriteResult[K]:
        """Create an object. See `Creations`."""
        handler = self._declared("creation", self.declared.creation)
        return await self.creations.create(handler, operation_id, request, namespaces=self.namespaces, within=within)

    async def update(
        self, operation_id: str, request: UpdateObject, *, within: float = DEFAULT_WAIT_SECONDS
    ) -> WriteResult[K]:
        """Update an object. See `Updates`."""
        handler = self._declared("update", self.declared.update)
        return await self.updates.update(handler, operation_id, request, within=within)

    async def act(
        self,
        handler: UpdateObjectHandler[K],
        operation_id: str,
        request: UpdateObject,
        *,
        within: float = DEFAULT_WAIT_SECONDS,
    ) -> WriteResult[K]:
        """Change an object by one of the declared actions. See `Updates`."""
        return await self.updates.update(handler, operation_id, request, within=within)

    async def delete(
        self, operation_id: str, request: DeleteObject, *, within: float = DEFAULT_WAIT_SECONDS
    ) -> Performed:
        """Delete an object. See `Deletions`."""
        handler = self._declared("deletion", self.declared.deletion)
        return await self.deletions.delete(handler, operation_id, request, within=within)

    def _declared(self, name: str, handler: H | None) -> H:
        if handler is None:
            kind = self.declared.kind.KIND.kind
            raise NotImplementedError(f"the ServedKind of {kind}: expected a handler as its {name}, got None")
        return handler
