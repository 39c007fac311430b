"""ServiceAccounts with exactly the permissions that a test grants, so that code under test need not be admin."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.admin import AdminClient

__all__ = ["Account", "await_granted", "create_account", "delete_account"]

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TOKEN_SECONDS = 24 * 3600
_TIMEOUT_SECONDS = 30.0


@frozen
class Account:
    """A ServiceAccount with a token, and a kubeconfig whose default namespace is the account's."""

    namespace: str
    name: str
    token: str
    kubeconfig: Path

    @property
    def username(self) -> str:
        """The user name at the API server, as in audit logs and role bindings."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def create_account(
    access: ClusterAccess,
    namespace: str,
    directory: Path,
    *,
    rules: Sequence[Mapping[str, Any]] = (),
    cluster_rules: Sequence[Mapping[str, Any]] = (),
) -> Account:
    """Create an account with RBAC `rules` in its namespace and `cluster_rules` cluster-wide.

    Without rules it has no permissions; those of its rules are in force when this returns. Its kubeconfig is written to
    `directory`.
    """
    admin = access.admin()
    name = f"account-{uuid.uuid4().hex[:8]}"
    admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", _object("v1", "ServiceAccount", name))
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    if rules:
        namespaced = f"{_RBAC}/namespaces/{namespace}"
        admin.create(f"{namespaced}/roles", _rbac("Role", name, rules=list(rules)))
        admin.create(
            f"{namespaced}/rolebindings",
            _rbac("RoleBinding", name, subjects=subjects, roleRef=_reference("Role", name)),
        )
    if cluster_rules:
        admin.create(f"{_RBAC}/clusterroles", _rbac("ClusterRole", name, rules=list(cluster_rules)))
        reference = _reference("ClusterRole", name)
        admin.create(
            f"{_RBAC}/clusterrolebindings",
            _rbac("ClusterRoleBinding", name, subjects=subjects, roleRef=reference),
        )
    answer = admin.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        },
    )
    token = answer["status"]["token"]
    kubeconfig = directory / f"{name}.kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(json.dumps(access.kubeconfig_for(token, namespace)))
    account = Account(namespace, name, token, kubeconfig)
    for scope, granted in ((namespace, rules), ("", cluster_rules)):
        for rule in granted:
            if "resources" in rule:
                await_granted(
                    admin,
                    account.username,
                    verb=rule["verbs"][0],
                    group=rule["apiGroups"][0],
                    resource=rule["resources"][0],
                    namespace=scope,
                    name=next(iter(rule.get("resourceNames", ())), ""),
                )
    return account


def delete_account(access: ClusterAccess, account: Account) -> None:
    """Delete the cluster-scoped objects of an account; the others are deleted with its namespace."""
    admin = access.admin()
    admin.delete(f"{_RBAC}/clusterrolebindings/{account.name}")
    admin.delete(f"{_RBAC}/clusterroles/{account.name}")


def await_granted(
    admin: AdminClient, user: str, *, verb: str, group: str, resource: str, namespace: str, name: str
) -> None:
    """Wait until a permission is in force: the API server reads roles by a watch, and would refuse a faster client.

    A subresource is a part of `resource`, as in RBAC rules: "pods/status".

    Raises:
        TimeoutError: it is not after 30 s.
    """
    resource, _, subresource = resource.partition("/")
    wanted = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not admin.create(_REVIEWS, {"spec": {"user": user, "resourceAttributes": wanted}})["status"]["allowed"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{user} was not granted {wanted} within {_TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.02)  # there is no event to await


def _object(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _rbac(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return _object("rbac.authorization.k8s.io/v1", kind, name, **fields)


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
