from typing import Any

import pytest

from gpuruntime.kube.builtin.core import (
    ConfigMap,
    Namespace,
    ResourceQuota,
    Secret,
    Service,
    ServiceAccount,
    ServicePort,
    ServiceSpec,
)
from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import ObjectMeta


def test_a_service_is_encoded_with_the_api_s_irregular_names() -> None:
    spec = ServiceSpec(
        selector=FrozenDict(app="llm"),
        cluster_ip="None",
        cluster_ips=("None",),
        external_ips=("192.0.2.1",),
        ports=(ServicePort(80, target_port="http", node_port=30080), ServicePort(81, target_port=8081)),
    )

    assert encode(Service(ObjectMeta(name="s", namespace="ns"), spec)) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "ns"},
        "spec": {
            "selector": {"app": "llm"},
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "externalIPs": ["192.0.2.1"],
            "ports": [{"port": 80, "targetPort": "http", "nodePort": 30080}, {"port": 81, "targetPort": 8081}],
        },
    }


def test_a_service_from_the_server_round_trips() -> None:
    wire: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "ns"},
        "spec": {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "type": "LoadBalancer", "clusterIP": ""},
        "status": {"loadBalancer": {}},
    }
    answered = {**wire, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}}

    waiting, ready = decode(Service, wire), decode(Service, answered)

    assert waiting.status.load_balancer.ingress == ()
    assert ready.status.load_balancer.ingress[0].ip == "192.0.2.1"
    assert (encode(waiting), encode(ready)) == (wire, answered)


def test_the_repr_of_a_secret_hides_its_data() -> None:
    secret = Secret(ObjectMeta(name="s"), data=FrozenDict(password="aHVudGVyMg=="))

    assert "aHVudGVyMg" not in repr(secret)
    with pytest.raises(DecodeError) as caught:
        decode(Secret, {"metadata": {"name": "s", "namespace": "ns"}, "data": {"pin": 123456}})
    assert str(caught.value) == ("cannot decode Secret ns/s: expected a string, got an integer @ $.data.pin")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ConfigMap, {"data": {"a": "b"}, "binaryData": {"c": "AA=="}, "immutable": True}),
        (Secret, {"data": {"a": "Yg=="}, "type": "Opaque"}),
        (ServiceAccount, {"imagePullSecrets": [{"name": "r"}], "secrets": [{"name": "old"}]}),
        (Namespace, {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
        (ResourceQuota, {"spec": {"hard": {"pods": "3"}}, "status": {"hard": {"pods": "3"}, "used": {"pods": 0}}}),
    ],
)
def test_the_other_kinds_round_trip(kind: Any, fields: dict[str, Any]) -> None:
    wire = {"apiVersion": "v1", "kind": kind.__name__, "metadata": {"name": "x"}, **fields}

    assert encode(decode(kind, wire)) == wire
