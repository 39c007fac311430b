"""What authors say about their processes: what is written, beside what is watched.

::

    manager.declare(
        owns(Deployment, by=Widget),
        writes_status(Widget),
        finalizes(Widget),
        records_events(Widget),
        uses(Secret, "get", names=("registry",)),
    )

Each declaration stands for calls of this library. What is watched, elections, and what the library does by itself, are
read off the manager.
"""

from collections.abc import Sequence
from typing import Final, Literal

from attrs import frozen

from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject

__all__ = ["Declaration", "Kind", "Use", "Verb", "finalizes", "owns", "records_events", "rule", "uses", "writes_status"]

Kind = type[TypedObject] | ResourceKind
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

_EVENTS: Final = "events"
_HOME_OF_CLUSTER_SCOPED: Final = "default"
_ADMISSION: Final = "asked for by the admission plugin OwnerReferencesPermissionEnforcement, not by a request"
_REPEATS: Final = "used when an event repeats"
_UNKNOWN: Final = "used when the cache did not know an object that exists"


@frozen
class Use:
    """Verbs on one resource. `place` is namespaces, () for everywhere, or a kind: wherever that is watched.

    `by_client` is whether requests are made by the manager's client, which may read what it has written.
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
    """What an author says that a process does; made by the functions of this module."""

    parts: tuple[Use, ...]


def owns(
    kind: Kind,
    *,
    by: Kind | None = None,
    mode: Literal["replace", "apply"] = "replace",
    namespaces: Sequence[str] | None = None,
) -> Declaration:
    """`Writer.ensure` of objects of a kind, with an object of the kind `by` as their owner, in a mode of `ensure`.

    `Writer.remove`, and `adopt` where owners are policed by admission, want `uses(kind, "delete")` besides.

    Args:
        kind: what is written.
        by: the kind of the owner. Owners are told to wait for what they own (blockOwnerDeletion), which some clusters
            allow only to those who may update the finalizers of the owner.
        mode: how.
        namespaces: where; () is everywhere, None is wherever the kind is watched.
    """
    what = _kind(kind)
    place = _place(what, namespaces)
    written = ("create", "update") if mode == "replace" else ("get", "create", "patch")
    parts = [Use(what.group, what.plural, written, place)]
    if mode == "replace":
        parts.append(Use(what.group, what.plural, ("get",), place, rare=_UNKNOWN))
    if by is not None:
        owner = _kind(by)
        # An owner that has a namespace is in that of what it owns.
        where = place if owner.namespaced else ()
        parts.append(
            Use(owner.group, f"{owner.plural}/finalizers", ("update",), where, rare=_ADMISSION, by_client=False)
        )
    return Declaration(tuple(parts))


def writes_status(kind: Kind, *, namespaces: Sequence[str] | None = None) -> Declaration:
    """`write_status` for objects of a kind."""
    return uses(kind, "patch", subresource="status", namespaces=namespaces)


def finalizes(kind: Kind, *, namespaces: Sequence[str] | None = None) -> Declaration:
    """`with_finalizer`, `add_finalizer` and `remove_finalizer` for objects of a kind."""
    return uses(kind, "patch", namespaces=namespaces)


def records_events(*regarding: Kind) -> Declaration:
    """`Recorder.record` about objects of these kinds, wherever they are watched.

    Raises:
        ValueError: no kind.
    """
    if not regarding:
        raise ValueError("expected the kinds that events are about, got none: records_events(Widget)")
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


def uses(
    kind: Kind,
    *verbs: Verb,
    subresource: str = "",
    names: Sequence[str] = (),
    namespaces: Sequence[str] | None = None,
    rare: str = "",
) -> Declaration:
    """Calls of a client for objects of a kind.

    Args:
        kind: of what.
        verbs: as RBAC has them: `Client.apply` is "patch", and "create" where it makes objects.
        subresource: such as "scale".
        names: the only objects that this is about. "create" cannot be limited by names: the server does not know the
            name when it asks.
        namespaces: where; () is everywhere, None is wherever the kind is watched.
        rare: why a run may do without, if it may: see `gpuruntime.testing.granted`.

    Raises:
        ValueError: no verb, or names for "create" or "deletecollection".
    """
    what = _kind(kind)
    resource = f"{what.plural}/{subresource}" if subresource else what.plural
    _check(f"{what}", verbs, names, is_subresource=bool(subresource))
    return Declaration((Use(what.group, resource, tuple(verbs), _place(what, namespaces), tuple(names), rare),))


def rule(
    group: str,
    resource: str,
    verbs: Sequence[str],
    *,
    names: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    rare: str = "",
) -> Declaration:
    """Anything else, as RBAC has it: `rule("authentication.k8s.io", "tokenreviews", ["create"])`.

    No namespaces is everywhere.

    Raises:
        ValueError: no verb, a wildcard, or names for "create" or "deletecollection".
    """
    _check(f"{resource}.{group}", verbs, names, is_subresource="/" in resource)
    if "*" in (group, resource, *verbs):
        raise ValueError(f"expected names in the rule for {resource!r} of group {group!r}, got '*': say what is needed")
    return Declaration((Use(group, resource, tuple(verbs), _checked(resource, namespaces), tuple(names), rare),))


def _check(what: str, verbs: Sequence[str], names: Sequence[str], *, is_subresource: bool) -> None:
    if not verbs:
        raise ValueError(f"expected verbs for {what}, got none: name what is done, such as 'get'")
    unnamed = {"deletecollection"} if is_subresource else {"create", "deletecollection"}
    if names and unnamed.intersection(verbs):
        found = ", ".join(sorted(unnamed.intersection(verbs)))
        raise ValueError(
            f"{what}: {found} cannot be limited to the names {', '.join(names)}, the server does not know the name "
            "when it asks; declare it apart, without names"
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
