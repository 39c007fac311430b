"""Fake volumes beside Kubernetes' own controllers: they are bound, grow, are refused and lost, and nothing stays."""

from pathlib import Path
from typing import Any

import pytest

from gpuruntime.control import deleted, wait_for
from gpuruntime.meta import find_condition
from gpuruntime.testing import AdminClient, AuditLog, ClusterAccess, RefusedError
from gpuruntime.testing.permissions import usage
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes
from tests.testing.volumes.claims import Claims, eventually

WITHIN = 60.0


@pytest.fixture
def claims(kube_cluster: ClusterAccess, kube_volumes: FakeVolumes, kube_namespace: str) -> Claims:
    return Claims(kube_cluster.admin(), kube_volumes, kube_namespace)


async def event(claims: Claims, reason: str) -> dict[str, Any]:
    """The event of this reason about the claim `data`; the timeout of the test is the limit."""
    path = f"/api/v1/namespaces/{claims.namespace}/events?fieldSelector=involvedObject.name=data,reason={reason}"
    await eventually(lambda: bool(claims.admin.get(path)["items"]))
    return dict(claims.admin.get(path)["items"][0])


async def test_a_claim_is_bound_to_a_volume_of_its_own_which_is_deleted_with_it(claims: Claims) -> None:
    async with claims.volumes.running():
        key = claims.create(size="3Gi", accessModes=["ReadWriteMany"])
        bound = await claims.volumes.bound(key)
        volume = claims.volume(bound)

        claims.delete()
        await wait_for(claims.volumes.claims, key, deleted(bound.metadata.uid), within=WITHIN)
        await eventually(lambda: not volumes_of(claims.admin, claims.volumes))

    assert bound.status.capacity == {"storage": "3Gi"}
    assert bound.status.access_modes == ("ReadWriteMany",)
    assert volume["spec"]["claimRef"]["uid"] == bound.metadata.uid


async def test_a_late_claim_is_bound_when_a_pod_uses_it(claims: Claims) -> None:
    async with claims.volumes.running():
        key = claims.create(of=claims.volumes.classes.late)
        await event(claims, "WaitForFirstConsumer")
        waiting = claims.phase()

        claims.run_pod("user")
        bound = await claims.volumes.bound(key)

    assert waiting == "Pending"
    assert bound.metadata.annotations["volume.kubernetes.io/selected-node"]


async def test_a_claim_grows_if_its_class_allows_it(claims: Claims) -> None:
    classes = claims.volumes.classes
    async with claims.volumes.running():
        for name, of in (("data", classes.immediate), ("fixed", classes.fixed)):
            await claims.volumes.bound(claims.create(name, of=of))

        claims.ask_for("5Gi")
        with pytest.raises(RefusedError, match="only dynamically provisioned pvc can be resized"):
            claims.ask_for("5Gi", "fixed")
        grown = await claims.grown("5Gi")

    assert claims.volume(grown)["spec"]["capacity"] == {"storage": "5Gi"}
    assert grown.status.conditions == ()
    assert grown.status.allocated_resource_statuses == {}


async def test_a_clone_is_bound_when_its_source_is_and_other_classes_refuse_one(claims: Claims) -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "source"}
    async with claims.volumes.running():
        claims.create("clone", of=claims.volumes.classes.clone, dataSource=source)
        claims.create("data", dataSource=source)

        original = await claims.volumes.bound(claims.create("source"))
        clone = await claims.volumes.bound(claims.key("clone"))
        refusal = await event(claims, "ProvisioningFailed")

    cloned_from = claims.volume(clone)["metadata"]["annotations"]["testing.gpuruntime.local/cloned-from"]
    assert cloned_from == original.spec.volume_name
    assert "cannot clone PersistentVolumeClaim source" in refusal["message"]


async def test_a_held_claim_stays_pending_until_it_is_released_and_others_are_bound(claims: Claims) -> None:
    async with claims.volumes.running():
        claims.volumes.hold(claims.key())
        claims.create()
        await claims.volumes.bound(claims.create("other"))
        await event(claims, "ExternalProvisioning")
        held = claims.phase()

        claims.volumes.release(claims.key())
        await claims.volumes.bound(claims.key())

    assert held == "Pending"


async def test_a_failing_class_says_why_and_then_succeeds(claims: Claims) -> None:
    claims.volumes.fail(claims.volumes.classes.immediate, "the pool is full", times=3)
    async with claims.volumes.running():
        claims.create()

        bound = await claims.volumes.bound(claims.key())
        failed = await event(claims, "ProvisioningFailed")

    assert bound.spec.volume_name
    assert failed["type"] == "Warning"
    assert "the pool is full" in failed["message"]


async def test_a_class_fails_until_it_is_released(claims: Claims) -> None:
    claims.volumes.fail(claims.volumes.classes.immediate, times=None)
    async with claims.volumes.running():
        claims.create()
        await event(claims, "ProvisioningFailed")
        failing = claims.phase()

        claims.volumes.release(claims.volumes.classes.immediate)
        await claims.volumes.bound(claims.key())

    assert failing == "Pending"


