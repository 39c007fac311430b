"""Large objects created in Python: the real server stores every field, and its additions are preserved."""

from typing import Any

import pytest
from attrs import evolve

from gpuruntime.kube import Client
from gpuruntime.kube.builtin.apps import (
    ClaimRetentionPolicy,
    DaemonSet,
    DaemonSetSpec,
    DaemonSetUpdateStrategy,
    RollingUpdate,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetRollingUpdate,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
    VolumeClaimTemplate,
)
from gpuruntime.kube.builtin.autoscaling import (
    ContainerResourceMetricSource,
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
    ScaleTarget,
    ScalingPolicy,
    ScalingRules,
)
from gpuruntime.kube.builtin.batch import CronJob, CronJobSpec, JobSpec, JobTemplateSpec
from gpuruntime.kube.builtin.containers import Container
from gpuruntime.kube.builtin.networking import (
    Ingress,
    IngressBackend,
    IngressBackendResource,
    IngressBackendService,
    IngressHTTP,
    IngressPath,
    IngressRule,
    IngressServicePort,
    IngressSpec,
    IngressTLS,
)
from gpuruntime.kube.builtin.pods import PodSpec, PodTemplateSpec
from gpuruntime.kube.builtin.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaimSpec, VolumeResources
from gpuruntime.meta import FrozenDict, LabelSelector, ObjectMeta, TypedObject
from gpuruntime.meta.codec import decode, encode
from gpuruntime.testing import ClusterAccess

META = ObjectMeta(name="llm")
LABELS: FrozenDict[str, str] = FrozenDict(app="llm")
SELECTOR = LabelSelector(match_labels=LABELS)
PODS = PodTemplateSpec(ObjectMeta(labels=LABELS), PodSpec(containers=(Container("main", image="llm:1"),)))
ONCE = PodTemplateSpec(spec=PodSpec(containers=(Container("main", image="llm:1"),), restart_policy="Never"))
CLAIM = PersistentVolumeClaimSpec(("ReadWriteOnce",), VolumeResources(requests=FrozenDict(storage="1Gi")))
QUEUE = MetricIdentifier("queue", SELECTOR)
SERVICE = IngressBackend(service=IngressBackendService("llm", IngressServicePort(number=80)))
STORE = IngressBackend(resource=IngressBackendResource("Bucket", "pages", "storage.example.com"))
OBJECTS: list[TypedObject] = [
    StatefulSet(
        META,
        StatefulSetSpec(
            SELECTOR,
            PODS,
            service_name="llm",
            replicas=0,
            volume_claim_templates=(VolumeClaimTemplate(ObjectMeta(name="data"), CLAIM),),
            pod_management_policy="Parallel",
            update_strategy=StatefulSetUpdateStrategy("RollingUpdate", StatefulSetRollingUpdate(partition=1)),
            ordinals=StatefulSetOrdinals(start=3),
            persistent_volume_claim_retention_policy=ClaimRetentionPolicy("Delete", "Retain"),
            min_ready_seconds=2,
            revision_history_limit=1,
        ),
    ),
    DaemonSet(
        META,
        DaemonSetSpec(
            SELECTOR,
            PODS,
            update_strategy=DaemonSetUpdateStrategy("RollingUpdate", RollingUpdate(0, "10%")),
            min_ready_seconds=2,
            revision_history_limit=1,
        ),
    ),
    PodDisruptionBudget(
        META, PodDisruptionBudgetSpec(SELECTOR, min_available="50%", unhealthy_pod_eviction_policy="AlwaysAllow")
    ),
    CronJob(
        META,
        CronJobSpec(
            "0 3 * * *",
            JobTemplateSpec(JobSpec(ONCE, backoff_limit=1), ObjectMeta(labels=LABELS)),
            time_zone="Etc/UTC",
            concurrency_policy="Forbid",
            suspend=True,
            starting_deadline_seconds=60,
            successful_jobs_history_limit=1,
            failed_jobs_history_limit=2,
        ),
    ),
    Ingress(
        META,
        IngressSpec(
            ingress_class_name="none",
            default_backend=STORE,
            rules=(IngressRule("llm.example.com", IngressHTTP((IngressPath(SERVICE, "Prefix", "/v1"),))),),
            tls=(IngressTLS(("llm.example.com",), "llm-tls"),),
        ),
    ),
    HorizontalPodAutoscaler(
        META,
        HorizontalPodAutoscalerSpec(
            ScaleTarget("StatefulSet", "llm", "apps/v1"),
            5,
            min_replicas=2,
            metrics=(
                MetricSpec("Resource", resource=ResourceMetricSource("cpu", MetricTarget("Utilization", 60))),
                MetricSpec(
                    "ContainerResource",
                    container_resource=ContainerResourceMetricSource(
                        "main", "memory", MetricTarget("AverageValue", average_value="1Gi")
                    ),
                ),
                MetricSpec("Pods", pods=PodsMetricSource(QUEUE, MetricTarget("AverageValue", average_value="3"))),
                MetricSpec(
                    "Object",
                    object=ObjectMetricSource(
                        ScaleTarget("Ingress", "llm", "networking.k8s.io/v1"), QUEUE, MetricTarget("Value", value="9")
                    ),
                ),
                MetricSpec("External", external=ExternalMetricSource(QUEUE, MetricTarget("Value", value="7"))),
            ),
            behavior=HorizontalPodAutoscalerBehavior(
                ScalingRules((ScalingPolicy("Pods", 2, 60),), "Max", 0),
                ScalingRules((ScalingPolicy("Percent", 50, 30),), "Min", 120),
            ),
        ),
    ),
]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: type(obj).__name__)
async def test_the_server_stores_every_field_and_what_it_adds_survives(
    client: Client, kube_cluster: ClusterAccess, kube_namespace: str, obj: TypedObject
) -> None:
    placed = evolve(obj, metadata=evolve(obj.metadata, namespace=kube_namespace))

    made = await client.create(placed)

    kind = type(obj)
    prefix = f"/apis/{kind.KIND.api_version}/namespaces/{kube_namespace}"
    stored = kube_cluster.admin().get(f"{prefix}/{kind.KIND.plural}/llm")
    assert missing(encode(made)["spec"], encode(placed)["spec"], "spec") == []
    assert missing(stored["spec"], encode(placed)["spec"], "spec") == []
    assert encode(decode(kind, stored)) == stored


def missing(whole: Any, part: Any, path: str) -> list[str]:
    """The expected fields that are missing or have another value."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return [line for key, value in part.items() for line in missing(whole.get(key), value, f"{path}.{key}")]
    if isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        pairs = enumerate(zip(whole, part, strict=True))
        return [line for number, (a, b) in pairs for line in missing(a, b, f"{path}[{number}]")]
    return [] if whole == part else [f"{path}: {whole} is not {part}"]
