"""Functions over HTTP, on a real control plane. No reconciler runs: the tests write what one would."""

from typing import Any

from attrs import evolve

from gpuruntime.api.gpufunction import FunctionWorkers, GPUFunction
from gpuruntime.api.invocations import API_USER, InvocationKey, queue_subject
from gpuruntime.api.names import FUNCTION_FINALIZER, OPERATION_ID
from gpuruntime.control import write_status
from gpuruntime.kube import MergePatch
from gpuruntime.meta import Condition
from gpuruntime.service.invocations.streams import ensure_queue
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import connected
from tests.service.service_scenes import ServiceWorld
from tests.web.resource_scenes import Answered, Api, serving_alone

TEMPLATE = {"command": ["python", "-m", "hello"], "envs": [{"name": "MODEL", "value": "small"}]}


async def create(api: Api, operation_id: str, **fields: Any) -> Answered:
    body = {"operationID": operation_id, "namespace": api.world.active, "specName": "g1.1", "image": "hello:1"}
    sent = {key: value for key, value in {**body, **fields}.items() if value is not None}
    return await api.call("POST", "/serverless/functions", sent)


def path(api: Api, name: str, action: str = "", more: str = "") -> str:
    return f"/serverless/functions/{name}{action}?namespace={api.world.active}{more}"


async def stored(world: ServiceWorld, name: str = "hello") -> GPUFunction:
    return await world.admin.get(GPUFunction, name, world.active)


async def with_status(world: ServiceWorld, name: str = "hello", **status: Any) -> str:
    """Write the status of a function, as the reconciler does; returns the version."""
    found = await stored(world, name)
    await write_status(world.admin, found, evolve(found.status, **status))
    return (await stored(world, name)).metadata.resource_version


async def test_a_function_is_created_read_paused_and_deleted(world: ServiceWorld) -> None:
    fields = {"requestID": "hello", "template": TEMPLATE, "scaling": {"minWorkers": 2, "maxWorkers": 4}}
    async with serving_alone(world) as api:
        made = await create(api, "make", **fields)
        again = await create(api, "make", **fields, name="hello")
        other = await create(api, "make", **fields, paused=True)
        taken = await create(api, "second", **fields)
        held = await world.admin.patch(
            GPUFunction, "hello", world.active, MergePatch({"metadata": {"finalizers": [FUNCTION_FINALIZER]}})
        )
        version = await with_status(
            world,
            phase="Ready",
            observed_generation=1,
            workers=FunctionWorkers(desired=2, ready=2, starting=0, draining=0),
            revision="abc",
            conditions=(Condition("Ready", "True", "FunctionReady", "2 workers", "2026-01-01T00:00:00Z"),),
        )
        read = await api.call("GET", path(api, "hello"), X_Resource_Version=version)
        ready = await api.call("GET", path(api, "hello", "/wait"))
        listed = await api.call("GET", f"/serverless/functions?namespace={world.active}&requestID=hello&phase=Ready")
        none = await api.call("GET", f"/serverless/functions?namespace={world.active}&requestID=other")
        pause = {"operationID": "pause", "paused": True, "scaling": {"minWorkers": 3}, "requestID": "hello"}
        paused = await api.call("PUT", path(api, "hello"), pause)
        repaused = await api.call("PUT", path(api, "hello"), pause)
        stale = await api.call("PUT", path(api, "hello"), {"paused": False}, If_Match=read.headers["ETag"])
        gone = await api.call("DELETE", path(api, "hello", more="&operationID=bye"))
        replayed = await api.call("DELETE", path(api, "hello", more="&operationID=bye"))
        waiting = await api.call("GET", path(api, "hello", "/wait", "&for=Deleted&timeout=0"))
        await world.admin.patch(GPUFunction, "hello", world.active, MergePatch({"metadata": {"finalizers": None}}))
        awaited = await api.call("GET", path(api, "hello", "/wait", "&for=Deleted"))
        late = await create(api, "make", **fields)

    assert (made.status, again.status, other.status, taken.status) == (201, 200, 409, 409)
    assert made.headers["Location"] == f"/api/v1{path(api, 'hello')}"
    assert (made.data["name"], made.data["requestID"], made.data["phase"]) == ("hello", "hello", "Progressing")
    assert (made.data["template"], made.data["scaling"]["concurrency"]) == (TEMPLATE, 1)
    assert (held.metadata.annotations[OPERATION_ID], held.spec.request_id) == ("make", None)
    assert read.data["workers"] == {"desired": 2, "ready": 2, "starting": 0, "draining": 0}
    assert (read.data["revision"], read.data["reason"], ready.status) == ("abc", "FunctionReady", 200)
    assert [condition["type"] for condition in read.data["conditions"]] == ["Ready"]
    assert ([item["name"] for item in listed.data], none.data) == (["hello"], [])
    assert (paused.data["paused"], paused.data["scaling"]["minWorkers"], repaused.status) == (True, 3, 200)
    assert paused.data["scaling"]["maxWorkers"] == 4
    assert (stale.status, gone.status, replayed.status) == (412, 204, 204)
    assert (waiting.status, waiting.data["deleting"]) == (202, True)
    assert (awaited.status, awaited.data["deleted"], late.data["deleted"]) == (200, True, True)


