"""What counts as a difference between a desired and a live object."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.writing.comparison import differences
from gpuruntime.meta.codec import encode
from tests.control.rich_children import NAMESPACED, child

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
FIELDS = st.sampled_from(["spec", "env", "ports", "name", "limits", "selector", "data", "replicas", "value", "port"])
BODIES = st.recursive(
    JSON, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=20
)


def deployment(**container: Any) -> dict[str, Any]:
    return of_kind("apps/v1", "Deployment", spec={"template": {"spec": {"containers": [{"name": "web", **container}]}}})


def of_kind(api_version: str, kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **content}


def config(**metadata: Any) -> dict[str, Any]:
    return of_kind("v1", "ConfigMap", metadata=metadata)


CONTAINER = "spec.template.spec.containers[name=web]"


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        (deployment(), deployment(terminationMessagePath="/dev/termination-log", resources={})),
        (deployment(resources={"limits": {"cpu": "1000m"}}), deployment(resources={"limits": {"cpu": "1"}})),
        (deployment(resources={"limits": {"gpu": 1}}), deployment(resources={"limits": {"gpu": "1", "cpu": "2"}})),
        (deployment(resources={"limits": {}}), deployment()),
        (deployment(env=[], args=None, command=[]), deployment()),
        (deployment(env=[{"name": "A", "value": ""}]), deployment(env=[{"name": "A"}])),
        (deployment(env=[{"name": "A"}]), deployment(env=[{"name": "A", "value": ""}])),
        (deployment(ports=[{"containerPort": 1}]), deployment(ports=[{"containerPort": 1, "protocol": "TCP"}])),
        (
            deployment(ports=[{"containerPort": 1}, {"containerPort": 2}]),
            deployment(ports=[{"containerPort": 2}, {"containerPort": 1}]),
        ),
        (deployment(imagePullPolicy="", tty=False), deployment(imagePullPolicy="Always")),
        (deployment(readinessProbe={"httpGet": {"port": 80}}), deployment(readinessProbe={"httpGet": {"port": "80"}})),
        (of_kind("v1", "Service", spec={"clusterIP": ""}), of_kind("v1", "Service", spec={"clusterIP": "10.0.0.1"})),
        (of_kind("v1", "ServiceAccount"), of_kind("v1", "ServiceAccount", imagePullSecrets=[{"name": "added"}])),
        (
            of_kind("v1", "ResourceQuota", spec={"hard": {"storage": "1Gi"}}),
            of_kind("v1", "ResourceQuota", spec={"hard": {"storage": "1024Mi"}}),
        ),
        (
            of_kind("rbac.authorization.k8s.io/v1", "ClusterRole", aggregationRule={}),
            of_kind("rbac.authorization.k8s.io/v1", "ClusterRole", aggregationRule={}, rules=[{"verbs": ["get"]}]),
        ),
        (of_kind("x/v1", "Widget", spec={}), of_kind("x/v1", "Widget", spec={"ports": [{"port": 1}], "env": [1]})),
        (of_kind("x/v1", "Widget", status={"a": 1}), of_kind("x/v1", "Widget", status={"a": 2})),
        (config(labels={"a": "1"}), config(labels={"a": "1", "b": "2"}, annotations={"c": "3"})),
        (config(finalizers=["a"]), config(finalizers=["b", "a"])),
        (config(name="x", uid="1", resourceVersion="1"), config(name="x", uid="2", generation=4)),
    ],
)
def test_equivalent_notations_are_no_difference(desired: dict[str, Any], live: dict[str, Any]) -> None:
    assert differences(desired, live) == ()


@pytest.mark.parametrize(
    ("desired", "live", "path"),
    [
        (deployment(image="a"), deployment(image="b"), f"{CONTAINER}.image"),
        (deployment(image="a"), deployment(), f"{CONTAINER}.image"),
        (deployment(resources={"limits": {"cpu": "1"}}), deployment(resources={}), f"{CONTAINER}.resources"),
        (
            deployment(resources={"limits": {"nvidia.com/gpu": 1}}),
            deployment(resources={"limits": {"nvidia.com/gpu": "2"}}),
            f"{CONTAINER}.resources.limits[nvidia.com/gpu]",
        ),
        (
            deployment(env=[{"name": "A"}, {"name": "B"}]),
            deployment(env=[{"name": "B"}, {"name": "A"}]),
            f"{CONTAINER}.env",
        ),
        (deployment(), deployment(env=[{"name": "A"}]), f"{CONTAINER}.env"),
        (
            deployment(env=[{"name": "A"}]),
            deployment(env=[{"name": "A"}, {"name": "B"}]),
            f"{CONTAINER}.env[name=B]",
        ),
        (
            deployment(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            deployment(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "3"}]),
            f"{CONTAINER}.env[1].value",
        ),
        (
            deployment(ports=[{"containerPort": 1}]),
            deployment(ports=[{"containerPort": 1, "protocol": "UDP"}]),
            f"{CONTAINER}.ports[containerPort=1,protocol=TCP]",
        ),
        (deployment(args=["a", "b"]), deployment(args=["a"]), f"{CONTAINER}.args"),
        (deployment(args=["a", "b"]), deployment(args=["b", "a"]), f"{CONTAINER}.args[0]"),
        (deployment(tty=False), deployment(tty=True), f"{CONTAINER}.tty"),
        (deployment(stdin=True), deployment(stdin=1), f"{CONTAINER}.stdin"),
        (deployment(securityContext={"runAsUser": 0}), deployment(), f"{CONTAINER}.securityContext"),
        (
            deployment(securityContext={"runAsUser": 0}),
            deployment(securityContext={"runAsGroup": 0}),
            f"{CONTAINER}.securityContext.runAsUser",
        ),
        (config(labels={"a": ""}), config(labels={}), "metadata.labels"),
        (config(labels={"x/y": ""}), config(labels={"a": ""}), "metadata.labels[x/y]"),
        (config(finalizers=["a"]), config(finalizers=["b"]), "metadata.finalizers[0]"),
        (
            config(ownerReferences=[{"uid": "1", "controller": True}]),
            config(ownerReferences=[{"uid": "1"}, {"uid": "2"}]),
            "metadata.ownerReferences[uid=1].controller",
        ),
        (
            of_kind("v1", "ConfigMap", data={"a": "1"}),
            of_kind("v1", "ConfigMap", data={"a": "1", "protocol": "TCP"}),
            "data.protocol",
        ),
        (of_kind("x/v1", "Widget", spec={"env": [{"name": "A"}]}), of_kind("x/v1", "Widget", spec={}), "spec.env"),
        (of_kind("x/v1", "Widget", spec=1), of_kind("x/v1", "Widget", spec={"a": 1}), "spec"),
    ],
)
def test_a_difference_has_a_readable_path(desired: dict[str, Any], live: dict[str, Any], path: str) -> None:
    assert differences(desired, live)[0] == path


def test_a_pod_may_have_what_admission_adds_but_no_foreign_containers() -> None:
    desired = of_kind("v1", "Pod", spec={"containers": [{"name": "web"}], "tolerations": [{"key": "gpu"}]})
    live = deepcopy(desired)
    live["spec"]["tolerations"].insert(0, {"key": "not-ready", "effect": "NoExecute"})
    live["spec"]["volumes"] = [{"name": "kube-api-access"}]
    live["spec"]["containers"][0]["volumeMounts"] = [{"name": "kube-api-access", "mountPath": "/var/run"}]

    admitted = differences(desired, live)
    live["spec"]["containers"].append({"name": "evil"})
    live["spec"]["tolerations"].pop()
    edited = differences(desired, live)

    assert admitted == ()
    assert edited == ("spec.containers[name=evil]", "spec.tolerations[0]")


def test_a_shared_object_may_have_entries_of_others_but_no_changed_values() -> None:
    desired = deployment(image="a", env=[{"name": "A", "value": "1"}])
    live = deepcopy(desired)
    containers = live["spec"]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "side", "image": "b"})
    containers[1]["env"].append({"name": "B"})
    containers[1]["args"] = ["--more"]

    shared = differences(desired, live, shared=True)
    owned = differences(desired, live)
    containers[1]["env"][0]["value"] = "2"
    changed = differences(desired, live, shared=True)

    assert shared == ()
    assert set(owned) == {"spec.template.spec.containers[name=side]", f"{CONTAINER}.env[name=B]", f"{CONTAINER}.args"}
    assert changed == (f"{CONTAINER}.env[name=A].value",)


@given(BODIES, st.sampled_from(["v1", "apps/v1", "example.org/v1"]), st.booleans())
def test_an_object_does_not_differ_from_itself(body: Any, api_version: str, shared: bool) -> None:
    desired = of_kind(api_version, "Pod", spec=body, metadata={"labels": {"a": ""}}, data=body)

    assert differences(desired, deepcopy(desired), shared=shared) == ()


@pytest.mark.parametrize("name", sorted(NAMESPACED))
def test_every_overwritten_field_is_a_difference_unless_it_is_left_to_the_server(name: str) -> None:
    desired = encode(child(name, "a"))
    for number in range(len(members(desired))):
        live = deepcopy(desired)
        holder, key = members(live)[number]
        before, holder[key] = holder[key], {"something": "else"}

        found = differences(desired, live)

        # An empty map accepts entries of others. An empty peer selector or rule matches everything, and must
        # stay empty.
        ours = not is_hollow(before) or key in SELECTORS_OF_PEERS or isinstance(key, int)
        assert bool(found) == (ours and key not in LEFT_TO_SERVER), (key, before)


def is_hollow(value: Any) -> bool:
    return isinstance(value, dict) and all(is_hollow(inner) for inner in value.values())


SELECTORS_OF_PEERS = {"podSelector", "namespaceSelector"}


LEFT_TO_SERVER = {"nodePort", "imagePullPolicy", "periodSeconds"}
IDENTITY = {"apiVersion", "kind", "name", "namespace"}


def members(body: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Every container and key in an object, except its identity."""
    return [place for place in _members(body) if place[0] is not body["metadata"] or place[1] not in IDENTITY][2:]


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield value, key
        yield from _members(inner)
