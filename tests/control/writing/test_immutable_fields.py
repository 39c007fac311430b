"""The known immutable fields are those of a real API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuruntime.control.writing.immutable_fields import immutable_among, immutable_causes
from gpuruntime.control.writing.write_errors import ImmutableDifferenceError
from gpuruntime.control.writing.writer import Writer
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.core import ConfigMap, ResourceQuota
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import Cause, ConflictError, InvalidError, Status
from gpuruntime.kube.forms import form_of
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.objects import TypedObject
from gpuruntime.testing import AuditLog, ClusterAccess
from tests.control.rich_children import child, priority_class
from tests.control.writing_scenes import MANAGER, ensure_as_a_controller_does, make_owner, open_client, our_writes


@pytest.fixture
async def client(kube_cluster: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(kube_cluster) as opened:
        yield opened


CHANGES: list[tuple[str, tuple[str | int, ...], Any, str]] = [
    ("deployment", ("spec", "selector", "matchLabels", "app"), "other", "spec.selector.matchLabels.app"),
    ("service", ("spec", "clusterIP"), "None", "spec.clusterIP"),
    ("service-headless", ("spec", "clusterIP"), "10.96.0.77", "spec.clusterIP"),
    ("claim", ("spec", "accessModes"), ["ReadWriteMany"], "spec.accessModes[0]"),
    ("claim", ("spec", "storageClassName"), "fast", "spec.storageClassName"),
    (
        "job",
        ("spec", "template", "spec", "containers", 0, "image"),
        "web:2",
        "spec.template.spec.containers[name=web].image",
    ),
    ("job", ("spec", "completionMode"), "Indexed", "spec.completionMode"),
    ("role-binding", ("roleRef", "name"), "admin", "roleRef.name"),
    ("secret", ("type",), "kubernetes.io/tls", "type"),
    ("pod", ("spec", "containers", 0, "args"), ["--other"], "spec.containers[name=web].args"),
]


@pytest.mark.parametrize(("name", "place", "value", "path"), CHANGES)
async def test_a_difference_in_an_immutable_field_is_reported_without_a_write(
    name: str,
    place: tuple[str | int, ...],
    value: Any,
    path: str,
    client: Client,
    kube_namespace: str,
    kube_audit: AuditLog,
) -> None:
    writer, owner = Writer(client, field_manager=MANAGER), await make_owner(client, kube_namespace)
    desired = child(name, kube_namespace)
    live = (await writer.ensure(desired, owner, live=None)).object

    with kube_audit.recording() as seen, pytest.raises(ImmutableDifferenceError) as caught:
        await writer.ensure(changed(desired, place, value), owner, live=live)

    assert path in caught.value.paths
    assert path in str(caught.value)
    assert our_writes(seen, kube_namespace) == []


@pytest.mark.parametrize(("name", "place", "value", "path"), CHANGES)
async def test_the_server_refuses_changes_of_immutable_fields(
    name: str, place: tuple[str | int, ...], value: Any, path: str, client: Client, kube_namespace: str
) -> None:
    created = await client.create(child(name, kube_namespace))

    with pytest.raises(InvalidError) as caught:
        await dry_run_change(client, created, place, value)

    fields = [cause.field.partition("[")[0] for cause in caught.value.causes]
    assert any(path.startswith(field) or field.startswith(path) for field in fields)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("job", ("spec", "parallelism"), 2),
        ("job", ("spec", "suspend"), True),
        ("suspended", ("spec", "template", "spec", "nodeSelector"), {"zone": "b"}),
        ("job", ("spec", "backoffLimit"), 2),
        ("job", ("spec", "ttlSecondsAfterFinished"), 60),
        ("job", ("spec", "activeDeadlineSeconds"), 60),
        ("pod", ("spec", "containers", 0, "image"), "web:2"),
        ("pod", ("spec", "activeDeadlineSeconds"), 60),
        (
            "pod",
            ("spec", "tolerations"),
            [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "new", "operator": "Exists"}],
        ),
        ("service", ("spec", "type"), "NodePort"),
        ("service-with-node-ports", ("spec", "type"), "ClusterIP"),
        ("deployment", ("spec", "template", "metadata", "labels", "new"), "x"),
    ],
)
async def test_a_mutable_field_is_written_once(
    name: str, place: tuple[str | int, ...], value: Any, client: Client, kube_namespace: str
) -> None:
    writer, owner = Writer(client, field_manager=MANAGER), await make_owner(client, kube_namespace)
    desired = mutable_child(name, kube_namespace)
    await writer.ensure(desired, owner, live=None)

    first = await ensure_as_a_controller_does(client, changed(desired, place, value), owner)
    second = await ensure_as_a_controller_does(client, changed(desired, place, value), owner)

    assert (first.result, second.result) == ("updated", "unchanged")


async def test_the_data_of_an_immutable_config_map_is_immutable(client: Client, kube_namespace: str) -> None:
    writer, desired = (
        Writer(client, field_manager=MANAGER),
        changed(child("config-map", kube_namespace), ("immutable",), True),
    )
    live = (await writer.ensure(desired, None, live=None)).object

    with pytest.raises(ImmutableDifferenceError) as caught:
        await writer.ensure(changed(desired, ("data", "a"), "2"), None, live=live)

    assert caught.value.paths == ("data.a",)


async def test_an_unknown_immutable_field_is_reported_from_the_response(client: Client, kube_namespace: str) -> None:
    writer, metadata = Writer(client, field_manager=MANAGER), {"name": "quota", "namespace": kube_namespace}
    desired = decode(ResourceQuota, {"metadata": metadata, "spec": {"hard": {"pods": 1}, "scopes": ["BestEffort"]}})
    await writer.ensure(desired, None, live=None)
    edited = changed(desired, ("spec", "scopes"), ["NotBestEffort"])

    with pytest.raises(ImmutableDifferenceError) as caught:
        await ensure_as_a_controller_does(client, edited, None)

    assert caught.value.paths == ("spec.scopes",)
    assert isinstance(caught.value.__cause__, InvalidError)


async def test_other_validation_errors_are_invalid_errors(client: Client, kube_namespace: str) -> None:
    desired = child("deployment", kube_namespace)
    await Writer(client, field_manager=MANAGER).ensure(desired, None, live=None)

    with pytest.raises(InvalidError, match="replicas"):
        await ensure_as_a_controller_does(client, changed(desired, ("spec", "replicas"), -1), None)


def test_paths_are_matched_by_whole_names() -> None:
    paths = ("spec.selector", "spec.selector.matchLabels", "spec.selectors", "spec.replicas")

    assert immutable_among(Deployment.KIND, {}, paths) == ("spec.selector", "spec.selector.matchLabels")
    assert immutable_among(ConfigMap.KIND, {}, ("data.a",)) == ()
    assert immutable_among(Job.KIND, {"spec": {"suspend": True}}, ("spec.template.spec.tolerations",)) == ()
    assert immutable_among(Pod.KIND, {}, ("spec.containers[name=a].image", "metadata.labels")) == ()
    assert immutable_among(priority_class("x").kind, {}, ("value", "description")) == ("value",)


def test_other_causes_are_not_taken_for_immutable_fields() -> None:
    causes = (Cause("FieldValueInvalid", "spec.a", "must be positive"), Cause("", "spec.b", "field is immutable"))

    assert immutable_causes(InvalidError(Status(422, causes=causes))) == ("spec.b",)
    assert immutable_causes(InvalidError(Status(422, causes=causes[:1]))) == ()


def mutable_child(name: str, namespace: str) -> TypedObject:
    if name == "suspended":
        return changed(child("job", namespace), ("spec", "suspend"), True)
    if name == "service-with-node-ports":
        return changed(child(name, namespace), ("spec", "externalTrafficPolicy"), None)
    return child(name, namespace)


async def dry_run_change(client: Client, obj: TypedObject, place: tuple[str | int, ...], value: Any) -> None:
    """Dry run a change; retried on conflicts with controllers that write concurrently."""
    while True:
        live: TypedObject = await client.get(form_of(obj), obj.key.name, obj.key.namespace)
        try:
            await client.update(changed(live, place, value), dry_run=True)
        except ConflictError:
            continue
        return


def changed(obj: TypedObject, place: tuple[str | int, ...], value: Any) -> TypedObject:
    body: Any = encode(obj)
    spot = body
    for step in place[:-1]:
        spot = spot[step]
    if value is None:
        del spot[place[-1]]
    else:
        spot[place[-1]] = value
    return decode(type(obj), body)
