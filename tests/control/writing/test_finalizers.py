"""Finalizers on a real API server, with concurrent edits of the list."""

from collections.abc import AsyncIterator

import pytest
from attrs import evolve

from gpuruntime.control.writing.finalizers import add_finalizer, remove_finalizer, with_finalizer
from gpuruntime.control.writing.write_errors import BeingDeletedError
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, InvalidError, NotFoundError
from gpuruntime.kube.forms import metadata_only
from gpuruntime.testing import AuditLog, ClusterAccess
from tests.control.writing_scenes import make_owner, open_client, our_writes

OURS = "ours.example.org/cleanup"
THEIRS = "theirs.example.org/cleanup"


@pytest.fixture
async def client(kube_cluster: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(kube_cluster) as opened:
        yield opened


@pytest.fixture
async def obj(client: Client, kube_namespace: str) -> AsyncIterator[ConfigMap]:
    made = await make_owner(client, kube_namespace, "obj")
    yield made
    try:
        left = await client.get(ConfigMap, "obj", kube_namespace)
        await client.update(evolve(left, metadata=evolve(left.metadata, finalizers=())))
    except NotFoundError:
        pass


async def test_adding_and_removing_keep_the_finalizers_of_others(client: Client, obj: ConfigMap) -> None:
    first = await add_finalizer(client, obj, THEIRS)
    both = await add_finalizer(client, first, OURS)
    left = await remove_finalizer(client, both, THEIRS)
    none = await remove_finalizer(client, left or both, OURS)

    assert (first.metadata.finalizers, both.metadata.finalizers) == ((THEIRS,), (THEIRS, OURS))
    assert left is not None
    assert left.metadata.finalizers == (OURS,)
    assert none is not None
    assert none.metadata.finalizers == ()


async def test_a_change_that_is_already_done_is_not_written(
    client: Client, obj: ConfigMap, kube_namespace: str, kube_audit: AuditLog
) -> None:
    held = await add_finalizer(client, obj, OURS)

    with kube_audit.recording() as seen:
        again = await add_finalizer(client, held, OURS)
        without = await remove_finalizer(client, held, THEIRS)

    assert again is held
    assert without is held
    assert our_writes(seen, kube_namespace) == []


async def test_a_concurrent_change_of_the_list_is_a_conflict_and_is_kept(
    client: Client, obj: ConfigMap, kube_namespace: str
) -> None:
    theirs = await add_finalizer(client, obj, THEIRS)

    with pytest.raises(ConflictError, match=r"finalizers of ConfigMap .*/obj"):
        await add_finalizer(client, obj, OURS)
    both = await add_finalizer(client, theirs, OURS)
    await remove_finalizer(client, both, THEIRS)
    with pytest.raises(ConflictError):
        await remove_finalizer(client, both, OURS)
    with pytest.raises(ConflictError):
        await add_finalizer(client, both, "third.example.org/x")

    assert (await client.get(ConfigMap, "obj", kube_namespace)).metadata.finalizers == (OURS,)


async def test_a_change_elsewhere_in_the_object_is_no_conflict(client: Client, obj: ConfigMap) -> None:
    await client.update(evolve(obj, immutable=True))

    held = await add_finalizer(client, obj, OURS)

    assert (held.immutable, held.metadata.finalizers) == (True, (OURS,))


async def test_a_recreated_object_is_a_conflict(client: Client, obj: ConfigMap) -> None:
    namesake = evolve(obj, metadata=evolve(obj.metadata, uid="another"))

    with pytest.raises(ConflictError):
        await add_finalizer(client, namesake, OURS)


async def test_an_invalid_name_is_invalid_and_no_conflict(client: Client, obj: ConfigMap) -> None:
    with pytest.raises(InvalidError, match=r"not a test!"):
        await add_finalizer(client, obj, "not a test!")


async def test_a_metadata_only_object_is_enough(client: Client, obj: ConfigMap) -> None:
    partial = await client.get(metadata_only(ConfigMap.KIND), obj.key.name, obj.key.namespace)

    held = await add_finalizer(client, partial, OURS)

    assert held.metadata.finalizers == (OURS,)


async def test_an_object_that_is_being_deleted_accepts_no_finalizer_and_is_gone_with_its_last_one(
    client: Client, obj: ConfigMap, kube_namespace: str
) -> None:
    await add_finalizer(client, obj, OURS)
    await client.delete(ConfigMap, "obj", kube_namespace)
    going = await client.get(ConfigMap, "obj", kube_namespace)

    with pytest.raises(BeingDeletedError):
        await add_finalizer(client, going, THEIRS)
    await remove_finalizer(client, going, OURS)
    again = await remove_finalizer(client, going, OURS)

    assert again is None
    with pytest.raises(NotFoundError):
        await client.get(ConfigMap, "obj", kube_namespace)


async def test_apply_runs_with_the_finalizer_and_the_object_is_deleted_only_after_a_successful_cleanup(
    client: Client, obj: ConfigMap, kube_namespace: str
) -> None:
    story: list[str] = []

    async def apply(seen: ConfigMap) -> str:
        stored = await client.get(ConfigMap, "obj", kube_namespace)
        story.append(f"apply {seen.metadata.finalizers == stored.metadata.finalizers == (OURS,)}")
        return "applied"

    async def fail(_: ConfigMap) -> None:
        story.append("cleanup fails")
        raise RuntimeError("not yet")

    async def clean(_: ConfigMap) -> None:
        stored = await client.get(ConfigMap, "obj", kube_namespace)
        story.append(f"cleanup {OURS in stored.metadata.finalizers}")

    result = await with_finalizer(client, obj, OURS, apply=apply, cleanup=clean)
    await client.delete(ConfigMap, "obj", kube_namespace)
    going = await client.get(ConfigMap, "obj", kube_namespace)
    with pytest.raises(RuntimeError):
        await with_finalizer(client, going, OURS, apply=apply, cleanup=fail)
    story.append(f"still there {OURS in (await client.get(ConfigMap, 'obj', kube_namespace)).metadata.finalizers}")
    last = await with_finalizer(client, going, OURS, apply=apply, cleanup=clean)

    assert (result, last) == ("applied", None)
    assert story == ["apply True", "cleanup fails", "still there True", "cleanup True"]
    with pytest.raises(NotFoundError):
        await client.get(ConfigMap, "obj", kube_namespace)


async def test_an_object_that_is_being_deleted_without_our_finalizer_is_ignored(
    client: Client, obj: ConfigMap, kube_namespace: str
) -> None:
    await add_finalizer(client, obj, THEIRS)
    await client.delete(ConfigMap, "obj", kube_namespace)
    going = await client.get(ConfigMap, "obj", kube_namespace)
    called: list[ConfigMap] = []

    async def record(seen: ConfigMap) -> None:
        called.append(seen)

    await with_finalizer(client, going, OURS, apply=record, cleanup=record)

    assert called == []
    assert await client.get(ConfigMap, "obj", kube_namespace) == going
