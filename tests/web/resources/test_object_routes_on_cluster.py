"""A new kind over HTTP, on a real control plane: all verbs follow from its declarations, and its permissions too."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import write_status
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.endpoint import mount
from gpuruntime.kube import Client, connect
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.meta import Condition, set_condition
from gpuruntime.schema import definition
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.permissions import granted_account
from tests.control.scenes import managing
from tests.product_scenes import eventually
from tests.service.service_scenes import ServiceWorld
from tests.web.resource_scenes import Api
from tests.web.widget_resource import Widget, WidgetStatus, widget_routes, wired


@pytest.fixture
def installed(product: ClusterAccess) -> Iterator[None]:
    """The cluster has the kind."""
    product.kubectl("apply", "--server-side", "-f", "-", input_text=orjson.dumps(definition(Widget)).decode())
    product.kubectl("wait", f"crd/{Widget.KIND.plural}.{Widget.KIND.group}", "--for=condition=Established")
    yield
    product.kubectl("delete", f"crd/{Widget.KIND.plural}.{Widget.KIND.group}", "--wait=false")


@asynccontextmanager
async def serving_widgets(world: ServiceWorld, directory: Path) -> AsyncIterator[Api]:
    """The API of widgets, by a process with the permissions that follow from its rows."""
    namespaces = Namespaces((world.active,), (world.stock,), world.active)
    planned, _ = wired(OFFLINE_CREDENTIALS, namespaces)
    with granted_account(world.access, planned.permissions, namespace=world.active, directory=directory) as account:
        manager, service = wired(from_kubeconfig(account.kubeconfig), namespaces)
        app = web.Application()
        mount(app, widget_routes(service), AccessControl(Access.DEVELOPMENT))
        async with managing(manager), TestClient(TestServer(app)) as client:
            await eventually(lambda: service.operations.is_accepting)
            # A watch of a kind whose cache has not synced is answered by 503.
            await manager.cache.synced()
            yield Api(client, world)


async def make_ready(admin: Client, world: ServiceWorld, name: str) -> None:
    """Write the status of a widget, as its reconciler would."""
    widget = await admin.get(Widget, name, world.active)
    ready = Condition("Ready", "True", "Reconciled", observed_generation=widget.metadata.generation)
    conditions = set_condition(widget.status.conditions, ready, datetime.now(UTC))
    status = WidgetStatus("Ready", widget.metadata.generation, conditions=conditions)
    await write_status(admin, widget, status)


@pytest.mark.usefixtures("installed")
async def test_a_new_kind_is_listed_read_created_updated_deleted_awaited_and_watched(
    world: ServiceWorld, tmp_path: Path
) -> None:
    body = {"operationID": "one", "name": "small", "size": 2}
    async with (
        connect(from_kubeconfig(world.access.kubeconfig), field_manager="reconciler") as reconciler,
        serving_widgets(world, tmp_path) as api,
        api.follow("/widgets?watch=1") as events,
    ):
        start = await events.until("synced")
        made = await api.call("POST", "/widgets", body)
        again = await api.call("POST", "/widgets", body)
        taken = await api.call("POST", "/widgets", {**body, "operationID": "two"})
        invalid = await api.call("POST", "/widgets", {**body, "name": "huge", "operationID": "three", "size": 9})
        waiting = asyncio.create_task(api.call("GET", "/widgets/small/wait?timeout=60"))
        added = await events.next()
        await make_ready(reconciler, world, "small")
        ready, modified = await waiting, await events.next()
        listed = await api.call("GET", "/widgets?phase=Ready&labelSelector=absent!=x")
        stale = await api.call("PUT", "/widgets/small", {"size": 3}, If_Match=made.headers["ETag"])
        grown = await api.call("PUT", "/widgets/small", {"size": 3})
        async with api.follow("/widgets/small/watch", last=modified.id) as one:
            resumed = await one.next()
        gone = await api.call("DELETE", "/widgets/small")
        late = await api.call("GET", "/widgets/small/wait?for=Deleted")
        missing = await api.call("GET", "/widgets/small")

    assert [event.name for event in start] == ["reset", "synced"]
    assert (made.status, made.data["size"], made.data["phase"]) == (201, 2, "Progressing")
    assert made.headers["Location"].endswith(f"/widgets/small?namespace={world.active}")
    assert (again.status, again.data["uid"]) == (200, made.data["uid"])
    assert (taken.status, taken.code, invalid.status, invalid.paths) == (409, "operation_conflict", 400, {"$.size"})
    assert (added.name, added.data["size"], modified.name, modified.data["phase"]) == ("added", 2, "modified", "Ready")
    assert (ready.status, ready.data["reason"]) == (200, "Reconciled")
    assert [widget["name"] for widget in listed.data] == ["small"]
    assert (stale.status, grown.status, grown.data["size"]) == (412, 200, 3)
    assert (resumed.name, resumed.data["size"]) == ("modified", 3)
    assert (gone.status, late.status, late.data["deleted"]) == (204, 200, True)
    assert (missing.status, missing.code) == (404, "widget_not_found")
