"""Which writes are held back, and the messages: in virtual time, on a server that accepts everything."""

import asyncio
import logging
from typing import Any

import orjson
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.writing.hot_loops import HotLoopError, HotLoopGuard, HotLoopSettings
from gpuruntime.kube.errors import ConflictError, KubeError, NotFoundError, Status
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import answer

PATH = "/apis/apps/v1/namespaces/a/deployments/web"
US, THEM = "widget-operator", "autoscaler"


def deployment(replicas: int = 3, version: str = "1", **status: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "a", "resourceVersion": version}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}} | (
        {"status": status} if status else {}
    )


@define
class World:
    """A guarded server that accepts every write and returns `live` to every read."""

    live: dict[str, Any] | KubeError = field(factory=lambda: deployment(1))
    refusal: KubeError | None = None
    settings: HotLoopSettings = field(factory=HotLoopSettings)
    asked: list[str] = field(factory=list)
    guard: HotLoopGuard = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.guard = HotLoopGuard(self, US, self.settings)

    async def send(self, request: Request) -> Response:
        method = request.method
        self.asked.append(method)
        await asyncio.sleep(0)
        if method != "GET" and self.refusal is not None:
            raise self.refusal
        if method == "GET" and isinstance(self.live, KubeError):
            raise self.live
        return answer(self.live if method == "GET" else {"path": request.path})

    def stream(self, request: Request, *, idle_timeout: float) -> Any:
        return (request, idle_timeout)

    async def write(self, body: Any, method: str = "PUT", path: str = PATH, **options: Any) -> Response:
        return await self.guard.send(Request(method, path, body=orjson.dumps(body), **options))

    async def loop(self, body: Any, method: str = "PUT", path: str = PATH) -> HotLoopError:
        """The error after the allowed number of identical writes."""
        for _ in range(self.settings.writes):
            await self.write(body, method, path)
        with pytest.raises(HotLoopError) as caught:
            await self.write(body, method, path)
        return caught.value


def managed(raw: dict[str, Any], *entries: tuple[str, Any]) -> dict[str, Any]:
    fields = [{"manager": manager, "time": "2026-01-01T00:00:00Z", "fieldsV1": owned} for manager, owned in entries]
    return {**raw, "metadata": {**raw["metadata"], "managedFields": fields}}


REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}


