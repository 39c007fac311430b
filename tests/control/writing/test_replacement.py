"""Which fields of an update come from the desired object, and which from the live one."""

from copy import deepcopy
from typing import Any

import pytest

from gpuruntime.control.writing.desired_state import OwnershipAnnotations
from gpuruntime.control.writing.replacement import replacement

OWNERSHIP = OwnershipAnnotations("tests.example.org")
KEYS = "tests.example.org/desired-keys"
RESTARTED = "kubectl.kubernetes.io/restartedAt"


def body(kind: str, **content: Any) -> dict[str, Any]:
    group = {"Deployment": "apps/v1", "Job": "batch/v1", "ClusterRole": "rbac.authorization.k8s.io/v1"}.get(kind, "v1")
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, **content}


def replaced(desired: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    copies = deepcopy((desired, live))
    result = replacement(desired, live, OWNERSHIP)
    assert (desired, live) == copies
    return result


@pytest.mark.parametrize(
    ("kind", "desired", "live", "expected"),
    [
        ("Deployment", {"paused": True}, {"replicas": 3, "minReadySeconds": 1}, {"paused": True, "replicas": 3}),
        ("Deployment", {"replicas": 1}, {"replicas": 3}, {"replicas": 1}),
        ("Deployment", {"replicas": 0}, {"replicas": 3}, {"replicas": 0}),
        ("Job", {"parallelism": 1}, {"selector": {"matchLabels": {"uid": "x"}}, "suspend": True},
         {"parallelism": 1, "selector": {"matchLabels": {"uid": "x"}}}),
        ("Job", {"template": {"metadata": {"labels": {"a": "ours"}}}},
         {"template": {"metadata": {"labels": {"a": "theirs", "controller-uid": "x"}, "annotations": {"a": "b"}}}},
         {"template": {"metadata": {"labels": {"a": "ours", "controller-uid": "x"}}}}),
        ("PersistentVolumeClaim", {"accessModes": ["RWO"]}, {"volumeName": "v", "storageClassName": "s"},
         {"accessModes": ["RWO"], "volumeName": "v", "storageClassName": "s"}),
        ("PersistentVolumeClaim", {"storageClassName": ""}, {"storageClassName": "s"}, {"storageClassName": ""}),
        ("Service", {}, {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"], "ipFamilies": ["IPv4"]},
         {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"], "ipFamilies": ["IPv4"]}),
        ("Service", {"clusterIP": "None"}, {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"]}, {"clusterIP": "None"}),
        ("Service", {"type": "ExternalName"}, {"clusterIP": "1.2.3.4"}, {"type": "ExternalName"}),
        ("Service", {"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 5}, {"port": 82}]},
         {"healthCheckNodePort": 9,
          "ports": [{"port": 80, "protocol": "TCP", "nodePort": 4}, {"port": 81, "nodePort": 6},
                    {"port": 82, "protocol": "UDP", "nodePort": 7}]},
         {"type": "NodePort", "ports": [{"port": 80, "nodePort": 4}, {"port": 81, "nodePort": 5}, {"port": 82}]}),
        ("Service", {"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 4}]},
         {"ports": [{"port": 80, "nodePort": 4}]},
         {"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 4}]}),
        ("Service", {"ports": [{"port": 80}]}, {"ports": [{"port": 80, "nodePort": 4}]}, {"ports": [{"port": 80}]}),
        ("Service", {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, {"healthCheckNodePort": 9},
         {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 9}),
        ("Pod",
         {"containers": [{"name": "a", "image": "2"}], "activeDeadlineSeconds": 5, "tolerations": [{"key": "k"}]},
         {"containers": [{"name": "a", "image": "1", "tty": True}], "nodeName": "n", "tolerations": [{"key": "t"}]},
         {"containers": [{"name": "a", "image": "2", "tty": True}], "activeDeadlineSeconds": 5, "nodeName": "n",
          "tolerations": [{"key": "t"}, {"key": "k"}]}),
    ],
)  # fmt: skip
def test_allocated_fields_are_carried_over_unless_they_are_desired(
    kind: str, desired: dict[str, Any], live: dict[str, Any], expected: dict[str, Any]
) -> None:
    result = replaced(body(kind, spec=desired), body(kind, spec=live))

    assert result["spec"] == expected


def test_fields_filled_in_by_controllers_are_carried_over() -> None:
    token = {"type": "kubernetes.io/service-account-token"}
    account = replaced(body("ServiceAccount"), body("ServiceAccount", secrets=[{"name": "t"}]))
    secret = replaced(body("Secret", **token), body("Secret", **token, data={"token": "x"}))
    plain = replaced(body("Secret", data={"a": ""}), body("Secret", data={"token": "x"}))
    role = replaced(body("ClusterRole", aggregationRule={}), body("ClusterRole", rules=[{"verbs": ["get"]}]))
    ordinary = replaced(body("ClusterRole"), body("ClusterRole", rules=[{"verbs": ["get"]}]))

    assert account["secrets"] == [{"name": "t"}]
    assert secret["data"] == {"token": "x"}
    assert plain["data"] == {"a": ""}
    assert role["rules"] == [{"verbs": ["get"]}]
    assert "rules" not in ordinary


def test_identity_version_and_status_are_those_of_the_live_object() -> None:
    live = body("ConfigMap", status={"a": 1}, data={"old": ""}, immutable=False)
    live["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": [{}]}

    result = replaced(body("ConfigMap", data={"new": ""}, status={"a": 2}), live)

    assert result == {
        **body("ConfigMap", data={"new": ""}, status={"a": 1}),
        "metadata": {"name": "x", "uid": "u", "resourceVersion": "7"},
    }


def test_entries_of_others_stay_and_our_earlier_entries_are_removed() -> None:
    live = body("Deployment", spec={"template": {"metadata": {"annotations": {RESTARTED: "1", "theirs": "1"}}}})
    live["metadata"] |= {
        "labels": {"theirs": "1", "was-ours": "1", "ours": "old"},
        "annotations": {KEYS: '{"metadata.labels":["was-ours","ours"]}'},
        "finalizers": ["theirs"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}],
    }
    owner = {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": True}
    desired = body("Deployment", spec={"template": {"spec": {}}})
    desired["metadata"] |= {"labels": {"ours": "new"}, "finalizers": ["ours"], "ownerReferences": [owner]}

    result = replaced(desired, live)

    assert result["metadata"]["labels"] == {"theirs": "1", "ours": "new"}
    assert result["metadata"]["annotations"] == {}
    assert result["metadata"]["finalizers"] == ["theirs", "ours"]
    assert [reference["uid"] for reference in result["metadata"]["ownerReferences"]] == ["1", "2"]
    assert result["spec"] == {"template": {"spec": {}, "metadata": {"annotations": {RESTARTED: "1"}}}}


def test_an_owner_has_a_single_reference_whatever_its_earlier_uid() -> None:
    live, desired = body("ConfigMap"), body("ConfigMap")
    live["metadata"]["ownerReferences"] = [{"apiVersion": "g/v1", "kind": "A", "name": "a", "uid": "old"}]
    desired["metadata"]["ownerReferences"] = [{"apiVersion": "g/v2", "kind": "A", "name": "a", "uid": "new"}]

    result = replaced(desired, live)

    assert result["metadata"]["ownerReferences"] == desired["metadata"]["ownerReferences"]
