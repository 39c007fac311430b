"""Waiting for states of an object, on a real API server and, for time itself, on an informer that hears nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import frozen

from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import compact
from gpuruntime.control.informers.store import QuarantinedError
from gpuruntime.control.informers.waiting import WaitCondition, WaitTimeoutError, condition_true, deleted, wait_for
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.kube.forms import dynamic
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta.codec import decode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.frozen_mapping import freeze
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.objects import TypedObject
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.virtual_time import run_virtual

PATIENCE = 60.0


@frozen
class StrictConfigMap(TypedObject):
    """A type that cannot read most config maps."""

    KIND = ConfigMap.KIND

    immutable: bool


@pytest.fixture
async def cache(kube_cluster: ClusterAccess) -> AsyncIterator[Cache]:
    """Informers that run while the test does."""
    async with Transport(from_kubeconfig(kube_cluster.kubeconfig), user_agent="tests") as transport:
        cache = Cache(transport)
        task = asyncio.create_task(cache.run())
        yield cache
        task.cancel()
        await asyncio.wait([task])


def claim(generation: int = 1, **condition: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", **condition}] if condition else []
    return {"metadata": {"uid": "u1", "generation": generation}, "status": {"conditions": conditions}}


def config(name: str, value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def says(value: str) -> WaitCondition[ConfigMap]:
    return WaitCondition(f"it says {value}", lambda obj: obj is not None and obj.data.get("value") == value)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (claim(status="True"), True),
        (claim(status="False"), False),
        (claim(status="Unknown"), False),
        (claim(), False),
        (claim(generation=2, status="True", observedGeneration=2), True),
        (claim(generation=2, status="True", observedGeneration=1), False),
    ],
)
def test_a_condition_holds_when_it_is_true_of_this_generation(body: dict[str, Any], expected: bool) -> None:
    typed_claim = decode(PersistentVolumeClaim, body)
    dynamic_claim = DynamicObject.decode(PersistentVolumeClaim.KIND, body)

    assert condition_true("Ready").holds(typed_claim) is expected
    assert condition_true("Ready").holds(dynamic_claim) is expected
    assert condition_true("Ready").holds(None) is False
    assert condition_true("Ready").holds(decode(ConfigMap, {"metadata": {}})) is False


def test_a_dynamic_object_of_any_shape_has_no_condition() -> None:
    statuses: list[Any] = [None, [], "x", {}, {"conditions": None}, {"conditions": ["x", {}, {"type": "Ready"}]}]

    for status in statuses:
        body = freeze({"metadata": {}, "status": status})
        assert condition_true("Ready").holds(DynamicObject(PersistentVolumeClaim.KIND, body)) is False


def test_deleted_is_about_one_object_and_not_about_its_namesake() -> None:
    obj = decode(PersistentVolumeClaim, claim())

    assert deleted("u1").holds(None)
    assert deleted("u0").holds(obj)
    assert not deleted("u1").holds(obj)


def test_predicates_combine_and_say_so() -> None:
    ready, gone = condition_true("Ready"), deleted("u1")
    obj = decode(PersistentVolumeClaim, claim(status="True"))

    combined = ready.and_(gone.not_()).or_(gone)

    assert str(combined) == (
        "((condition Ready is True and not the object with uid u1 is gone) or the object with uid u1 is gone)"
    )
    assert combined.holds(obj)
    assert combined.holds(None)
    assert not ready.and_(gone).holds(obj)


async def test_a_state_that_is_there_already_is_not_waited_for(
    cache: Cache, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    kube_cluster.admin().create(f"/api/v1/namespaces/{kube_namespace}/configmaps", config("x", "1"))
    informer = cache.informer(ConfigMap, namespaces=[kube_namespace])

    found = await wait_for(informer, ObjectKey(kube_namespace, "x"), says("1"), within=PATIENCE)
    absent = await wait_for(informer, ObjectKey(kube_namespace, "y"), deleted("u"), within=PATIENCE)

    assert found is not None
    assert absent is None


async def test_a_plain_function_is_asked_about_objects_and_not_about_their_absence(
    cache: Cache, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    informer = cache.informer(ConfigMap, namespaces=[kube_namespace])
    key = ObjectKey(kube_namespace, "x")

    with pytest.raises(WaitTimeoutError, match=r"expected within 0.01 s that .*<lambda> holds"):
        await wait_for(informer, key, lambda obj: obj.data.get("value"), within=0.01)
    kube_cluster.admin().create(f"/api/v1/namespaces/{kube_namespace}/configmaps", config("x", "1"))
    found = await wait_for(informer, key, lambda obj: obj.data.get("value"), within=PATIENCE)

    assert found is not None
    assert found.data == {"value": "1"}


@pytest.mark.parametrize("form", [ConfigMap, compact(ConfigMap)], ids=["eager", "compact"])
async def test_a_state_that_comes_later_is_given_and_the_informer_is_left_as_it_was(
    form: Any, cache: Cache, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    admin, path = kube_cluster.admin(), f"/api/v1/namespaces/{kube_namespace}/configmaps"
    informer: Informer[ConfigMap] = cache.informer(form, namespaces=[kube_namespace])
    await informer.synced()

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for(informer, ObjectKey(kube_namespace, "x"), says("2"), within=PATIENCE))
        admin.create(path, config("y", "2"))
        admin.create(path, config("x", "1"))
        admin.merge(f"{path}/x", {"data": {"value": "2"}})
        admin.merge(f"{path}/x", {"data": {"value": "3"}})

    found = waiting.result()
    assert found is not None
    assert (found.metadata.name, found.data["value"]) == ("x", "2")
    assert informer.handler_failures == 0
    assert informer._dispatcher._subscriptions == {}


async def test_a_deletion_is_seen_also_when_the_name_is_taken_again_at_once(
    cache: Cache, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    admin, path = kube_cluster.admin(), f"/api/v1/namespaces/{kube_namespace}/configmaps"
    uid = admin.create(path, config("x", "1"))["metadata"]["uid"]
    informer = cache.informer(dynamic(ConfigMap.KIND), namespaces=[kube_namespace])
    await informer.synced()

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for(informer, ObjectKey(kube_namespace, "x"), deleted(uid), within=PATIENCE))
        admin.delete(f"{path}/x")
        admin.create(path, config("x", "2"))

    assert waiting.result() is None


async def test_a_predicate_that_fails_fails_the_wait_and_not_the_informer(
    cache: Cache, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    informer = cache.informer(ConfigMap, namespaces=[kube_namespace])
    await informer.synced()
    broken: WaitCondition[ConfigMap] = WaitCondition(
        "it is broken", lambda obj: obj is not None and bool(obj.data["nothing"])
    )

    waiting = asyncio.create_task(wait_for(informer, ObjectKey(kube_namespace, "x"), broken, within=PATIENCE))
    kube_cluster.admin().create(f"/api/v1/namespaces/{kube_namespace}/configmaps", config("x", "1"))
    with pytest.raises(KeyError, match="nothing"):
        await waiting

    assert informer.handler_failures == 0


async def test_an_object_that_cannot_be_read_is_not_taken_for_a_deleted_one(
    cache: Cache, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    admin, path = kube_cluster.admin(), f"/api/v1/namespaces/{kube_namespace}/configmaps"
    readable = admin.create(path, {**config("x", "1"), "immutable": False})
    informer = cache.informer(StrictConfigMap, namespaces=[kube_namespace])
    await informer.synced()
    gone = deleted(readable["metadata"]["uid"])

    # A state that cannot be read is not dispatched: the wait finds it when its time is over.
    waiting = asyncio.create_task(wait_for(informer, ObjectKey(kube_namespace, "x"), gone, within=5))
    admin.merge(f"{path}/x", {"immutable": None})
    with pytest.raises(QuarantinedError):
        await waiting
    with pytest.raises(QuarantinedError):
        await wait_for(informer, ObjectKey(kube_namespace, "x"), gone, within=PATIENCE)

    assert ObjectKey(kube_namespace, "x") in informer.store


async def test_a_wait_that_is_too_long_says_what_was_last_seen(
    cache: Cache, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    made = kube_cluster.admin().create(f"/api/v1/namespaces/{kube_namespace}/configmaps", config("x", "1"))
    informer = cache.informer(ConfigMap, namespaces=[kube_namespace])
    await informer.synced()

    with pytest.raises(WaitTimeoutError) as present:
        await wait_for(informer, ObjectKey(kube_namespace, "x"), condition_true("Ready"), within=0)
    with pytest.raises(WaitTimeoutError) as absent:
        await wait_for(informer, ObjectKey(kube_namespace, "y"), condition_true("Ready"), within=0)

    about = f"ConfigMap {kube_namespace}/x: expected within 0 s that condition Ready is True; last seen: uid "
    assert str(present.value) == (
        f"{about}{made['metadata']['uid']} at version {made['metadata']['resourceVersion']}, no conditions"
    )
    assert str(absent.value).endswith("last seen: no such object")
    assert informer._dispatcher._subscriptions == {}


def test_a_store_that_is_not_filled_yet_is_no_proof_of_absence() -> None:
    async def story() -> float:
        informer = Cache(None).informer(ConfigMap)  # type: ignore[arg-type]  # it never runs, so it needs no wire
        with pytest.raises(WaitTimeoutError, match="the informer has not synced yet"):
            await wait_for(informer, ObjectKey("a", "x"), deleted("u"), within=30)
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 30


def test_a_wait_listens_to_its_object_only() -> None:
    async def story() -> list[ObjectKey | None]:
        informer = Cache(None).informer(ConfigMap)  # type: ignore[arg-type]  # it never runs, so it needs no wire
        waiting = asyncio.create_task(wait_for(informer, ObjectKey("a", "x"), deleted("u"), within=30))
        await asyncio.sleep(1)
        listened_to = list(informer._dispatcher._subscriptions)
        waiting.cancel()
        await asyncio.wait([waiting])
        return listened_to

    assert run_virtual(story()) == [ObjectKey("a", "x")]