def test_the_sixth_identical_write_is_held_back_and_names_the_field_and_the_other_manager(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(managed(deployment(1), (US, REPLICAS), (THEM, REPLICAS)))

    with caplog.at_level(logging.WARNING):
        error = run_virtual(world.loop(deployment(3)))

    assert all(part in str(error) for part in (f"PUT {PATH}", "5 times within 60 s", "30 s"))
    assert str(error).endswith("spec.replicas (set by autoscaler)")
    assert error.retry_after == 30
    assert world.asked == ["PUT"] * 5 + ["GET"]
    assert [record.getMessage() for record in caplog.records] == ["hot loop detected, write held back"]


def test_a_held_back_write_makes_no_request_and_passes_after_the_pause() -> None:
    async def story() -> tuple[list[str], float]:
        world = World()
        first = await world.loop(deployment())
        await asyncio.sleep(10)
        with pytest.raises(HotLoopError) as caught:
            await world.write(deployment())
        assert str(caught.value) == str(first)
        await asyncio.sleep(caught.value.retry_after)
        await world.write(deployment())
        return world.asked, caught.value.retry_after

    assert run_virtual(story()) == (["PUT"] * 5 + ["GET", "PUT"], 20)


def test_concurrent_writes_that_are_held_back_lead_to_one_read() -> None:
    async def story() -> list[str]:
        world = World()
        for _ in range(5):
            await world.write(deployment())
        outcomes = await asyncio.gather(*(world.write(deployment()) for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [HotLoopError] * 3
        return world.asked

    assert run_virtual(story()).count("GET") == 1


def test_bookkeeping_fields_do_not_make_a_write_a_different_one() -> None:
    def carried(number: int) -> dict[str, Any]:
        body = deployment(version=str(number), observedGeneration=number)
        body["metadata"] |= {"generation": number, "annotations": {"deployment.kubernetes.io/revision": str(number)}}
        return body

    async def story() -> None:
        world = World()
        for number in range(5):
            await world.write(carried(number))
        with pytest.raises(HotLoopError):
            await world.write(carried(9))

    run_virtual(story())


def test_updates_of_the_status_are_compared_by_status_only() -> None:
    async def story() -> None:
        world = World()
        for number in range(20):
            await world.write(deployment(3, readyReplicas=number), path=f"{PATH}/status")
        for replicas in range(4):
            await world.write(deployment(replicas, readyReplicas=0), path=f"{PATH}/status")
        with pytest.raises(HotLoopError):
            await world.write(deployment(9, readyReplicas=0), path=f"{PATH}/status")

    run_virtual(story())


@given(st.lists(st.integers(0, 3), max_size=40))
def test_exactly_the_writes_beyond_the_fifth_of_their_content_are_held_back(contents: list[int]) -> None:
    async def story() -> list[bool]:
        world, held = World(), list[bool]()
        for replicas in contents:
            try:
                await world.write(deployment(replicas))
            except HotLoopError:
                held.append(True)
            else:
                held.append(False)
        return held

    expected = [contents[:index].count(content) >= 5 for index, content in enumerate(contents)]
    assert run_virtual(story()) == expected


@pytest.mark.parametrize("path", [PATH, f"{PATH}/status"])
def test_patches_are_compared_as_a_whole(path: str) -> None:
    async def story() -> None:
        world = World()
        for number in range(20):
            await world.write({"status": {"readyReplicas": number}}, "PATCH", path)
            await world.write({"metadata": {"annotations": {"number": str(number)}}}, "PATCH", path)

    run_virtual(story())


def test_infrequent_writes_always_pass() -> None:
    async def story() -> int:
        world = World()
        for _ in range(50):
            await world.write(deployment())
            await asyncio.sleep(15)
        return len(world.asked)

    assert run_virtual(story()) == 50


@pytest.mark.parametrize(
    ("method", "body", "options"),
    [
        ("POST", {"metadata": {"generateName": "web-"}}, {}),
        ("POST", {"spec": {}}, {}),
        ("PUT", deployment(), {"params": {"dryRun": "All"}}),
        ("DELETE", {"kind": "DeleteOptions"}, {}),
    ],
    ids=["generated name", "review", "dry run", "deletion"],
)
def test_repeatable_requests_pass(method: str, body: Any, options: dict[str, Any]) -> None:
    async def story() -> int:
        world = World()
        for _ in range(20):
            await world.write(body, method, **options)
        await world.guard.send(Request("PUT", PATH, body=b"kind: Deployment"))
        await world.guard.send(Request("GET", PATH))
        return len(world.asked)

    assert run_virtual(story()) == 22


def test_repeated_creates_of_a_deleted_object_are_held_back() -> None:
    world = World()

    error = run_virtual(world.loop(deployment(), "POST", PATH.removesuffix("/web")))

    assert str(error).startswith("POST /apis/apps/v1/namespaces/a/deployments ")
    assert "GET" not in world.asked


def test_identical_writes_to_different_objects_are_no_hot_loop() -> None:
    async def story() -> None:
        world = World()
        for number in range(50):
            await world.write(deployment(), path=f"{PATH}-{number}")

    run_virtual(story())


def test_a_failed_write_does_not_count() -> None:
    async def story() -> None:
        world = World(refusal=ConflictError(Status(409)))
        for _ in range(20):
            with pytest.raises(ConflictError):
                await world.write(deployment())

    run_virtual(story())


@pytest.mark.parametrize(
    ("live", "body", "method", "path", "explanation"),
    [
        (
            managed(deployment(1), (THEM, REPLICAS)),
            {"spec": {"replicas": 3}},
            "PATCH",
            PATH,
            "spec.replicas (set by autoscaler)",
        ),
        (
            managed(deployment(3, readyReplicas=1), (THEM, {"f:status": {"f:readyReplicas": {}}})),
            deployment(3, readyReplicas=2),
            "PUT",
            f"{PATH}/status",
            "status.readyReplicas (set by autoscaler)",
        ),
        (
            {"metadata": {"name": "m"}, "data": {"ours": "2", "theirs": "3"}},
            {"data": {"ours": "1"}},
            "PATCH",
            "/api/v1/namespaces/a/configmaps/m",
            ": data.ours (set by unknown)",
        ),
        (deployment(1), deployment(3), "PUT", PATH, "spec.replicas (set by unknown)"),
        (deployment(3), deployment(3), "PUT", PATH, "nothing differs"),
        (deployment(1), [{"op": "remove", "path": "/x"}], "PATCH", PATH, "JSON patch"),
        (
            NotFoundError(Status(404, "NotFound")),
            deployment(3),
            "PUT",
            PATH,
            "404 NotFound",
        ),
    ],
    ids=["patch", "status", "data", "unknown", "stale cache", "json patch", "gone"],
)
def test_a_hot_loop_is_explained_as_far_as_the_server_knows(
    live: Any, body: Any, method: str, path: str, explanation: str
) -> None:
    error = run_virtual(World(live).loop(body, method, path))

    assert explanation in str(error)
    assert "theirs" not in str(error)


def test_a_field_manager_that_wrote_through_the_guard_is_not_reported_as_the_other_writer() -> None:
    writer = "widgets.example.org"
    world = World(managed(deployment(1), (US, {}), (writer, REPLICAS)))

    async def story() -> HotLoopError:
        await world.write(deployment(1), params={"fieldManager": writer})
        return await world.loop(deployment(3))

    error = run_virtual(story())

    assert f"set by {writer}" not in str(error)
    assert f"spec.replicas (set under {writer}" in str(error)


def test_the_first_of_many_fields_are_named_and_the_rest_counted() -> None:
    desired: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {f"k{n}": "1" for n in range(8)},
    }

    error = run_virtual(World({**desired, "data": dict.fromkeys(desired["data"], "2")}).loop(desired))

    assert str(error).endswith("data.k4 (set by unknown) and 3 more")


def test_the_tracked_writes_are_bounded() -> None:
    async def story() -> int:
        world = World(settings=HotLoopSettings(memory=100))
        for number in range(1000):
            await world.write(deployment(number))
        return len(world.guard._history)

    assert run_virtual(story()) == 100


def test_streams_and_options_are_passed_on() -> None:
    request = Request("GET", "/api/v1/pods")

    stream: Any = World().guard.stream(request, idle_timeout=1.0)

    assert stream == (request, 1.0)
