"""From informers, an election and declarations to rights."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from attrs import frozen

from gpuruntime.control.informers.informer import InformerScope
from gpuruntime.control.permissions.declarations import Declaration, Use
from gpuruntime.control.permissions.rights import WRITE_VERBS, Right, least
from gpuruntime.kube.builtin.coordination import Lease
from gpuruntime.meta.identity import ResourceKind

__all__ = ["LeaseName", "PermissionsError", "rights_of"]

_LISTS: Final = "used when the server does not stream first states, and after a write whose answer was lost"
_ASKS: Final = "used when the answer to a write was lost, or the cache is late to show it"
_FIGHTS: Final = "used to tell who undoes a write again and again"
_NAME: Final = "metadata.name"


class PermissionsError(ValueError):
    """What was declared does not tell which rights are needed; the message says what to add."""


@frozen
class LeaseName:
    """The lease of an election."""

    namespace: str
    name: str


def rights_of(
    scopes: Sequence[InformerScope[Any]], declarations: Iterable[Declaration], election: LeaseName | None = None
) -> tuple[Right, ...]:
    """The least rights of a process that watches these scopes, does what is declared, and stands for election.

    Guarantees:
        Everything that the library does by itself is included: lists beside watches, live reads after writes whose
        answers were lost, the lease. An informer of one object, `fields="metadata.name=..."`, gets rights to that
        object alone. Rights are limited to the namespaces that informers and declarations name.

    Raises:
        PermissionsError: a declaration is about wherever a kind is watched, and nobody watches it.
    """
    rights: list[Right] = []
    for scope in scopes:
        # A new leader compares its caches with lists; without an election nobody has to.
        rights += _watching(scope, "" if election is not None else _LISTS)
    for use in (use for declaration in declarations for use in declaration.parts):
        for right in _using(use, scopes):
            rights.append(right)
            if use.by_client and right.verb in WRITE_VERBS:
                rights += _asking(right, scopes)
    if election is not None:
        rights += _electing(election)
    return least(rights)


def _watching(scope: InformerScope[Any], list_is_rare: str) -> Iterator[Right]:
    kind = scope.storage.kind
    # The server takes a selector for one name as that name when it looks for a right.
    name = next((term.value for term in scope.fields.terms if (term.path, term.operator) == (_NAME, "=")), "")
    for namespace in scope.namespaces or ("",):
        yield Right(kind.group, kind.plural, "watch", namespace, name)
        yield Right(kind.group, kind.plural, "list", namespace, name, rare=list_is_rare)


def _using(use: Use, scopes: Sequence[InformerScope[Any]]) -> Iterator[Right]:
    namespaces = _watched(use.place, scopes) if isinstance(use.place, ResourceKind) else use.place
    for namespace in namespaces or ("",):
        for verb in use.verbs:
            for name in use.names or ("",):
                yield Right(use.group, use.resource, verb, namespace, name, rare=use.rare)


def _watched(kind: ResourceKind, scopes: Sequence[InformerScope[Any]]) -> tuple[str, ...]:
    found = [
        scope.namespaces
        for scope in scopes
        if (scope.storage.kind.group, scope.storage.kind.plural) == (kind.group, kind.plural)
    ]
    if not found:
        raise PermissionsError(
            f"{kind} is declared and not watched, so nobody knows in which namespaces it is: watch it, or say"
            " namespaces=(...), () for all of them"
        )
    # One that watches everywhere says more than all who watch somewhere.
    return () if () in found else tuple(dict.fromkeys(name for names in found for name in names))


def _asking(right: Right, scopes: Sequence[InformerScope[Any]]) -> Iterator[Right]:
    """What the client of a manager may read because of a write."""
    resource, _, subresource = right.resource.partition("/")
    # `HotLoopGuard` looks at what was written; statuses are written by JSON patches, which it does not look behind.
    # Finalizers are no requests: admission asks for the right to them.
    is_looked_behind = right.verb == "update" or (right.verb == "patch" and not subresource)
    if is_looked_behind and subresource != "finalizers":
        yield Right(right.group, right.resource, "get", right.namespace, right.name, rare=_FIGHTS)
    # `Freshness` looks at objects that an informer is to show.
    for scope in scopes:
        kind = scope.storage.kind
        if (kind.group, kind.plural) != (right.group, resource):
            continue
        for namespace in scope.namespaces or ("",):
            if right.namespace == namespace or "" in {right.namespace, namespace}:
                where = right.namespace or namespace
                yield Right(right.group, resource, "get", where, right.name, rare=_ASKS)


def _electing(election: LeaseName) -> Iterator[Right]:
    kind = Lease.KIND
    yield Right(kind.group, kind.plural, "create", election.namespace)
    for verb in ("get", "update"):
        yield Right(kind.group, kind.plural, verb, election.namespace, election.name)
