"""From informers, an election and declarations to permissions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from attrs import frozen

from gpuruntime.control.informers.informer import InformerScope
from gpuruntime.control.permissions.declarations import Declaration, Use
from gpuruntime.control.permissions.permission import WRITE_VERBS, Permission, least
from gpuruntime.kube.builtin.coordination import Lease
from gpuruntime.meta.identity import ResourceKind

__all__ = ["LeaseName", "PermissionsError", "required_permissions"]

_LISTS: Final = "used when the server does not stream the initial list, and after a write whose response was lost"
_LIVE_READS: Final = "used when the response to a write was lost, or the cache lags behind it"
_HOT_LOOPS: Final = "used to find the field manager that undoes a write again and again"
_NAME: Final = "metadata.name"


class PermissionsError(ValueError):
    """The namespaces of a declared kind are unknown; the message says what to add."""


@frozen
class LeaseName:
    """The lease of an election."""

    namespace: str
    name: str


def required_permissions(
    scopes: Sequence[InformerScope[Any]], declarations: Iterable[Declaration], election: LeaseName | None = None
) -> tuple[Permission, ...]:
    """The least permissions of a process that watches these scopes, makes the declared requests, and takes part in an
    election.

    Guarantees:
        Requests that the library makes by itself are included: lists beside watches, live reads after writes whose
        responses were lost, the lease. An informer of one object, `fields="metadata.name=..."`, gets permissions to
        that object alone. Permissions are limited to the namespaces of informers and declarations.

    Raises:
        PermissionsError: a declaration holds wherever its kind is watched, and it is not watched.
    """
    permissions: list[Permission] = []
    for scope in scopes:
        # A new leader compares its caches with lists; without an election that is not needed.
        permissions += _of_informer(scope, "" if election is not None else _LISTS)
    for use in (use for declaration in declarations for use in declaration.parts):
        for permission in _of_declaration(use, scopes):
            permissions.append(permission)
            if use.by_client and permission.verb in WRITE_VERBS:
                permissions += _reading_back(permission, scopes)
    if election is not None:
        permissions += _of_election(election)
    return least(permissions)


def _of_informer(scope: InformerScope[Any], list_is_rare: str) -> Iterator[Permission]:
    kind = scope.storage.kind
    # The server authorises a field selector for one name as a request for that name.
    name = next((term.value for term in scope.fields.terms if (term.path, term.operator) == (_NAME, "=")), "")
    for namespace in scope.namespaces or ("",):
        yield Permission(kind.group, kind.plural, "watch", namespace, name)
        yield Permission(kind.group, kind.plural, "list", namespace, name, rare=list_is_rare)


def _of_declaration(use: Use, scopes: Sequence[InformerScope[Any]]) -> Iterator[Permission]:
    namespaces = _watched(use.place, scopes) if isinstance(use.place, ResourceKind) else use.place
    for namespace in namespaces or ("",):
        for verb in use.verbs:
            for name in use.names or ("",):
                yield Permission(use.group, use.resource, verb, namespace, name, rare=use.rare)


def _watched(kind: ResourceKind, scopes: Sequence[InformerScope[Any]]) -> tuple[str, ...]:
    found = [
        scope.namespaces
        for scope in scopes
        if (scope.storage.kind.group, scope.storage.kind.plural) == (kind.group, kind.plural)
    ]
    if not found:
        raise PermissionsError(
            f"{kind} is declared and not watched, so that its namespaces are unknown: watch it, or pass"
            " namespaces=(...), () for all of them"
        )
    # A watch of all namespaces covers every other one.
    return () if () in found else tuple(dict.fromkeys(name for names in found for name in names))


def _reading_back(permission: Permission, scopes: Sequence[InformerScope[Any]]) -> Iterator[Permission]:
    """What the client of a manager may read after a write."""
    resource, _, subresource = permission.resource.partition("/")
    # `HotLoopGuard` reads what was written, but not after JSON patches, by which statuses are written. Finalizers are
    # no requests: admission requires the permission.
    is_read_back = permission.verb == "update" or (permission.verb == "patch" and not subresource)
    if is_read_back and subresource != "finalizers":
        yield Permission(
            permission.group, permission.resource, "get", permission.namespace, permission.name, rare=_HOT_LOOPS
        )
    # `Freshness` reads objects that an informer has to show.
    for scope in scopes:
        kind = scope.storage.kind
        if (kind.group, kind.plural) != (permission.group, resource):
            continue
        for namespace in scope.namespaces or ("",):
            if permission.namespace == namespace or "" in {permission.namespace, namespace}:
                where = permission.namespace or namespace
                yield Permission(permission.group, resource, "get", where, permission.name, rare=_LIVE_READS)


def _of_election(election: LeaseName) -> Iterator[Permission]:
    kind = Lease.KIND
    yield Permission(kind.group, kind.plural, "create", election.namespace)
    for verb in ("get", "update"):
        yield Permission(kind.group, kind.plural, verb, election.namespace, election.name)
