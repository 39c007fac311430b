"""Records what a real kubelet says of units that crash, fail their probe, lack memory, a command or an image.

    ./hack/in-venv -m hack.record_pod_states [NAME ...]

It starts a cluster with a real node (Linux and root), runs the Deployment of each unit below for two minutes, and
writes every state of its Deployment, pods and probe events to tests/reconcilers/gpuunit/recorded/NAME.jsonl, one step a
line. `test_recorded_states.py` plays them. Record again after an update of Kubernetes in `gpuruntime/testing`.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import UNIT_LABEL
from gpuruntime.control import Cache, Change, projected
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.events import Event
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import decode, encode
from gpuruntime.testing import ClusterAccess, LocalCluster
from gpuruntime.testing.images import ImageStore

_ROOT: Final = Path(__file__).resolve().parents[1]
_RECORDED: Final = _ROOT / "tests" / "reconcilers" / "gpuunit" / "recorded"
_NAMESPACE: Final = "recording"
_REAL_NODE: Final = "gpuruntime.local/real-node"
_SECONDS: Final = 120.0
_PUBLISHED_AFTER: Final = 20.0
_LATE_IMAGE: Final = "late:1"
_PROBE: Final = {"httpGet": {"port": 8080, "path": "/health"}, "periodSeconds": 1}
_SERVE: Final = "mkdir -p /tmp/www; cd /tmp/www; echo ok > {}; httpd -p 8080 -h /tmp/www"


def _shell(script: str, **template: Any) -> dict[str, Any]:
    return {"template": {"command": ["sh", "-c", script], **template}}


_UNITS: Final[Mapping[str, dict[str, Any]]] = {
    "healthy": {},
    "crash-at-once": _shell("echo starting; echo no model at /models >&2; exit 7"),
    "crash-after-four-seconds": _shell("sleep 4; echo lost the database >&2; exit 1"),
    "end-without-error": _shell("exit 0"),
    "recover-at-the-third-start": _shell(
        "echo x >> /dev/shm/starts; [ $(wc -l < /dev/shm/starts) -ge 3 ] && exec sleep 3600; echo not yet; exit 1"
    ),
    "command-missing": {"template": {"command": ["nosuch", "--serve"]}},
    "out-of-memory": {
        **_shell("echo loading; x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 60"),
        "memory": "32Mi",
        "cpu": "500m",
    },
    "probe-not-found": _shell(f"{_SERVE.format('other')}; sleep 3600", readinessProbe=_PROBE),
    "probe-refused-then-ready": _shell(f"sleep 8; {_SERVE.format('health')}; sleep 3600", readinessProbe=_PROBE),
    "answer-then-crash": _shell(
        f"{_SERVE.format('health')}; sleep 6; echo worker died >&2; exit 1", readinessProbe=_PROBE
    ),
    "image-missing-then-published": {"image": _LATE_IMAGE},
}


def main() -> None:
    names = sys.argv[1:] or list(_UNITS)
    with LocalCluster(nodes=(), real_nodes=1) as cluster:
        (node,) = cluster.real_nodes
        node.images.add("busybox:1.36", base="busybox")
        asyncio.run(_record(cluster.access, node.images, names))


async def _record(access: ClusterAccess, images: ImageStore, names: list[str]) -> None:
    access.kubectl("apply", "-f", str(_ROOT / "manifests" / "platform" / "priority-classes.yaml"))
    access.kubectl("create", "namespace", _NAMESPACE)
    recorder = Recorder({name: [] for name in names})
    async with Transport(from_kubeconfig(access.kubeconfig), user_agent="recorder") as transport:
        cache = Cache(transport)
        for what, kind, trim in (
            ("deployment", Deployment.KIND, _deployment),
            ("pod", Pod.KIND, _pod),
            ("event", Event.KIND, _event),
        ):
            fields = "reason=Unhealthy,regarding.kind=Pod" if kind == Event.KIND else ""
            informer = cache.informer(projected(kind, trim), namespaces=[_NAMESPACE], fields=fields)
            await informer.subscribe(partial(recorder.add, what))
        running = asyncio.create_task(cache.run())
        await cache.synced()
        for name in names:
            body = encode(unit_deployment(_unit(name), Rendering()))
            access.admin().create(Deployment.KIND.path(_NAMESPACE), body)
        await asyncio.sleep(_PUBLISHED_AFTER)  # a recording takes its time
        images.add(_LATE_IMAGE, base="busybox")
        await asyncio.sleep(_SECONDS - _PUBLISHED_AFTER)
        running.cancel()
        await asyncio.wait([running])
    recorder.write()


def _unit(name: str) -> GPUUnit:
    spec = {
        "specName": "recorded",
        "cpu": "10m",
        "memory": "64Mi",
        "image": "busybox:1.36",
        "nodeSelector": {_REAL_NODE: "true"},
        "tolerations": [{"key": _REAL_NODE, "operator": "Exists"}],
        **_UNITS[name],
    }
    return decode(GPUUnit, {"metadata": {"name": name, "namespace": _NAMESPACE, "generation": 1}, "spec": spec})


@frozen
class Recorder:
    """The steps of each unit: the time, and an object as it was then, None if it was deleted."""

    steps: dict[str, list[dict[str, Any]]]

    def add(self, what: str, change: Change[dict[str, Any]]) -> None:
        state = change.after if change.after is not None else change.before
        if state is None or (unit := _unit_of(what, state)) not in self.steps:
            return
        steps = self.steps[unit]
        step = {what: change.after} if change.after is not None else {what: None, "name": change.key.name}
        earlier = [one for one in steps if what in one and (one[what] or {}).get("metadata") == state["metadata"]]
        if earlier and earlier[-1][what] == change.after:
            return  # a change of something that is not recorded
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        steps.append({"at": at, **step})

    def write(self) -> None:
        _RECORDED.mkdir(exist_ok=True)
        for name, steps in self.steps.items():
            lines = [json.dumps(step, separators=(",", ":"), sort_keys=True) for step in steps]
            (_RECORDED / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
            sys.stdout.write(f"{name}: {len(steps)} steps\n")


def _unit_of(what: str, state: Mapping[str, Any]) -> str:
    if what == "event":
        # unit-NAME-HASH-SUFFIX
        return str(state["regarding"]["name"]).removeprefix("unit-").rpartition("-")[0].rpartition("-")[0]
    if what == "deployment":
        return str(state["metadata"]["name"]).removeprefix("unit-")
    return str(state["metadata"]["labels"][UNIT_LABEL])


def _kept(raw: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: raw[name] for name in names if name in raw}


def _deployment(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "metadata": _kept(raw["metadata"], "name", "namespace", "generation"),
        "spec": {"selector": {}, "template": {}, **_kept(raw["spec"], "minReadySeconds", "progressDeadlineSeconds")},
        "status": raw.get("status") or {},
    }


def _pod(raw: Mapping[str, Any]) -> dict[str, Any]:
    metadata, status = raw["metadata"], raw.get("status") or {}
    owners = [_kept(owner, "name", "controller") for owner in metadata.get("ownerReferences") or ()]
    kept = _kept(metadata, "name", "namespace", "creationTimestamp", "deletionTimestamp")
    conditions = [
        _kept(condition, "type", "status", "reason", "message", "lastTransitionTime")
        for condition in status.get("conditions") or ()
        if condition["type"] in {"PodScheduled", "Ready"}
    ]
    containers = [
        {
            **_kept(container, "name", "ready", "restartCount"),
            "state": _without_id(container.get("state") or {}),
            "lastState": _without_id(container.get("lastState") or {}),
        }
        for container in status.get("containerStatuses") or ()
    ]
    return {
        "metadata": {**kept, "labels": _kept(metadata["labels"], UNIT_LABEL), "ownerReferences": owners},
        "spec": _kept(raw["spec"], "nodeName"),
        "status": {
            **_kept(status, "phase", "reason", "message"),
            "conditions": conditions,
            "containerStatuses": containers,
        },
    }


def _without_id(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {key: value for key, value in details.items() if key != "containerID"} for name, details in state.items()
    }


def _event(raw: Mapping[str, Any]) -> dict[str, Any]:
    times = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "eventTime", "series")
    return {
        "metadata": _kept(raw["metadata"], "name", "namespace", "creationTimestamp"),
        "regarding": _kept(raw["regarding"], "kind", "name"),
        **_kept(raw, "reason", "note", *times),
    }


if __name__ == "__main__":
    main()
