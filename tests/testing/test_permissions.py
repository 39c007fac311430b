from gpuruntime.control.permissions.permission import Permission
from gpuruntime.testing.cluster.audit import Request
from gpuruntime.testing.permissions import usage


def request(verb: str, resource: str, namespace: str = "a", name: str = "", **others: str | int) -> Request:
    fields = {"subresource": "", "user": "worker", "code": 200, "user_agent": "", "group": ""} | others
    return Request(verb=verb, resource=resource, namespace=namespace, name=name, **fields)  # type: ignore[arg-type]  # by name


def test_a_permission_for_all_namespaces_is_used_by_a_request_to_one() -> None:
    found = usage([Permission("", "pods", "list")], [request("list", "pods")], user="worker")

    assert found.is_exact


def test_a_permission_in_one_namespace_does_not_cover_a_list_of_all() -> None:
    found = usage([Permission("", "pods", "list", "a")], [request("list", "pods", namespace="")], user="worker")

    assert [str(permission) for permission in found.missing] == ["list pods everywhere"]
    assert [str(permission) for permission in found.unused] == ["list pods in a"]


def test_requests_of_other_users_do_not_count() -> None:
    found = usage([Permission("", "pods", "list")], [request("list", "pods", user="another")], user="worker")

    assert not found.missing
    assert len(found.unused) == 1


def test_groups_and_subresources_are_distinguished() -> None:
    permissions = [Permission("apps", "deployments", "patch", "a")]

    found = usage(
        permissions,
        [
            request("patch", "deployments", name="x", group="apps"),
            request("patch", "deployments", name="x", group="apps", subresource="status"),
            request("patch", "deployments", name="x"),
        ],
        user="worker",
    )

    assert [str(permission) for permission in found.missing] == [
        "patch deployments 'x' in a",
        "patch deployments/status.apps 'x' in a",
    ]


def test_an_apply_that_creates_an_object_needs_the_create_permission() -> None:
    permissions = [Permission("", "secrets", "patch", "a"), Permission("", "secrets", "create", "a")]

    changed = usage(permissions, [request("patch", "secrets", name="x")], user="worker")
    made = usage(permissions, [request("patch", "secrets", name="x", code=201)], user="worker")

    assert [permission.verb for permission in changed.unused] == ["create"]
    assert made.is_exact


def test_rare_permissions_are_excused_and_default_ones_are_not_missing() -> None:
    permissions = [Permission("", "secrets", "get", "a", rare="only after a restore")]
    reviews = request("create", "selfsubjectaccessreviews", "", group="authorization.k8s.io")

    found = usage(permissions, [reviews, request("get", "", namespace="")], user="worker")

    assert found.is_exact
    assert all(part in str(found) for part in ("excused", "get secrets in a", "only after a restore"))
