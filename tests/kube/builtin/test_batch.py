from gpuruntime.kube.builtin.batch import Job
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.conditions import is_true


def test_a_job_that_ended_is_read_and_written_back_exactly() -> None:
    wire = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "seed", "namespace": "ns"},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never"}},
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 60,
            "podReplacementPolicy": "TerminatingOrFailed",
        },
        "status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}], "terminating": 0},
    }

    job = decode(Job, wire)

    assert (job.spec.backoff_limit, job.spec.ttl_seconds_after_finished, job.status.succeeded) == (0, 60, 1)
    assert is_true(job.status.conditions, "Complete")
    assert encode(job) == wire