async def test_a_request_id_that_is_no_name_and_one_that_is_taken(world: ServiceWorld) -> None:
    async with serving_alone(world) as api:
        made = await create(api, "make-1", requestID="my_model")
        taken = await create(api, "make-2", name="other", requestID="my_model")
        shadow = await create(api, "make-3", name="plain", requestID="shadowed")
        shadowed = await create(api, "make-4", name="shadowed")
        renamed = await api.call("PUT", path(api, "plain"), {"requestID": "other"})
        kept = await api.call("PUT", path(api, "plain"), {"requestID": "shadowed"})
        found = await api.call("GET", f"/serverless/functions?namespace={world.active}&requestID=my_model")

    assert (made.status, made.data["requestID"], shadow.status) == (201, "my_model", 201)
    assert made.data["name"].startswith("my-model-")
    assert [(answer.status, answer.code) for answer in (taken, shadowed)] == [(409, "operation_conflict")] * 2
    assert "has requestID my_model already" in taken.json["error"]["message"]
    assert (renamed.status, renamed.paths) == (400, {"$.requestID"})
    assert "expected shadowed, which never changes" in renamed.json["error"]["message"]
    assert (kept.status, kept.data["generation"]) == (200, 1)
    assert [item["name"] for item in found.data] == [made.data["name"]]


async def test_invalid_requests_name_the_field_and_nothing_is_stored(world: ServiceWorld) -> None:
    mount_of = {"name": "data", "mountPath": "/data"}
    async with serving_alone(world) as api:
        refused = {
            "$.name": await create(api, "bad-1"),
            "$.image": await create(api, "bad-2", name="a", image=None),
            "$.scaling.maxWorkers": await create(api, "bad-3", name="a", scaling={"minWorkers": 5}),
            "$.requestID": await create(api, "bad-4", requestID="My Model"),
            "$.storageMounts": await create(api, "bad-5", name="a", storageMounts=[mount_of]),
            "$.template.envs": await create(
                api, "bad-6", name="a", template={"envs": [{"name": "SERVERLESS_X", "value": "1"}]}
            ),
            "$.namespace": await create(api, "bad-7", name="a", namespace=world.stock),
            "$.framework.invokePath": await create(api, "bad-8", name="a", framework={"invokePath": "invoke"}),
        }
        dotted = await create(api, "bad-9", name="a.b")
        missing = [
            await api.call("GET", path(api, "nowhere")),
            await api.call("PUT", path(api, "nowhere"), {"paused": True}),
            await api.call("DELETE", path(api, "nowhere")),
            await api.call("GET", path(api, "nowhere", "/queue")),
        ]
        left = await world.operations()

    assert {name: (answer.status, answer.paths) for name, answer in refused.items()} == {
        name: (400, {name}) for name in refused
    }
    assert (dotted.status, dotted.paths) == (400, {"$.name"})
    assert {(answer.status, answer.code) for answer in missing} == {(404, "gpufunction_not_found")}
    assert left == ()


