"""Drift: foreign edits of our children are reverted, except where others may add fields, and then no more writes."""

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gpuruntime.control.writing.writer import Writer
from gpuruntime.kube.client import Client
from gpuruntime.meta.codec import encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.testing import ClusterAccess, RefusedError
from tests.control.foreign_edits import MISSING, Path, edit
from tests.control.rich_children import NAMESPACED, child
from tests.control.writing_scenes import MANAGER, ensure_as_a_controller_does, make_owner, open_client

NUMBERS = itertools.count()
# Fields that the server allocates or others set, where nothing is desired.
ALLOCATED = {"nodePort", "healthCheckNodePort", "ipFamilyPolicy", "replicas", "volumeName", "volumeMode"}

WEB: Path = ("spec", "template", "spec", "containers", 0)
SIDE: Path = ("spec", "template", "spec", "containers", 1)
POD: Path = ("spec", "template", "spec")

# Fields that we omit or leave to the server, but that others must not add or change.
INTRUDERS: list[tuple[str, Path, Any]] = [
    ("deployment", (*POD, "containers", "-"), {"name": "evil", "image": "evil"}),
    ("deployment", (*POD, "initContainers", "-"), {"name": "evil", "image": "evil"}),
    ("deployment", (*POD, "volumes", "-"), {"name": "evil", "emptyDir": {}}),
    ("deployment", (*POD, "tolerations", "-"), {"operator": "Exists"}),
    ("deployment", (*POD, "imagePullSecrets", "-"), {"name": "evil"}),
    ("deployment", (*WEB, "env", "-"), {"name": "LD_PRELOAD", "value": "evil.so"}),
    ("deployment", (*WEB, "env", 0, "value"), "full"),
    ("deployment", (*WEB, "envFrom", "-"), {"secretRef": {"name": "evil"}}),
    ("deployment", (*WEB, "envFrom", 0, "prefix"), "EVIL_"),
    ("deployment", (*WEB, "ports", "-"), {"containerPort": 1}),
    ("deployment", (*WEB, "volumeMounts", "-"), {"name": "memory", "mountPath": "/evil"}),
    ("deployment", (*WEB, "volumeMounts", 0, "subPath"), "evil"),
    ("deployment", (*WEB, "args", "-"), "--evil"),
    ("deployment", (*SIDE, "env"), [{"name": "EVIL"}]),
    ("deployment", (*SIDE, "args"), ["--evil"]),
    ("deployment", (*SIDE, "command"), ["evil"]),
    ("deployment", (*SIDE, "volumeMounts"), [{"name": "memory", "mountPath": "/evil"}]),
    ("deployment", ("spec", "paused"), True),
    ("deployment", ("spec", "revisionHistoryLimit"), 1),
    ("deployment", ("spec", "progressDeadlineSeconds"), 5),
    ("deployment", ("spec", "template", "metadata", "annotations", "evil.example.org/inject"), "x"),
    ("deployment", ("spec", "template", "metadata", "labels", "evil"), "x"),
    ("deployment", (*POD, "hostNetwork"), True),
    ("deployment", (*POD, "hostPID"), True),
    ("deployment", (*POD, "shareProcessNamespace"), True),
    ("deployment", (*POD, "nodeSelector", "evil"), "x"),
    ("deployment", (*POD, "nodeName"), "somewhere"),
    ("deployment", (*POD, "serviceAccountName"), "evil"),
    ("deployment", (*POD, "hostAliases"), [{"ip": "1.2.3.4", "hostnames": ["evil"]}]),
    ("deployment", (*POD, "dnsPolicy"), "Default"),
    ("deployment", (*POD, "schedulerName"), "evil"),
    ("deployment", (*POD, "securityContext"), {"runAsUser": 0}),
    ("deployment", (*POD, "runtimeClassName"), "evil"),
    ("deployment", (*WEB, "securityContext", "capabilities", "add"), ["SYS_ADMIN"]),
    ("deployment", (*WEB, "resources", "requests", "ephemeral-storage"), "1Gi"),
    ("deployment", (*WEB, "lifecycle", "postStart"), {"exec": {"command": ["evil"]}}),
    ("deployment", (*WEB, "livenessProbe"), {"exec": {"command": ["evil"]}}),
    ("deployment", (*SIDE, "workingDir"), "/evil"),
    ("deployment", (*SIDE, "imagePullPolicy"), "Always"),
    ("deployment", (*SIDE, "securityContext"), {"privileged": True}),
    ("service", ("spec", "ports", "-"), {"name": "evil", "port": 1}),
    ("service", ("spec", "selector", "evil"), "x"),
    ("service", ("spec", "publishNotReadyAddresses"), True),
    ("service", ("spec", "externalIPs"), ["198.51.100.1"]),
    ("service", ("spec", "sessionAffinity"), "ClientIP"),
    ("service", ("spec", "internalTrafficPolicy"), "Local"),
    ("job", ("spec", "suspend"), True),
    ("config-map", ("data", "evil"), ""),
    ("config-map", ("binaryData", "evil"), "AAAA"),
    ("secret", ("data", "evil"), "AAAA"),
    ("network-policy", ("spec", "ingress", "-"), {}),
    ("network-policy", ("spec", "podSelector", "matchLabels"), {"no": "pod"}),
    ("network-policy", ("spec", "ingress", 0, "from", "-"), {"podSelector": {}}),
    ("network-policy", ("spec", "ingress", 0, "from", 0, "podSelector", "matchLabels", "evil"), "x"),
    ("network-policy", ("spec", "egress", 0, "to"), [{"ipBlock": {"cidr": "1.2.3.4/32"}}]),
    ("network-policy", ("spec", "egress", 0, "ports", "-"), {"port": 1}),
    ("network-policy", ("spec", "ingress", 0, "ports", 0, "endPort"), 90),
    ("network-policy", ("spec", "egress", 1, "ports"), [{"port": 1}]),
    ("role", ("rules", "-"), {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
    ("role", ("rules", 0, "verbs", "-"), "delete"),
    ("role", ("rules", 0, "resourceNames"), ["evil"]),
    ("role-binding", ("subjects", "-"), {"kind": "User", "name": "evil", "apiGroup": "rbac.authorization.k8s.io"}),
    ("service-account", ("imagePullSecrets", "-"), {"name": "evil"}),
]

# Fields that others may add.
RESIDENTS: list[tuple[str, Path, Any]] = [
    *((name, ("metadata", "labels", "guest"), "x") for name in NAMESPACED),
    *((name, ("metadata", "annotations", "guest.example.org/x"), "x") for name in NAMESPACED),
    *((name, ("metadata", "finalizers"), ["guest.example.org/x"]) for name in ("deployment", "config-map")),
    ("deployment", ("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"), "now"),
    ("deployment-of-defaults", ("spec", "replicas"), 3),
    ("service-account", ("secrets",), [{"name": "token"}]),
]


@pytest.fixture
async def client(kube_cluster: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(kube_cluster) as opened:
        yield opened


@pytest.mark.parametrize(("name", "path", "value"), INTRUDERS)
async def test_a_foreign_addition_is_removed_and_then_nothing_is_written(
    name: str, path: Path, value: Any, client: Client, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    desired, owner = child(name, kube_namespace), await make_owner(client, kube_namespace)
    created = await Writer(client, field_manager=MANAGER).ensure(desired, owner, live=None)
    edit(kube_cluster.admin(), desired.kind.path(kube_namespace, name), path, value)

    repaired = await ensure_as_a_controller_does(client, desired, owner)
    last = await ensure_as_a_controller_does(client, desired, owner)

    assert (repaired.result, last.result) == ("updated", "unchanged")
    assert content(encode(last.object)) == content(encode(created.object))


@pytest.mark.parametrize(("name", "path", "value"), RESIDENTS)
async def test_a_permitted_addition_stays_even_when_the_object_is_updated(
    name: str, path: Path, value: Any, client: Client, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    desired, owner = child(name, kube_namespace), await make_owner(client, kube_namespace)
    await Writer(client, field_manager=MANAGER).ensure(desired, owner, live=None)
    edit(kube_cluster.admin(), desired.kind.path(kube_namespace, name), path, value)
    relabelled = evolve(desired, metadata=evolve(desired.metadata, labels=FrozenDict({"app": "web"})))

    first = await ensure_as_a_controller_does(client, desired, owner)
    second = await ensure_as_a_controller_does(client, relabelled, owner)
    if path == ("metadata", "finalizers"):
        # Otherwise the namespace could not be deleted.
        edit(kube_cluster.admin(), desired.kind.path(kube_namespace, name), path, [])

    assert (first.result, second.result) == ("unchanged", "updated")
    assert set(second.object.metadata.labels) == {"app"} | ({"guest"} if path[:2] == ("metadata", "labels") else set())
    assert look(content(encode(second.object)), path) == value


@pytest.mark.parametrize("name", [name for name in NAMESPACED if name not in {"pod", "job"}])
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
async def test_a_random_edit_is_reverted_exactly(
    name: str, data: st.DataObject, client: Client, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    admin, place = kube_cluster.admin(), f"{name}-{next(NUMBERS)}"
    owner = await make_owner(client, kube_namespace, f"owner-{place}")
    desired = child(name, kube_namespace, place)
    created = await Writer(client, field_manager=MANAGER).ensure(desired, owner, live=None)
    before, wanted = content(encode(created.object)), content(encode(desired))
    # Without the annotation of its owner an object is no longer ours.
    editable = {path for path in leaves(before) if path[-1] != f"{MANAGER}/owner-uid"}
    path = data.draw(st.sampled_from(sorted(editable, key=str)), label="path")
    value = data.draw(replacement_of(look(before, path)), label="value")
    try:
        edited = content(edit(admin, desired.kind.path(kube_namespace, place), path, value))
    except RefusedError:
        event("refused by the server")
        edited = before

    repaired = await ensure_as_a_controller_does(client, desired, owner)
    last = await ensure_as_a_controller_does(client, desired, owner)

    stays = edited == before or is_allocated(path, wanted)
    event(f"{repaired.result}, {'changed' if edited != before else 'not changed'} by the edit")
    after = content(encode(repaired.object))
    # What the edit released, such as the node ports of a Service that is no LoadBalancer, is allocated anew.
    released = {spot for spot in leaves(before) if is_allocated(spot, wanted) and look(edited, spot) == MISSING}
    assert last.result == "unchanged"
    assert set(leaves(after)) == set(leaves(edited if stays else before))
    assert without(after, released) == without(edited if stays else before, released)
    assert repaired.result == ("unchanged" if stays else "updated")


def is_allocated(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether the server allocates the field: nodePort 0 asks for any port, as no nodePort does."""
    return path[-1] in ALLOCATED and look(wanted, path) in ((MISSING, 0) if path[-1] == "nodePort" else (MISSING,))


def without(body: Mapping[str, Any], paths: set[Path]) -> dict[Path, Any]:
    return {path: look(body, path) for path in leaves(body) if path not in paths}


def content(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object that users and controllers set, without those that the server maintains."""
    copy = deepcopy({name: value for name, value in body.items() if name != "status"})
    metadata = copy["metadata"]
    copy["metadata"] = {name: metadata.get(name) or {} for name in ("labels", "annotations", "finalizers")}
    copy["metadata"]["annotations"].pop("deployment.kubernetes.io/revision", None)
    return copy


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif path[0] not in {"apiVersion", "kind", "stringData"} and path[:2] != ("metadata", "finalizers"):
        yield path


def look(body: Any, path: Path) -> Any:
    for step in path:
        try:
            body = body[step]
        except (KeyError, IndexError):
            return MISSING
    return body


def replacement_of(value: Any) -> st.SearchStrategy[Any]:
    match value:
        case bool():
            other: Any = not value
        case int():
            other = value + 1
        case _:
            return st.sampled_from([f"{value}x", f"1{value}", "UDP", "Recreate", "Always", MISSING])
    return st.sampled_from([other, MISSING])
