"""Whether a process has exactly the permissions that it needs: those that it was granted beside those that it used.

::

    with granted_account(kube_cluster, manager.permissions, namespace=kube_namespace, directory=tmp_path) as account:
        with kube_audit.recording() as seen:
            ...  # the process at work, with account.kubeconfig
        found = usage(manager.permissions, seen.requests, user=account.username)
        assert found.is_exact, found
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.control.permissions.permission import Permission, least
from gpuruntime.control.permissions.roles import roles_for
from gpuruntime.meta.codec import encode
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.accounts import Account, create_account
from gpuruntime.testing.cluster.admin import AdminClient
from gpuruntime.testing.cluster.audit import Request

__all__ = ["Usage", "granted_account", "usage"]

_PATIENCE_SECONDS: Final = 30.0
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# Every user has these by the roles that come with the cluster.
_EVERYBODYS: Final = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)


@frozen
class Usage:
    """What the log says about permissions; printed, it says what to do.

    `missing` was tried and not granted. `unused` was granted, and nothing used it. `excused` was not used either, but
    is needed only at times: each has its reason in `rare`.
    """

    missing: tuple[Permission, ...]
    unused: tuple[Permission, ...]
    excused: tuple[Permission, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the permissions are those that are needed, no more and no less."""
        return not self.missing and not self.unused

    def __str__(self) -> str:
        lines = [f"missing: {permission}; declare it" for permission in self.missing]
        lines += [
            f"unused: {permission}; take it back, use it in a test, or say why with rare=" for permission in self.unused
        ]
        lines += [f"excused: {permission}: {permission.rare}" for permission in self.excused]
        return "\n".join(lines) or "every permission was used, and no other was tried"


def usage(permissions: Sequence[Permission], requests: Iterable[Request], *, user: str) -> Usage:
    """Compare permissions with the requests of a user, refused ones included.

    Guarantees: a permission that covers several namespaces or objects is used by a request to any of them. An apply
    that
    made its object used "create", too, because that is what the server asks for.

    Caveats: what the server checks without a request, such as the finalizers of an owner, is in no log: such a
    permission
    needs a reason in `rare`. Requests to what is no resource, such as /version, are not looked at.
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
    """A ServiceAccount that has these permissions and no others, for as long as the block runs.

    When the block begins the server knows all of them. The namespaces must exist; the kubeconfig is in `directory`.
    """
    admin = access.admin()
    account = create_account(access, namespace, directory)
    made: list[str] = []
    try:
        for granted in roles_for(permissions, account=account.name, namespace=namespace):
            path = granted.kind.path(granted.metadata.namespace)
            admin.create(path, encode(granted))
            made.append(f"{path}/{granted.metadata.name}")
        for permission in permissions:
            _await_granted(admin, account.username, permission)
        yield account
    finally:
        for path in reversed(made):
            admin.delete(path)
        admin.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account.name}")


def _needed(request: Request) -> Iterator[Permission]:
    if not request.resource or (request.group, request.resource) in _EVERYBODYS:
        return
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    # The name in a creation is not part of the question that the server asks.
    name = "" if request.verb == "create" and not request.subresource else request.name
    yield Permission(request.group, resource, request.verb, request.namespace, name)
    if request.verb == "patch" and request.code == 201:
        yield Permission(request.group, resource, "create", request.namespace)


def _await_granted(admin: AdminClient, user: str, permission: Permission) -> None:
    """The server reads roles by a watch of its own: a role that was just made is not yet a permission."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    resource, _, subresource = permission.resource.partition("/")
    asked: dict[str, Any] = {
        "group": permission.group,
        "resource": resource,
        "subresource": subresource,
        "verb": permission.verb,
        "namespace": permission.namespace,
        "name": permission.name,
    }
    while not admin.create(_REVIEWS, {"spec": {"user": user, "resourceAttributes": asked}})["status"]["allowed"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server did not grant {user} to {permission} within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.02)  # there is no event to await