async def test_changes_of_functions_are_events(world: ServiceWorld) -> None:
    async with serving_alone(world) as api:
        await create(api, "make", name="hello")
        async with api.follow(f"/serverless/functions?namespace={world.active}&watch=1") as events:
            await events.until("synced")
            await api.call("PUT", path(api, "hello"), {"paused": True})
            changed = await events.next()
            await api.call("DELETE", path(api, "hello"))
            deleted = (await events.until("deleted"))[-1]

    assert (changed.name, changed.data["paused"]) == ("modified", True)
    assert (deleted.data["name"], deleted.data["requestID"]) == ("hello", "hello")


async def test_the_queue_of_a_function_is_that_of_nats(world: ServiceWorld, nats_server: NatsServer) -> None:
    async with (
        connected(nats_server.options()) as admin,
        connected(nats_server.options(API_USER.name)) as bus,
        serving_alone(world, bus) as api,
    ):
        await create(api, "make", name="hello", invocation={"maxQueued": 5, "maxQueuedBytes": "1Mi"})
        early = await api.call("GET", path(api, "hello", "/queue"))
        await ensure_queue(admin, await stored(world))
        await admin.jetstream.publish(queue_subject(InvocationKey(world.active, "hello", "one")), b"{}")
        message = "image hello:1 cannot be pulled"
        version = await with_status(
            world,
            observed_generation=1,
            workers=FunctionWorkers(desired=1, ready=0, starting=1, draining=0),
            conditions=(Condition("Ready", "False", "FunctionProgressing", message, "2026-01-01T00:00:00Z"),),
        )

        waits = await api.call("GET", path(api, "hello", "/queue"), X_Resource_Version=version)

    assert (early.status, early.code) == (503, "queue_unavailable")
    assert "has no queue yet" in early.json["error"]["message"]
    assert (waits.data["name"], waits.data["requestID"]) == ("hello", "hello")
    assert (waits.data["queued"], waits.data["running"], waits.data["waitingFor"]) == (1, 0, message)
    assert waits.data["limits"] == {"maxQueued": 5, "maxQueuedBytes": 2**20}
    assert waits.data["workers"] == {"desired": 1, "ready": 0, "starting": 1, "draining": 0}
    assert waits.data["bytes"] > 0
    assert waits.data["oldestAgeSeconds"] >= 0


async def test_without_nats_only_the_queue_is_not_available(world: ServiceWorld) -> None:
    async with serving_alone(world) as api:
        made = await create(api, "make", name="hello")
        queue = await api.call("GET", path(api, "hello", "/queue"))

    assert (made.status, queue.status, queue.code) == (201, 503, "queue_unavailable")
    assert "Retry-After" in queue.headers


async def test_a_worker_is_requested_as_upstreams_callers_do(world: ServiceWorld) -> None:
    asked = {
        "enabled": True,
        "requestID": "hello",
        "minAvailableCount": 1,
        "idleTimeoutSeconds": 0,
        "minRequestCount": 0,
        "framework": {"invokePath": "/run", "healthPath": "/healthz"},
    }
    async with serving_alone(world) as api:
        made = await api.create("make-1", "worker", serverless=asked)
        plain = await api.create("make-2", "plain", serverless={"enabled": False})
        nothing = await api.create("make-3", "bad", serverless={"enabled": True})
        slower = await api.call("PUT", api.unit("worker"), {"serverless": {"concurrency": 2}})
        removed = await api.call("PUT", api.unit("worker"), {"serverless": None})

    assert (made.status, plain.status) == (201, 201)
    assert {key: made.data["serverless"][key] for key in ("enabled", "requestID", "minAvailableCount")} == {
        "enabled": True,
        "requestID": "hello",
        "minAvailableCount": 1,
    }
    assert made.data["serverless"]["framework"]["invokePath"] == "/run"
    assert (nothing.status, nothing.paths) == (400, {"$.serverless.requestID"})
    assert (slower.data["serverless"]["concurrency"], slower.data["serverless"]["requestID"]) == (2, "hello")
    assert "serverless" not in removed.data
