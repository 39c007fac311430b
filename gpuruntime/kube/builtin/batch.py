"""batch/v1: CronJob, Job."""

from attrs import field, frozen

from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["CronJob", "CronJobSpec", "CronJobStatus", "Job", "JobSpec", "JobStatus", "JobTemplateSpec"]


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
    pod_replacement_policy: str | None = None


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


@frozen
class JobTemplateSpec(Struct):
    spec: JobSpec
    metadata: ObjectMeta = field(default=ObjectMeta())


@frozen
class CronJobSpec(Struct):
    schedule: str
    job_template: JobTemplateSpec
    time_zone: str | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


@frozen
class CronJobStatus(Struct):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


@frozen
class CronJob(TypedObject):
    KIND = ResourceKind("batch", "v1", "CronJob", "cronjobs", namespaced=True)

    spec: CronJobSpec
    status: CronJobStatus = field(default=CronJobStatus())
