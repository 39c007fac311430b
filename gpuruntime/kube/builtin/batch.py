"""batch/v1: Job."""

from attrs import field, frozen

from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["Job", "JobSpec", "JobStatus"]


@frozen
class JobSpec(Struct):
    template: PodTemplateSpec
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool | None = None


@frozen
class JobStatus(Struct):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


@frozen
class Job(TypedObject):
    KIND = ResourceKind("batch", "v1", "Job", "jobs", namespaced=True)

    spec: JobSpec
    status: JobStatus = field(default=JobStatus())
