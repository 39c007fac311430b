from typing import Any

from attrs import evolve

from gpuruntime.kube.builtin.pods import Pod, PodSchedulingGate, PodSpec, PodTemplateSpec, Toleration
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.conditions import is_true
from gpuruntime.meta.objects import ObjectMeta

# From a 1.36 server, shortened.
RUNNING: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "llm-0", "namespace": "team-a", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "llm:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "volumeMounts": [{"name": "token", "mountPath": "/run/token", "recursiveReadOnly": "Disabled"}],
            }
        ],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "securityContext": {},
        "hostPID": True,
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
        "dnsPolicy": "ClusterFirst",
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None, "observedGeneration": 1}],
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.1.0.7",
        "podIPs": [{"ip": "10.1.0.7"}],
        "qosClass": "BestEffort",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": "2026-01-02T03:04:07Z"}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "llm:1",
                "imageID": "sha256:1",
                "containerID": "containerd://1",
                "started": True,
            }
        ],
    },
}


def test_a_running_pod_is_read_and_written_back_exactly() -> None:
    pod = decode(Pod, RUNNING)

    assert encode(pod) == RUNNING
    assert (pod.status.pod_ip, pod.status.pod_ips[0].ip, pod.status.host_ip) == ("10.1.0.7", "10.1.0.7", "10.0.0.1")
    assert pod.spec.host_pid is True
    assert pod.spec.tolerations == (
        Toleration(key="node.kubernetes.io/not-ready", operator="Exists", toleration_seconds=300),
    )
    assert is_true(pod.status.conditions, "Ready")


def test_removing_scheduling_gates_changes_nothing_else() -> None:
    gated = {**RUNNING, "spec": {**RUNNING["spec"], "schedulingGates": [{"name": "example.org/wait"}]}}
    pod = decode(Pod, gated)

    lifted = evolve(pod, spec=evolve(pod.spec, scheduling_gates=()))

    assert pod.spec.scheduling_gates == (PodSchedulingGate("example.org/wait"),)
    assert encode(lifted) == RUNNING


def test_a_pod_template_encodes_only_its_set_fields() -> None:
    template = PodTemplateSpec(metadata=ObjectMeta(name="x"), spec=PodSpec(restart_policy="Never"))

    assert encode(template) == {"metadata": {"name": "x"}, "spec": {"restartPolicy": "Never"}}
    assert encode(PodTemplateSpec()) == {}
