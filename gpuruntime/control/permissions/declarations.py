"""Declarations of what a process does beyond watching, from which its permissions follow.

::

    manager.declare(
        allow_children(Deployment, of=Widget),
        allow_status(Widget),
        allow_finalizers(Widget),
        allow_events(Widget),
        allow(Secret, "get", names=("registry",)),
    )

Each function stands for calls of this library. The builder, `manager.controller(Widget).owns(Deployment)`, declares by
itself; these are for what a program does beyond it. Watches, the lease of an election, and requests that the library
makes by itself are known to the manager.
"""

from collections.abc import Sequence
from typing import Final, Literal, get_args

from attrs import frozen

from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject

__all__ = [
    "Declaration",
    "Kind",
    "Use",
    "Verb",
    "allow",
    "allow_children",
    "allow_events",
    "allow_finalizers",
    "allow_rule",
    "allow_status",
]

Kind = type[TypedObject] | ResourceKind
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

_EVENTS: Final = "events"
_HOME_OF_CLUSTER_SCOPED: Final = "default"
_ADMISSION: Final = "required by the admission plugin OwnerReferencesPermissionEnforcement, not by a request"
_REPEATS: Final = "used when an event repeats"
_UNKNOWN: Final = "used when the cache lacks an object that exists"


@frozen
class Use:
    """Verbs on one resource. `place` is namespaces, () for everywhere, or a kind: wherever that is watched.

    `by_client` says whether the manager's client makes the requests: it may read what it has written.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    place: tuple[str, ...] | ResourceKind
    names: tuple[str, ...] = ()
    rare: str = ""
    by_client: bool = True


@frozen
class Declaration:
    """Requests that a process makes; returned by the `allow` functions of this module."""

    parts: tuple[Use, ...]


def allow_children(
    kind: Kind,
    *,
    of: Kind | None = None,
    mode: Literal["replace", "apply"] = "replace",
    namespaces: Sequence[str] | None = None,
) -> Declaration:
    """Allow `Writer.ensure` for objects of a kind, with an object of the kind `of` as their owner.

    `Writer.remove` needs `allow(kind, "delete")` besides, and so does `adopt` where the admission plugin
    OwnerReferencesPermissionEnforcement runs.

    Args:
        kind: the kind of the children.
        of: the kind of the owner. Owner references set blockOwnerDeletion, for which some clusters require the
            permission to update the finalizers of the owner.
        mode: the mode of `ensure`.
        namespaces: () is everywhere, None is wherever the kind is watched.
    """
    what = _kind(kind)
    place = _place(what, namespaces)
    written = ("create", "update") if mode == "replace" else ("get", "create", "patch")
    parts = [Use(what.group, what.plural, written, place)]
    if mode == "replace":
        parts.append(Use(what.group, what.plural, ("get",), place, rare=_UNKNOWN))
    if of is not None:
        owner = _kind(of)
        # A namespaced owner is in the namespace of its children.
        where = place if owner.namespaced else ()
        parts.append(
            Use(owner.group, f"{owner.plural}/finalizers", ("update",), where, rare=_ADMISSION, by_client=False)
        )
    return Declaration(tuple(parts))


def allow_status(kind: Kind, *, namespaces: Sequence[str] | None = None) -> Declaration:
    """Allow `write_status` for objects of a kind."""
    return allow(kind, "patch", subresource="status", namespaces=namespaces)


def allow_finalizers(kind: Kind, *, namespaces: Sequence[str] | None = None) -> Declaration:
    """Allow `with_finalizer`, `add_finalizer` and `remove_finalizer` for objects of a kind."""
    return allow(kind, "patch", namespaces=namespaces)


def allow_events(*regarding: Kind) -> Declaration:
    """Allow `Recorder.record` about objects of these kinds, wherever they are watched.

    Raises:
        ValueError: no kind.
    """
    if not regarding:
        raise ValueError("expected the kinds that events are about, got none: allow_events(Widget)")
    parts = []
    for kind in regarding:
        what = _kind(kind)
        place = what if what.namespaced else (_HOME_OF_CLUSTER_SCOPED,)
        parts += [
            Use("events.k8s.io", _EVENTS, ("create",), place, by_client=False),
            Use("events.k8s.io", _EVENTS, ("patch",), place, rare=_REPEATS, by_client=False),
            Use("", _EVENTS, ("patch",), place, rare=_REPEATS, by_client=False),
        ]
    return Declaration(tuple(parts))


def allow(
    kind: Kind,
    *verbs: Verb,
    subresource: str = "",
    names: Sequence[str] = (),
    namespaces: Sequence[str] | None = None,
    rare: str = "",
) -> Declaration:
    """Allow verbs on objects of a kind, for requests of a client.

    Args:
        kind: the kind of the objects.
        verbs: RBAC verbs: `Client.apply` is "patch", and "create" where it creates objects.
        subresource: such as "scale".
        names: limits the verbs to objects of these names. "create" cannot be limited: the server does not know the name
            when it authorises.
        namespaces: () is everywhere, None is wherever the kind is watched.
        rare: when the verbs are used, if a test run may not use them: see `gpuruntime.testing.permissions`.

    Raises:
        ValueError: no verb, one that is no verb of requests, or names for "create" or "deletecollection".
    """
    what = _kind(kind)
    resource = f"{what.plural}/{subresource}" if subresource else what.plural
    unknown = [verb for verb in verbs if verb not in get_args(Verb)]
    if unknown:
        expected = ", ".join(get_args(Verb))
        raise ValueError(f"{what}: expected verbs out of {expected}, got {unknown[0]!r}; allow_rule takes any verb")
    _check(f"{what}", verbs, names, is_subresource=bool(subresource))
    return Declaration((Use(what.group, resource, tuple(verbs), _place(what, namespaces), tuple(names), rare),))


def allow_rule(
    group: str,
    resource: str,
    verbs: Sequence[str],
    *,
    names: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    rare: str = "",
) -> Declaration:
    """Allow anything else, as in an RBAC rule: `allow_rule("authentication.k8s.io", "tokenreviews", ["create"])`.

    Without namespaces it holds everywhere.

    Raises:
        ValueError: no verb, a wildcard, or names for "create" or "deletecollection".
    """
    _check(f"{resource}.{group}", verbs, names, is_subresource="/" in resource)
    if "*" in (group, resource, *verbs):
        raise ValueError(
            f"expected names in the rule for {resource!r} of group {group!r}, got '*': name what is needed"
        )
    return Declaration((Use(group, resource, tuple(verbs), _checked(resource, namespaces), tuple(names), rare),))


def _check(what: str, verbs: Sequence[str], names: Sequence[str], *, is_subresource: bool) -> None:
    if not verbs:
        raise ValueError(f"expected verbs for {what}, got none: name verbs such as 'get'")
    unnamed = {"deletecollection"} if is_subresource else {"create", "deletecollection"}
    if names and unnamed.intersection(verbs):
        found = ", ".join(sorted(unnamed.intersection(verbs)))
        raise ValueError(
            f"{what}: {found} cannot be limited to the names {', '.join(names)}, because the server does not know the "
            "name when it authorises; declare it separately, without names"
        )


def _kind(kind: Kind) -> ResourceKind:
    return kind if isinstance(kind, ResourceKind) else kind.KIND


def _place(kind: ResourceKind, namespaces: Sequence[str] | None) -> tuple[str, ...] | ResourceKind:
    if not kind.namespaced:
        if namespaces:
            raise ValueError(f"{kind} has no namespace: expected none, got {', '.join(namespaces)}")
        return ()
    return kind if namespaces is None else _checked(str(kind), namespaces)


def _checked(what: str, namespaces: Sequence[str]) -> tuple[str, ...]:
    if isinstance(namespaces, str) or "" in namespaces:
        raise ValueError(f"expected names of namespaces for {what}, got {namespaces!r}: () is all of them")
    return tuple(namespaces)
