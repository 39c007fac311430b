"""The Job of a preparation: what it runs, as whom, and where."""

from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorage, StoragePrepare
from gpuruntime.api.names import OWNER_UID, RECOVERY_WIPE, STORAGE_LABEL, STORAGE_PREPARE_LABEL
from gpuruntime.desired.storage.prepare_job import RESUMED, job_facts, job_name, prepare_job
from gpuruntime.desired.storage.rendering import GPU_NODES, StorageRendering
from gpuruntime.kube.builtin.batch import Job, JobStatus
from gpuruntime.meta import Condition, FrozenDict
from tests.desired.storage_objects import COPY, FILL, storage

RENDERING = StorageRendering(node_selector=FrozenDict({"pool": "gpu"}))


def job(of: GPUStorage, prepare: StoragePrepare, attempt: int = 1, *, is_first: bool = False) -> Job:
    return prepare_job(of, prepare, attempt, RENDERING, is_first_consumer=is_first)


def test_a_job_is_suspended_runs_once_and_has_no_rights() -> None:
    made = job(storage(FILL), FILL)

    pod, [container] = made.spec.template.spec, made.spec.template.spec.containers
    assert (made.spec.suspend, made.spec.backoff_limit, made.spec.ttl_seconds_after_finished) == (True, 0, None)
    assert (pod.restart_policy, pod.automount_service_account_token) == ("Never", False)
    assert (container.image, container.args, container.working_dir) == ("fill:1", ("fill",), "/workspace")
    assert [(mount.name, mount.mount_path) for mount in container.volume_mounts] == [("workspace", "/workspace")]
    assert container.security_context is not None
    assert container.security_context["allowPrivilegeEscalation"] is False
    assert container.security_context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container.termination_message_policy == "FallbackToLogsOnError"
    assert made.metadata.annotations[OWNER_UID] == "uid-of-data"
    assert [reference.kind for reference in made.metadata.owner_references] == ["GPUStorage"]
    for labels in (made.metadata.labels, made.spec.template.metadata.labels):
        assert (labels[STORAGE_LABEL], labels[STORAGE_PREPARE_LABEL]) == ("data", "data")


def test_a_copy_reads_its_source_and_a_recovery_wipes_first_by_default() -> None:
    keeping = storage(COPY, annotations={RECOVERY_WIPE: "false"})

    first, second, kept = job(storage(COPY), COPY), job(storage(COPY), COPY, 2), job(keeping, COPY, 2)

    pod = first.spec.template.spec
    claims = {volume.name: volume.persistent_volume_claim for volume in pod.volumes}
    assert claims["workspace"] is not None
    assert claims["source"] is not None
    assert (claims["workspace"].claim_name, claims["source"].claim_name) == ("data", "base")
    assert claims["source"].read_only is True
    assert pod.containers[0].image == "busybox:1.36"
    assert pod.init_containers == kept.spec.template.spec.init_containers == ()
    assert [container.name for container in second.spec.template.spec.init_containers] == ["wipe"]


def test_only_the_first_consumer_of_a_volume_is_placed_and_all_tolerate_gpu_nodes() -> None:
    first, later = job(storage(FILL), FILL, is_first=True), job(storage(FILL), FILL)

    assert first.spec.template.spec.node_selector == {"pool": "gpu"}
    assert later.spec.template.spec.node_selector == {}
    assert later.spec.template.spec.tolerations == GPU_NODES


def test_an_attempt_with_a_timeout_ends_by_it_and_one_without_has_none() -> None:
    limited = evolve(FILL, timeout_seconds=60)

    made, unlimited = job(storage(limited), limited), job(storage(FILL), FILL)
    failure = Condition("Failed", "True", "DeadlineExceeded", "Job was active longer than specified deadline")
    facts = job_facts(evolve(made, status=JobStatus(conditions=(failure,))), storage(limited), "exit code 137")

    assert (made.spec.active_deadline_seconds, unlimited.spec.active_deadline_seconds) == (60, None)
    assert facts.message == "DeadlineExceeded: Job was active longer than specified deadline"


def test_every_storage_preparation_and_attempt_has_a_job_of_its_own() -> None:
    long = storage(FILL, name="a" * 35 + "-" + "b" * 27)
    other = evolve(storage(FILL), metadata=evolve(storage(FILL).metadata, uid="another"))

    names = [job_name(*each) for each in ((storage(FILL), FILL, 1), (storage(FILL), FILL, 2), (storage(COPY), COPY, 1))]
    names += [job_name(other, FILL, 1), job_name(long, FILL, 999)]

    assert len(set(names)) == 5
    assert max(map(len, names)) <= 63


def test_the_facts_of_a_job_quote_its_pod_before_its_own_words() -> None:
    of = storage(FILL)
    made = job(of, FILL)
    failed = Condition("Failed", "True", "BackoffLimitExceeded", "it has failed")
    ended = evolve(
        made,
        metadata=evolve(made.metadata, uid="u", annotations=made.metadata.annotations | {RESUMED: "true"}),
        spec=evolve(made.spec, suspend=False),
        status=JobStatus(conditions=(failed,)),
    )

    facts, quoted, foreign = (
        job_facts(ended, of),
        job_facts(ended, of, "disk full"),
        job_facts(ended, storage(name="x")),
    )

    assert (facts.uid, facts.is_failed, facts.was_resumed, facts.is_suspended) == ("u", True, True, False)
    assert (facts.message, quoted.message) == ("BackoffLimitExceeded: it has failed", "disk full")
    assert (facts.is_ours, foreign.is_ours) == (True, False)
