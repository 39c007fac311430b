"""The Job of a preparation: one attempt, which fails for good at its first failure."""

from hashlib import sha256
from typing import Any, Final

from gpuruntime.api.gpustorage import GPUStorage, StoragePrepare
from gpuruntime.api.names import (
    GROUP,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    OWNER,
    OWNER_UID,
    RECOVERY_WIPE,
    STORAGE_LABEL,
    STORAGE_PREPARE_LABEL,
)
from gpuruntime.desired.storage.claim import owner_text
from gpuruntime.desired.storage.file_group import FILE_GROUP_CONTEXT
from gpuruntime.desired.storage.marks import digest_of
from gpuruntime.desired.storage.preparation import JobFacts
from gpuruntime.desired.storage.rendering import StorageRendering
from gpuruntime.desired.units.security_context import BASELINE
from gpuruntime.kube.builtin.batch import Job, JobSpec
from gpuruntime.kube.builtin.containers import Container, ResourceRequirements, VolumeMount
from gpuruntime.kube.builtin.pods import PodSpec, PodTemplateSpec
from gpuruntime.kube.builtin.volumes import ClaimVolumeSource, Volume
from gpuruntime.meta import EMPTY, FrozenDict, ObjectMeta, find_condition, freeze, is_true, set_controller

__all__ = ["RESUMED", "job_facts", "job_name", "prepare_job", "prepare_labels"]

RESUMED: Final = f"{GROUP}/prepare-resumed"
"""On a Job of a preparation: it was resumed once, and is not resumed again."""
_TARGET: Final = "workspace"
_SOURCE: Final = "source"
_MOUNTS: Final = {_TARGET: "/workspace", _SOURCE: "/source"}
_NAME_KEPT: Final = 36
_DIGEST_LENGTH: Final = 10
_GRACE_SECONDS: Final = 10
_DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
_RESOURCES: Final = ResourceRequirements(
    requests=FrozenDict({"cpu": "100m", "memory": "128Mi"}), limits=FrozenDict({"cpu": "2", "memory": "2Gi"})
)
# To copy and to remove the files of every user, with their owners and modes.
_FILES_OF_ALL: Final[FrozenDict[str, Any]] = freeze(
    {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]},
        "runAsUser": 0,
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
)
_COPY: Final = "set -e; cp -a /source/. /workspace/; sync"
# Not every `find` can delete, nor report that a program failed.
_WIPE: Final = 'find /workspace -mindepth 1 -maxdepth 1 -exec rm -rf {} +; test -z "$(ls -A /workspace)"'


def job_name(storage: GPUStorage, prepare: StoragePrepare, attempt: int) -> str:
    """The name of the Job of an attempt: another one for every storage, preparation and attempt."""
    meta = storage.metadata
    digest = sha256(f"{meta.uid}/{digest_of(prepare)}".encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"prepare-{meta.name[:_NAME_KEPT].rstrip('-')}-{digest}-{attempt}"


def prepare_labels(storage: GPUStorage) -> FrozenDict[str, str]:
    """The labels of the Job and of its pod."""
    name = storage.metadata.name
    return FrozenDict({MANAGED_BY_LABEL: MANAGED_BY, STORAGE_LABEL: name, STORAGE_PREPARE_LABEL: name})


def prepare_job(
    storage: GPUStorage, prepare: StoragePrepare, attempt: int, rendering: StorageRendering, *, is_first_consumer: bool
) -> Job:
    """The Job of an attempt, suspended. The garbage collector deletes it with the storage.

    Guarantees: one pod at a time, no retry, no service account token, no privilege escalation. A recovery empties the
    volume first, unless the storage says otherwise. The first consumer of a late-binding volume runs where units can.
    """
    meta, labels = storage.metadata, prepare_labels(storage)
    is_wiped = attempt > 1 and meta.annotations.get(RECOVERY_WIPE) != "false"
    annotations = FrozenDict({OWNER: owner_text(storage), OWNER_UID: meta.uid})
    metadata = ObjectMeta(
        name=job_name(storage, prepare, attempt), namespace=meta.namespace, labels=labels, annotations=annotations
    )
    pod = PodSpec(
        init_containers=(_shell("wipe", _WIPE, rendering.copy_image, _TARGET),) if is_wiped else (),
        containers=(_container(prepare, rendering),),
        volumes=tuple(_volumes(storage, prepare)),
        node_selector=rendering.node_selector if is_first_consumer else EMPTY,
        tolerations=rendering.tolerations,
        automount_service_account_token=False,
        enable_service_links=False,
        security_context=FILE_GROUP_CONTEXT,
        restart_policy="Never",
        termination_grace_period_seconds=_GRACE_SECONDS,
    )
    spec = JobSpec(
        template=PodTemplateSpec(ObjectMeta(labels=labels), pod),
        parallelism=1,
        completions=1,
        backoff_limit=0,
        # It counts while the Job is not suspended.
        active_deadline_seconds=prepare.timeout_seconds,
        pod_replacement_policy="Failed",
        suspend=True,
    )
    return Job(set_controller(metadata, storage), spec)


def job_facts(job: Job, storage: GPUStorage, words: str = "") -> JobFacts:
    """The facts of a Job; `words` are those of its pod, which say more than its own, unless the Job ended the pod."""
    conditions, meta = job.status.conditions, job.metadata
    failed = find_condition(conditions, "Failed")
    is_failed = is_true(conditions, "Failed")
    own = ": ".join(part for part in (failed.reason, failed.message) if part) if failed is not None else ""
    is_late = is_failed and failed is not None and failed.reason == _DEADLINE_EXCEEDED
    return JobFacts(
        name=meta.name,
        uid=meta.uid,
        is_ours=meta.annotations.get(OWNER_UID) == storage.metadata.uid,
        is_suspended=bool(job.spec.suspend),
        was_resumed=RESUMED in meta.annotations,
        is_complete=is_true(conditions, "Complete"),
        is_failed=is_failed,
        is_ending=meta.deletion_timestamp is not None,
        message=own if is_late else words or (own if is_failed else ""),
    )


def _container(prepare: StoragePrepare, rendering: StorageRendering) -> Container:
    if prepare.from_storage_name is not None:
        return _shell("copy", _COPY, rendering.copy_image, _TARGET, _SOURCE)
    return Container(
        "prepare",
        image=prepare.from_image,
        command=prepare.command,
        args=prepare.args,
        working_dir=_MOUNTS[_TARGET],
        volume_mounts=_mounts(_TARGET),
        resources=_RESOURCES,
        termination_message_policy="FallbackToLogsOnError",
        security_context=BASELINE,
    )


def _shell(name: str, script: str, image: str, *mounted: str) -> Container:
    return Container(
        name,
        image=image,
        command=("sh", "-c", script),
        volume_mounts=_mounts(*mounted),
        resources=_RESOURCES,
        termination_message_policy="FallbackToLogsOnError",
        security_context=_FILES_OF_ALL,
    )


def _mounts(*names: str) -> tuple[VolumeMount, ...]:
    return tuple(VolumeMount(name, _MOUNTS[name], read_only=True if name == _SOURCE else None) for name in names)


def _volumes(storage: GPUStorage, prepare: StoragePrepare) -> list[Volume]:
    target = Volume(_TARGET, persistent_volume_claim=ClaimVolumeSource(storage.metadata.name))
    if prepare.from_storage_name is None:
        return [target]
    source = ClaimVolumeSource(prepare.from_storage_name, read_only=True)
    return [target, Volume(_SOURCE, persistent_volume_claim=source)]
