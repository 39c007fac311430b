from typing import Any

import pytest
from attrs import evolve

from gpuruntime.kube.builtin.apps import Deployment, DeploymentSpec, ReplicaSet
from gpuruntime.kube.builtin.containers import Container
from gpuruntime.kube.builtin.pods import PodSpec, PodTemplateSpec
from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import ObjectMeta

WIRE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "llm", "namespace": "ns", "generation": 1},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "llm"}},
        "template": {
            "metadata": {"creationTimestamp": None, "labels": {"app": "llm"}},
            "spec": {"containers": [{"name": "main", "image": "llm:1", "resources": {}}], "securityContext": {}},
        },
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}},
        "revisionHistoryLimit": 10,
    },
    "status": {"observedGeneration": 1, "replicas": 0, "unavailableReplicas": 1},
}


def test_scaling_a_deployment_changes_one_number() -> None:
    deployment = decode(Deployment, WIRE)

    scaled = evolve(deployment, spec=evolve(deployment.spec, replicas=0))

    assert encode(deployment) == WIRE
    assert encode(scaled) == {**WIRE, "spec": {**WIRE["spec"], "replicas": 0}}


def test_a_deployment_created_in_python_equals_its_manifest() -> None:
    labels = FrozenDict(app="llm")
    template = PodTemplateSpec(ObjectMeta(labels=labels), PodSpec(containers=(Container("main", image="llm:1"),)))
    spec = DeploymentSpec(LabelSelector(match_labels=labels), template, replicas=1)

    encoded = encode(Deployment(ObjectMeta(name="llm", namespace="ns"), spec))

    assert encoded == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "ns"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "llm"}},
            "template": {
                "metadata": {"labels": {"app": "llm"}},
                "spec": {"containers": [{"name": "main", "image": "llm:1"}]},
            },
        },
    }


def test_a_replica_set_is_not_a_deployment() -> None:
    wire = {**WIRE, "kind": "ReplicaSet", "spec": {"selector": {}, "replicas": 2}, "status": {"replicas": 2}}

    assert decode(ReplicaSet, wire).status.replicas == 2
    with pytest.raises(DecodeError, match="expected 'Deployment', got 'ReplicaSet'"):
        decode(Deployment, {**WIRE, "kind": "ReplicaSet"})
