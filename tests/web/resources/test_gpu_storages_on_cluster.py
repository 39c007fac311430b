"""Storages over HTTP, on a real control plane. No reconciler runs: the tests write what one would."""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorage, PrepareStatus
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import OPERATION_ID, RECOVERY_NONCE, RECOVERY_WIPE, STORAGE_FINALIZER
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.control import write_status
from gpuruntime.desired.storage.locks import Lock, lock_of
from gpuruntime.kube import ConflictError, MergePatch, NotFoundError
from gpuruntime.meta import ObjectMeta
from gpuruntime.service.storage.locks import acquire, release
from tests.service.service_scenes import ServiceWorld
from tests.web.resource_scenes import Answered, Api, serving_alone

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PREPARE = {"fromImage": "tool:1", "args": ["--token=hidden"]}


async def create(api: Api, name: str, **fields: Any) -> Answered:
    body = {"operationID": f"make-{name}", "name": name, "namespace": api.world.active, "size": "10Gi", **fields}
    return await api.call("POST", "/gpu-storages", {key: value for key, value in body.items() if value is not None})


def path(api: Api, name: str, action: str = "") -> str:
    return f"/gpu-storages/{name}{action}?namespace={api.world.active}"


async def stored(world: ServiceWorld, name: str = "data") -> GPUStorage:
    return await world.admin.get(GPUStorage, name, world.active)


async def with_status(world: ServiceWorld, **status: Any) -> None:
    """Write the status of storage "data", as the reconciler does."""
    found = await stored(world)
    await write_status(world.admin, found, evolve(found.status, **status))


async def test_a_storage_is_created_read_updated_and_deleted(world: ServiceWorld) -> None:
    fields = {"storageClassName": "fast", "prepare": PREPARE, "accessor": {"enabled": True}}
    async with serving_alone(world) as api:
        made = await create(api, "data", **fields)
        again = await create(api, "data", **fields)
        other = await create(api, "data", **fields, size="20Gi")
        taken = await create(api, "data", **fields, operationID="second")
        nameless = await create(api, "data", operationID=None)
        held = await world.admin.patch(
            GPUStorage, "data", world.active, MergePatch({"metadata": {"finalizers": [STORAGE_FINALIZER]}})
        )
        await with_status(
            world, phase="Ready", capacity="10Gi", claim_name="data", mounted_by=("b", "a"), observed_generation=1
        )
        read = await api.call(
            "GET", path(api, "data"), X_Resource_Version=(await stored(world)).metadata.resource_version
        )
        listed = await api.call("GET", f"/gpu-storages?namespace={world.active}&phase=Ready")
        grown = await api.call("PUT", path(api, "data"), {"operationID": "grow", "size": "20Gi"})
        regrown = await api.call("PUT", path(api, "data"), {"operationID": "grow", "size": "20Gi"})
        stale = await api.call("PUT", path(api, "data"), {"size": "30Gi"}, If_Match=read.headers["ETag"])
        gone = await api.call("DELETE", path(api, "data") + "&operationID=bye")
        replayed = await api.call("DELETE", path(api, "data") + "&operationID=bye")
        repeated = await api.call("DELETE", path(api, "data"))
        waiting = await api.call("GET", path(api, "data", "/wait") + "&for=Deleted&timeout=0")
        await world.admin.patch(GPUStorage, "data", world.active, MergePatch({"metadata": {"finalizers": None}}))
        awaited = await api.call("GET", path(api, "data", "/wait") + "&for=Deleted")
        late = await create(api, "data", **fields)

    assert (made.status, again.status, other.status, taken.status) == (201, 200, 409, 409)
    assert (nameless.status, made.data["phase"], made.data["operationID"]) == (400, "Pending", "make-data")
    assert (made.data["prepare"], made.data["accessor"], made.data["accessMode"]) == (
        PREPARE,
        {"enabled": True},
        "ReadWriteOnce",
    )
    assert held.metadata.annotations[OPERATION_ID] == "make-data"
    assert (read.data["capacity"], read.data["claimName"], read.data["mountedBy"]) == ("10Gi", "data", ["a", "b"])
    assert [item["name"] for item in listed.data] == ["data"]
    assert (grown.data["size"], grown.data["storageClassName"], regrown.status) == ("20Gi", "fast", 200)
    assert (stale.status, gone.status, replayed.status, repeated.status) == (412, 204, 204, 204)
    assert (waiting.status, waiting.data["deleting"]) == (202, True)
    assert (awaited.status, awaited.data["deleted"], late.data["deleted"]) == (200, True, True)


async def test_invalid_requests_name_the_field_the_value_and_what_was_expected(world: ServiceWorld) -> None:
    async with serving_alone(world) as api:
        await create(api, "data", storageClassName="fast")
        await with_status(world, capacity="10Gi")
        refused = {
            "dots": await create(api, "a.b"),
            "size": await create(api, "other", size="plenty"),
            "none": await create(api, "other", size=None),
            "source": await create(api, "other", prepare={"fromStorageName": "nowhere"}),
            "itself": await create(api, "other", prepare={"fromStorageName": "other"}),
            "both": await create(api, "other", prepare={**PREPARE, "fromStorageName": "data"}),
            "adopt": await create(api, "other", adoptClaimUID="0-0"),
            "shrink": await api.call("PUT", path(api, "data"), {"size": "5Gi"}),
            "class": await api.call("PUT", path(api, "data"), {"storageClassName": "slow"}),
            "recover": await api.call("POST", path(api, "data", "/recover"), {}),
        }
        missing = [
            await api.call("GET", path(api, "nowhere")),
            await api.call("PUT", path(api, "nowhere"), {"size": "1Gi"}),
            await api.call("DELETE", path(api, "nowhere")),
            await api.call("POST", path(api, "nowhere", "/recover"), {}),
        ]
        left = await world.operations()

    assert {name: answer.status for name, answer in refused.items()} == dict.fromkeys(refused, 400)
    assert refused["source"].paths == {"$.prepare.fromStorageName"}
    assert "expected a storage of namespace" in refused["source"].json["error"]["message"]
    assert "at least the capacity 10Gi" in refused["shrink"].json["error"]["message"]
    assert "expected fast, which never changes" in refused["class"].json["error"]["message"]
    assert {(answer.status, answer.code) for answer in missing} == {(404, "gpustorage_not_found")}
    assert [operation.spec.operation_id for operation in left] == ["make-data"]


