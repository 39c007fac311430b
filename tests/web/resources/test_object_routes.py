"""The routes of a new kind, without a cluster."""

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.web.openapi.document import openapi_document
from tests.web.widget_resource import widget_routes, wired


async def test_routes_are_named_and_described_after_their_kind() -> None:
    _, service = wired(OFFLINE_CREDENTIALS, Namespaces())

    paths = openapi_document(widget_routes(service))["paths"]

    found = {(method, path): one for path, methods in paths.items() for method, one in methods.items()}
    assert {route: one["operationId"] for route, one in found.items()} == {
        ("get", "/widgets"): "listWidgets",
        ("post", "/widgets"): "createWidget",
        ("get", "/widgets/{name}"): "getWidget",
        ("put", "/widgets/{name}"): "updateWidget",
        ("delete", "/widgets/{name}"): "deleteWidget",
        ("get", "/widgets/{name}/wait"): "waitForWidget",
        ("get", "/widgets/{name}/watch"): "watchWidget",
    }
    assert {one["x-scope"] for (method, _), one in found.items() if method != "get"} == {"write"}
    assert {one["x-scope"] for (method, _), one in found.items() if method == "get"} == {"read"}


async def test_permissions_follow_from_the_row_of_a_kind() -> None:
    manager, _ = wired(OFFLINE_CREDENTIALS, Namespaces(("a", "b"), ("s",), "c"))

    found = {(one.namespace, one.verb) for one in manager.permissions if one.resource == "widgets"}

    verbs = {"get", "list", "watch", "create", "patch", "delete"}
    assert found == {(namespace, verb) for namespace in ("a", "b") for verb in verbs}
