"""Least privilege, tested: the permissions that a process was granted, compared with those that it used.

::

    with granted_account(kube_cluster, manager.permissions, namespace=kube_namespace, directory=tmp_path) as account:
        with kube_audit.recording() as seen:
            ...  # the process runs with account.kubeconfig
        found = usage(manager.permissions, seen.requests, user=account.username)
        assert found.is_exact, found
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from gpuruntime.control.permissions.permission import Permission, least
from gpuruntime.control.permissions.roles import roles_for
from gpuruntime.meta.codec import encode
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.accounts import Account, await_granted, create_account
from gpuruntime.testing.cluster.audit import Request

__all__ = ["Usage", "granted_account", "usage"]

# Granted to every user by the default roles of a cluster.
_GRANTED_TO_ALL: Final = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)


@frozen
class Usage:
    """A comparison of granted with used permissions; its text says what to do.

    `missing` were tried but not granted. `unused` were granted but not used. `excused` were not used either, but are
    needed only rarely: the reason is in `rare`.
    """

    missing: tuple[Permission, ...]
    unused: tuple[Permission, ...]
    excused: tuple[Permission, ...]

    @property
    def is_exact(self) -> bool:
        """Whether exactly the needed permissions are granted."""
        return not self.missing and not self.unused

    def __str__(self) -> str:
        lines = [f"missing: {permission}; declare it" for permission in self.missing]
        lines += [
            f"unused: {permission}; remove it, use it in a test, or give a reason with rare="
            for permission in self.unused
        ]
        lines += [f"excused: {permission}: {permission.rare}" for permission in self.excused]
        return "\n".join(lines) or "every permission was used, and no other was tried"


def usage(permissions: Sequence[Permission], requests: Iterable[Request], *, user: str) -> Usage:
    """Compare permissions with the requests of a user, including forbidden ones.

    Guarantees: a permission for several namespaces or objects is used by a request to any of them. A server-side apply
    that created its object also used "create", because the server checks it.

    Caveats: checks without a request, such as that of an owner's finalizers subresource, are in no audit log: such a
    permission needs a reason in `rare`. Non-resource requests, such as /version, are ignored.
    """
    tried = {permission for request in requests if request.user == user for permission in _needed(request)}
    idle = [permission for permission in permissions if not any(permission.covers(need) for need in tried)]
    return Usage(
        missing=least(need for need in tried if not any(permission.covers(need) for permission in permissions)),
        unused=tuple(permission for permission in idle if not permission.rare),
        excused=tuple(permission for permission in idle if permission.rare),
    )


@contextmanager
def granted_account(
    access: ClusterAccess, permissions: Sequence[Permission], *, namespace: str, directory: Path
) -> Iterator[Account]:
    """A ServiceAccount with exactly these permissions, for the length of the block.

    All of them are in force when the block begins. The namespaces must exist; the kubeconfig is in `directory`.
    """
    admin = access.admin()
    account = create_account(access, namespace, directory)
    created: list[str] = []
    try:
        for granted in roles_for(permissions, account=account.name, namespace=namespace):
            path = granted.kind.path(granted.metadata.namespace)
            admin.create(path, encode(granted))
            created.append(f"{path}/{granted.metadata.name}")
        for permission in _one_per_role(permissions):
            await_granted(
                admin,
                account.username,
                verb=permission.verb,
                group=permission.group,
                resource=permission.resource,
                namespace=permission.namespace,
                name=permission.name,
            )
        yield account
    finally:
        for path in reversed(created):
            admin.delete(path)
        admin.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account.name}")


def _needed(request: Request) -> Iterator[Permission]:
    if not request.resource or (request.group, request.resource) in _GRANTED_TO_ALL:
        return
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    # RBAC does not check the name of an object that is created.
    name = "" if request.verb == "create" and not request.subresource else request.name
    yield Permission(request.group, resource, request.verb, request.namespace, name)
    if request.verb == "patch" and request.code == 201:
        yield Permission(request.group, resource, "create", request.namespace)


def _one_per_role(permissions: Iterable[Permission]) -> Iterable[Permission]:
    """A permission of each role, which is in force as a whole or not at all."""
    own = (found for found in permissions if (found.group, found.resource) not in _GRANTED_TO_ALL)
    return {permission.namespace: permission for permission in own}.values()
