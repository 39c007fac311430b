"""The desired children of a Website: pure functions, tested without a cluster."""

from datetime import datetime
from hashlib import sha256

from gpuruntime.kube.builtin.apps import Deployment, DeploymentSpec
from gpuruntime.kube.builtin.containers import Container, ContainerPort, VolumeMount
from gpuruntime.kube.builtin.core import ConfigMap, Service, ServicePort, ServiceSpec
from gpuruntime.kube.builtin.pods import PodSpec, PodTemplateSpec
from gpuruntime.kube.builtin.volumes import ConfigMapVolumeSource, Volume
from gpuruntime.meta import Condition, FrozenDict, LabelSelector, ObjectMeta, set_condition
from website.kind import Website, WebsiteStatus

__all__ = ["deployment_of", "failed_status", "page_of", "service_of", "status_of"]

_IMAGE = "nginx:1.29"
_PORT = 80


def page_of(site: Website) -> ConfigMap:
    return ConfigMap(_meta(site), data=FrozenDict({"index.html": site.spec.html}))


def deployment_of(site: Website) -> Deployment:
    """The pods. A new page gives the template a new annotation, so that pods are replaced one after the other."""
    page = VolumeMount(name="page", mount_path="/usr/share/nginx/html", read_only=True)
    server = Container(name="server", image=_IMAGE, ports=(ContainerPort(_PORT, name="http"),), volume_mounts=(page,))
    version = sha256(site.spec.html.encode()).hexdigest()[:16]
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=_labels(site), annotations=FrozenDict({"example.org/page": version})),
        spec=PodSpec(
            containers=(server,),
            volumes=(Volume(name="page", config_map=ConfigMapVolumeSource(name=site.metadata.name)),),
        ),
    )
    spec = DeploymentSpec(LabelSelector(match_labels=_labels(site)), template, replicas=site.spec.replicas)
    return Deployment(_meta(site), spec)


def service_of(site: Website) -> Service:
    return Service(_meta(site), ServiceSpec(selector=_labels(site), ports=(ServicePort(_PORT, target_port="http"),)))


def status_of(site: Website, deployment: Deployment, now: datetime) -> WebsiteStatus:
    """The status of a site, from the status of its Deployment."""
    seen = deployment.status
    serving = min(seen.updated_replicas, seen.available_replicas)
    done = seen.observed_generation == deployment.metadata.generation and serving >= site.spec.replicas
    ready = Condition(
        "Ready",
        "True" if done else "False",
        "Serving" if done else "Starting",
        f"{serving} of {site.spec.replicas} pods serve the page",
        observed_generation=site.metadata.generation,
    )
    return WebsiteStatus(seen.available_replicas, set_condition(site.status.conditions, ready, now))


def failed_status(site: Website, reason: str, message: str, now: datetime) -> WebsiteStatus:
    """The status of a site that cannot be served until a user acts."""
    ready = Condition("Ready", "False", reason, message, observed_generation=site.metadata.generation)
    return WebsiteStatus(site.status.ready_replicas, set_condition(site.status.conditions, ready, now))


def _meta(site: Website) -> ObjectMeta:
    return ObjectMeta(name=site.metadata.name, namespace=site.metadata.namespace, labels=_labels(site))


def _labels(site: Website) -> FrozenDict[str, str]:
    return FrozenDict({"example.org/website": site.metadata.name})