async def test_a_lost_volume_makes_its_claim_lost_for_ever(claims: Claims) -> None:
    async with claims.volumes.running():
        bound = await claims.volumes.bound(claims.create())

        await claims.volumes.lose(claims.key())
        other = await claims.volumes.bound(claims.create("other"))

    assert claims.phase() == "Lost"
    assert bound.spec.volume_name != other.spec.volume_name
    assert names(volumes_of(claims.admin, claims.volumes)) == [other.spec.volume_name]


async def test_a_stalled_resize_goes_on_when_it_is_released(claims: Claims) -> None:
    async with claims.volumes.running():
        await claims.volumes.bound(claims.create())
        claims.volumes.stall_resize(claims.key())

        claims.ask_for("2Gi")
        stalled = await claims.marked("Resizing")
        claims.volumes.release(claims.key())
        grown = await claims.grown("2Gi")

    assert stalled.status.capacity == {"storage": "1Gi"}
    assert stalled.status.allocated_resource_statuses == {"storage": "ControllerResizeInProgress"}
    assert grown.status.conditions == ()


async def test_a_refused_resize_says_why_and_a_smaller_one_succeeds(claims: Claims) -> None:
    async with claims.volumes.running():
        await claims.volumes.bound(claims.create())
        claims.volumes.refuse_resize(claims.key(), "9Gi is too much", above="5Gi")

        claims.ask_for("9Gi")
        refused = await claims.marked("ControllerResizeError")
        said = await event(claims, "VolumeResizeFailed")
        claims.ask_for("2Gi")
        grown = await claims.grown("2Gi")

    condition = find_condition(refused.status.conditions, "ControllerResizeError")
    assert condition is not None
    assert condition.message == said["message"] == "9Gi is too much"
    assert refused.status.allocated_resource_statuses == {"storage": "ControllerResizeInfeasible"}
    assert grown.status.conditions == ()


async def test_a_resize_that_needs_a_restart_ends_with_the_next_pod(claims: Claims) -> None:
    async with claims.volumes.running():
        claims.create()
        claims.run_pod("first")
        await claims.volumes.bound(claims.key())
        path = f"/api/v1/namespaces/{claims.namespace}/pods/first"
        await eventually(lambda: claims.admin.get(path)["status"]["phase"] == "Running")
        claims.volumes.need_restart(claims.volumes.classes.immediate)

        claims.ask_for("2Gi")
        pending = await claims.marked("FileSystemResizePending")
        claims.run_pod("second")
        grown = await claims.grown("2Gi")

    assert pending.status.capacity == {"storage": "1Gi"}
    assert pending.status.allocated_resource_statuses == {"storage": "NodeResizePending"}
    assert grown.status.conditions == ()


async def test_claims_are_bound_and_reclaimed_by_the_next_run_and_the_permissions_are_exact(
    claims: Claims, kube_audit: AuditLog
) -> None:
    with kube_audit.recording() as seen:
        async with claims.volumes.running():
            claims.volumes.fail(claims.key())
            await claims.volumes.bound(claims.create())
            first = claims.volumes.permissions
        claims.ask_for("2Gi")
        claims.create("gone")

        async with claims.volumes.running():
            await claims.grown("2Gi")
            await claims.volumes.bound(claims.key("gone"))
            claims.delete("gone")
            await eventually(lambda: len(volumes_of(claims.admin, claims.volumes)) == 1)

    users = {one.user for one in seen.requests if one.user.startswith(f"system:serviceaccount:{claims.namespace}:")}
    assert len(users) == 2
    requests = [one for one in seen.requests if one.user in users]
    found = [usage(first, requests, user=user) for user in users]
    assert not [one.missing for one in found if one.missing]
    assert not set(found[0].unused) & set(found[1].unused)


async def test_two_run_side_by_side_and_nothing_stays(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    admin = kube_cluster.admin()
    pair = [FakeVolumes(kube_cluster, kube_namespace, tmp_path, name=f"{kube_namespace}-{one}") for one in "ab"]
    with pair[0].installed(), pair[1].installed():
        async with pair[0].running(), pair[1].running():
            first, second = (Claims(admin, volumes, kube_namespace) for volumes in pair)
            pair[0].hold(pair[0].classes.immediate)
            first.create("held")
            await pair[1].bound(second.create("free"))

            assert first.phase("held") == "Pending"
            pair[0].release(pair[0].classes.immediate)
            await pair[0].bound(first.key("held"))

    assert [names(volumes_of(admin, volumes)) for volumes in pair] == [[], []]
    left = admin.get("/apis/storage.k8s.io/v1/storageclasses")["items"]
    assert [name for name in names(left) if name.startswith(kube_namespace)] == []


async def test_what_needs_running_volumes_says_so(claims: Claims) -> None:
    with pytest.raises(RuntimeError, match=r"async with volumes.running\(\)"):
        await claims.volumes.lose(claims.key())

    async with claims.volumes.running():
        with pytest.raises(RuntimeError, match="run already"):
            async with claims.volumes.running():
                pass


def volumes_of(admin: AdminClient, volumes: FakeVolumes) -> list[dict[str, Any]]:
    """The PersistentVolumes of the classes of fake volumes."""
    found = admin.get("/api/v1/persistentvolumes")["items"]
    return [one for one in found if one["spec"].get("storageClassName", "").startswith(volumes.classes.immediate)]


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]
