"""Which writes are held back, and what is said about it: in virtual time, on a server that takes everything."""

import asyncio
import logging
from typing import Any

import orjson
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.writing.hot_loops import FightSettings, HotLoopError, HotLoopGuard
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
    """A server that accepts every write, shows `live` to whoever reads, and is guarded."""

    live: dict[str, Any] | KubeError = field(factory=lambda: deployment(1))
    refusal: KubeError | None = None
    settings: FightSettings = field(factory=FightSettings)
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

    async def fight(self, body: Any, method: str = "PUT", path: str = PATH) -> HotLoopError:
        """The error after as many equal writes as are let through."""
        for _ in range(self.settings.writes):
            await self.write(body, method, path)
        with pytest.raises(HotLoopError) as caught:
            await self.write(body, method, path)
        return caught.value


def managed(raw: dict[str, Any], *entries: tuple[str, Any]) -> dict[str, Any]:
    fields = [{"manager": manager, "time": "2026-01-01T00:00:00Z", "fieldsV1": owned} for manager, owned in entries]
    return {**raw, "metadata": {**raw["metadata"], "managedFields": fields}}


REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}


def test_the_sixth_equal_write_is_held_and_names_the_field_and_the_other_manager(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(managed(deployment(1), (US, REPLICAS), (THEM, REPLICAS)))

    with caplog.at_level(logging.WARNING):
        error = run_virtual(world.fight(deployment(3)))

    assert str(error) == (
        f"PUT {PATH} was made 5 times within 60 s with the same content, held back for 30 s:"
        " changed back were spec.replicas (set by autoscaler)"
    )
    assert error.retry_after == 30
    assert world.asked == ["PUT"] * 5 + ["GET"]
    assert [record.getMessage() for record in caplog.records] == ["a write is undone again and again, held back"]


def test_while_a_write_is_held_the_server_is_left_alone_and_afterwards_it_passes() -> None:
    async def story() -> tuple[list[str], float]:
        world = World()
        first = await world.fight(deployment())
        await asyncio.sleep(10)
        with pytest.raises(HotLoopError) as caught:
            await world.write(deployment())
        assert str(caught.value) == str(first)
        await asyncio.sleep(caught.value.retry_after)
        await world.write(deployment())
        return world.asked, caught.value.retry_after

    assert run_virtual(story()) == (["PUT"] * 5 + ["GET", "PUT"], 20)


def test_writes_held_at_the_same_time_lead_to_one_read() -> None:
    async def story() -> list[str]:
        world = World()
        for _ in range(5):
            await world.write(deployment())
        outcomes = await asyncio.gather(*(world.write(deployment()) for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [HotLoopError] * 3
        return world.asked

    assert run_virtual(story()).count("GET") == 1


def test_what_differs_in_every_write_does_not_make_it_another_one() -> None:
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


def test_in_replacements_of_the_status_the_status_counts_and_nothing_else() -> None:
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
def test_of_any_writes_exactly_those_beyond_the_fifth_of_their_content_are_held(contents: list[int]) -> None:
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
def test_in_patches_everything_counts(path: str) -> None:
    async def story() -> None:
        world = World()
        for number in range(20):
            await world.write({"status": {"readyReplicas": number}}, "PATCH", path)
            await world.write({"metadata": {"annotations": {"number": str(number)}}}, "PATCH", path)

    run_virtual(story())


def test_writes_that_are_rare_enough_pass_for_ever() -> None:
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
def test_what_may_well_be_repeated_passes(method: str, body: Any, options: dict[str, Any]) -> None:
    async def story() -> int:
        world = World()
        for _ in range(20):
            await world.write(body, method, **options)
        await world.guard.send(Request("PUT", PATH, body=b"kind: Deployment"))
        await world.guard.send(Request("GET", PATH))
        return len(world.asked)

    assert run_virtual(story()) == 22


def test_an_object_of_ours_that_is_deleted_again_and_again_is_noticed() -> None:
    world = World()

    error = run_virtual(world.fight(deployment(), "POST", PATH.removesuffix("/web")))

    assert str(error).startswith("POST /apis/apps/v1/namespaces/a/deployments was made 5 times within 60 s")
    assert "GET" not in world.asked


def test_equal_writes_to_different_objects_are_no_fight() -> None:
    async def story() -> None:
        world = World()
        for number in range(50):
            await world.write(deployment(), path=f"{PATH}-{number}")

    run_virtual(story())


def test_a_write_that_is_refused_does_not_count() -> None:
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
            "changed back were spec.replicas (set by autoscaler)",
        ),
        (
            managed(deployment(3, readyReplicas=1), (THEM, {"f:status": {"f:readyReplicas": {}}})),
            deployment(3, readyReplicas=2),
            "PUT",
            f"{PATH}/status",
            "changed back were status.readyReplicas (set by autoscaler)",
        ),
        (
            {"metadata": {"name": "m"}, "data": {"ours": "2", "theirs": "3"}},
            {"data": {"ours": "1"}},
            "PATCH",
            "/api/v1/namespaces/a/configmaps/m",
            "held back for 30 s: changed back were data.ours (set by nobody known)",
        ),
        (deployment(1), deployment(3), "PUT", PATH, "changed back were spec.replicas (set by nobody known)"),
        (deployment(3), deployment(3), "PUT", PATH, "nothing differs on the server now, so the controller does not"),
        (deployment(1), [{"op": "remove", "path": "/x"}], "PATCH", PATH, "because it is a JSON patch"),
        (
            NotFoundError(Status(404, "NotFound")),
            deployment(3),
            "PUT",
            PATH,
            "because it cannot be read (404 NotFound)",
        ),
    ],
    ids=["patch", "status", "data", "nobody", "ourselves", "json patch", "gone"],
)
def test_a_fight_is_explained_as_far_as_the_server_knows(
    live: Any, body: Any, method: str, path: str, explanation: str
) -> None:
    error = run_virtual(World(live).fight(body, method, path))

    assert explanation in str(error)
    assert "theirs" not in str(error)


def test_of_many_fields_some_are_named_and_the_others_counted() -> None:
    desired: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {f"k{n}": "1" for n in range(8)},
    }

    error = run_virtual(World({**desired, "data": dict.fromkeys(desired["data"], "2")}).fight(desired))

    assert str(error).endswith("data.k4 (set by nobody known) and 3 more")


def test_only_so_many_writes_are_remembered() -> None:
    async def story() -> int:
        world = World(settings=FightSettings(memory=100))
        for number in range(1000):
            await world.write(deployment(number))
        return len(world.guard._history)

    assert run_virtual(story()) == 100


def test_streams_and_options_are_passed_on() -> None:
    request = Request("GET", "/api/v1/pods")

    stream: Any = World().guard.stream(request, idle_timeout=1.0)

    assert stream == (request, 1.0)