async def test_a_storage_in_use_is_not_deleted_and_the_answer_names_the_holders(world: ServiceWorld) -> None:
    mounts = (StorageMount("data", "/data", read_only=True),)
    unit = GPUUnit(ObjectMeta(name="demo", namespace=world.active), GPUUnitSpec("g1.1", storage_mounts=mounts))
    async with serving_alone(world) as api:
        await create(api, "data", accessMode="ReadWriteMany")
        locked = await acquire(world.admin, await stored(world), Lock("gpuunits/other", "uid-1"), NOW)
        while_locked = await api.call("DELETE", path(api, "data") + "&operationID=bye")
        await release(world.admin, locked)
        await world.admin.create(unit)
        while_shared = await api.call("DELETE", path(api, "data") + "&operationID=bye")
        await world.admin.delete(GPUUnit, "demo", world.active)
        gone = await api.call("DELETE", path(api, "data") + "&operationID=bye")

    assert (while_locked.status, while_locked.code) == (409, "storage_in_use")
    assert "gpuunits/other" in while_locked.json["error"]["message"]
    assert (while_shared.status, while_shared.code) == (409, "storage_in_use")
    assert "mounted by units demo" in while_shared.json["error"]["message"]
    # A refused deletion leaves its operationID free.
    assert gone.status == 204


async def test_of_a_mount_and_a_deletion_the_first_wins(world: ServiceWorld) -> None:
    async def mount(read: GPUStorage) -> bool:
        with contextlib.suppress(NotFoundError, ConflictError):
            await acquire(world.admin, read, Lock("gpuunits/demo", "uid-1"), NOW)
            return True
        return False

    async with serving_alone(world) as api:
        for number in range(6):
            name = f"data-{number}"
            await create(api, name)
            read = await world.admin.patch(
                GPUStorage, name, world.active, MergePatch({"metadata": {"finalizers": [STORAGE_FINALIZER]}})
            )
            mounted, deleted = await asyncio.gather(mount(read), api.call("DELETE", path(api, name)))
            left = await stored(world, name)

            assert mounted is (lock_of(left.metadata) is not None)
            assert mounted is (left.metadata.deletion_timestamp is None)
            assert deleted.status == (409 if mounted else 204)
            await world.admin.patch(GPUStorage, name, world.active, MergePatch({"metadata": {"finalizers": None}}))


async def test_a_failed_preparation_is_repeated_once_for_each_operation_id(world: ServiceWorld) -> None:
    async with serving_alone(world) as api:
        await create(api, "data", prepare=PREPARE)
        early = await api.call("POST", path(api, "data", "/recover"), {"operationID": "again"})
        await with_status(world, prepare=PrepareStatus(phase="Failed", attempts=1))
        locked = await acquire(world.admin, await stored(world), Lock("gpuunits/demo", "uid-1"), NOW)
        attached = await api.call("POST", path(api, "data", "/recover"), {"operationID": "again"})
        await release(world.admin, locked)
        asked = await api.call("POST", path(api, "data", "/recover"), {"operationID": "again", "wipe": False})
        first = await stored(world)
        beside = await api.call("POST", path(api, "data", "/recover"), {"operationID": "beside"})
        await with_status(world, prepare=PrepareStatus(phase="Running", attempts=2, recovery_nonce="again"))
        again = await api.call("POST", path(api, "data", "/recover"), {"operationID": "again", "wipe": False})
        running = await api.call("POST", path(api, "data", "/recover"), {"operationID": "third"})
        await with_status(world, prepare=PrepareStatus(phase="Failed", attempts=2, recovery_nonce="again"))
        replay = await api.call("POST", path(api, "data", "/recover"), {"operationID": "again", "wipe": False})
        kept = await stored(world)
        third = await api.call("POST", path(api, "data", "/recover"), {"operationID": "third"})
        last = await stored(world)

    assert (early.status, early.code, running.status, running.code) == (409, "not_recoverable", 409, "not_recoverable")
    assert (beside.status, beside.code) == (409, "not_recoverable")
    assert "recovery again was requested and has not begun" in beside.json["error"]["message"]
    assert "found Running" in running.json["error"]["message"]
    assert (attached.status, attached.code) == (409, "storage_in_use")
    assert (asked.status, asked.data["prepareStatus"]["phase"]) == (200, "Failed")
    assert (first.metadata.annotations[RECOVERY_NONCE], first.metadata.annotations[RECOVERY_WIPE]) == ("again", "false")
    assert (again.status, replay.status, third.status) == (200, 200, 200)
    assert kept.metadata.annotations[RECOVERY_NONCE] == "again"
    assert last.metadata.annotations[RECOVERY_NONCE] == "third"
    assert RECOVERY_WIPE not in last.metadata.annotations
