"""A REST resource as a value: the objects of one kind, their view, and the requests that callers may send.

`object_routes` makes its routes: list, get, wait and watch always, create, update and delete where they are declared.
`stock_pools` is the model of a resource file.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from attrs import frozen

from gpuruntime.api.rest.objects import ObjectView
from gpuruntime.api.rest.queries import ObjectsQuery
from gpuruntime.endpoints.server.route import Idempotency, Scope
from gpuruntime.meta import FrozenDict, Struct, TypedObject, encode, freeze
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.served_kind import ObjectService
from gpuruntime.service.objects.update import WriteResult
from gpuruntime.service.operations.submit import Performed

__all__ = ["Create", "Delete", "ObjectResource", "Update", "Words", "change_of"]

K = TypeVar("K", bound=TypedObject)
V = TypeVar("V", bound=ObjectView)
_Class = type[V]
_Errors = tuple[tuple[int, str], ...]


@frozen
class Words:
    """The words for an object in names and descriptions of routes.

    Args:
        one: such as "pool".
        many: such as "pools".
        name: the noun in the names of routes: StockPool makes getStockPool, listStockPools and stockpool_not_found.
    """

    one: str
    many: str
    name: str

    @property
    def missing(self) -> tuple[int, str]:
        """The error of a request for an object that does not exist."""
        return 404, f"{self.name.lower()}_not_found"


@frozen
class Create(Generic[K]):
    """How callers create an object.

    Args:
        description: what the request does. What all creations have in common is added.
        body: the type of the body.
        request: the request to the service, of the body and the operationID.
        perform: carries it out.
        as_job: whether the response is a job instead of the object.
        errors: the errors besides those of all creations.
    """

    description: str
    body: type[Struct]
    request: Callable[[Any, str], Struct]
    perform: Callable[[str, Any], Awaitable[WriteResult[K]]]
    as_job: bool = False
    errors: _Errors = ()
    idempotency: Idempotency = Idempotency.REQUIRED


def change_of(body: Struct) -> FrozenDict[str, Any]:
    """The merge patch of an object for a body with fields of its spec, and perhaps its labels.

    Omitted fields are not in it. Labels are replaced as a whole, null removes all.
    """
    given = encode(body)
    metadata = {"metadata": {"labels": given.pop("labels") or {}}} if "labels" in given else {}
    change: FrozenDict[str, Any] = freeze({"spec": given} | metadata)
    return change


@frozen
class Update:
    """How callers update an object: `change` makes a merge patch of the body. `errors` are of this resource only."""

    description: str
    body: type[Struct]
    change: Callable[[Any], FrozenDict[str, Any]] = change_of
    errors: _Errors = ()


@frozen
class Delete:
    """How callers delete an object: `perform` carries the request out. `errors` are those of this resource only."""

    description: str
    perform: Callable[[str, DeleteObject], Awaitable[Performed]]
    errors: _Errors = ()


@frozen(kw_only=True)
class ObjectResource(Generic[K, V]):
    """One REST resource.

    Args:
        path: the path of the list, such as "/operator/stockpools".
        objects: the use cases of the kind.
        query: the type of the query of lists.
        matches: the filter of such a query.
        view: the view of an object, with all secrets; they are masked for callers that may not see them.
        deleted_view: the view of an object that a request wrote and that has been deleted since, of the arguments name,
            namespace, uid, operation_id and deleted; usually the type of the view.
        write_scope: the scope of create, update and delete.
    """

    path: str
    words: Words
    objects: ObjectService[K]
    query: type[ObjectsQuery] = ObjectsQuery
    matches: Callable[[Any], Callable[[K], bool]]
    view_type: _Class[V]
    view: Callable[[K], V]
    deleted_view: Callable[..., V]
    create: Create[K] | None = None
    update: Update | None = None
    delete: Delete | None = None
    write_scope: Scope = Scope.WRITE
