"""Invalid specs of units, with the path of the violation.

The generated CRD rejects those in `REJECTED_BY_SERVER`. It accepts those in `ACCEPTED_BY_SERVER`, which only
the checks in Python reject.
"""

from typing import Any

from attrs import frozen

__all__ = ["ACCEPTED_BY_SERVER", "REJECTED_BY_SERVER", "InvalidSpec", "unit_with"]


@frozen
class InvalidSpec:
    """The fields that make a spec invalid, and the path of the violation without its index."""

    name: str
    spec: dict[str, Any]
    path: str


def unit_with(spec: dict[str, Any], namespace: str) -> dict[str, Any]:
    """A unit with these fields in its spec, as JSON."""
    return {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": "faulty", "namespace": namespace},
        "spec": {"specName": "g1.1", **spec},
    }


def _template(**fields: Any) -> dict[str, Any]:
    return {"template": fields}


def _probe(**fields: Any) -> dict[str, Any]:
    return _template(ports=[{"name": "http", "port": 80}], readinessProbe=fields)


def _env(**fields: Any) -> dict[str, Any]:
    return _template(envs=[{"name": "A", **fields}])


def _mount(path: str, **others: Any) -> dict[str, Any]:
    return {"storageMounts": [{"name": "data", "mountPath": path, **others}]}


def _worker(**fields: Any) -> dict[str, Any]:
    return {"serverless": {"requestID": "hello", **fields}}


_MOUNT_PATH = "spec.storageMounts.mountPath"
_FRAMEWORK = "spec.serverless.framework"
_PROBE = "spec.template.readinessProbe"
_SECRET = {"secretKeyRef": {"name": "hub", "key": "token"}}

REJECTED_BY_SERVER = (
    InvalidSpec("no spec name", {"specName": ""}, "spec.specName"),
    InvalidSpec("a spec name with a space", {"specName": "g 1"}, "spec.specName"),
    InvalidSpec("a spec name that is too long", {"specName": "g" * 64}, "spec.specName"),
    InvalidSpec("an empty image", {"image": ""}, "spec.image"),
    InvalidSpec("an image with a space", {"image": "busy box"}, "spec.image"),
    InvalidSpec("no quantity", {"memory": "not-a-quantity"}, "spec.memory"),
    InvalidSpec("no memory at all", {"memory": "0Gi"}, "spec.memory"),
    InvalidSpec("less than no memory", {"memory": "-1Gi"}, "spec.memory"),
    InvalidSpec("no cpu at all", {"cpu": 0}, "spec.cpu"),
    InvalidSpec("NUL in a value", _env(value="a\0b"), "spec.template.envs.value"),
    InvalidSpec("NUL in an argument", _template(args=["a", "b\0"]), "spec.template.args"),
    InvalidSpec("NUL in a command", _template(command=["\0"]), "spec.template.command"),
    InvalidSpec("NUL in the command of a probe", _probe(exec={"command": ["a\0"]}), f"{_PROBE}.exec.command"),
    InvalidSpec(
        "a line break in the path of a probe", _probe(httpGet={"port": 80, "path": "/a\nb"}), f"{_PROBE}.httpGet.path"
    ),
    InvalidSpec(
        "a line break in a header of a probe",
        _probe(httpGet={"port": 80, "httpHeaders": [{"name": "A", "value": "b\r\nC: d"}]}),
        f"{_PROBE}.httpGet.httpHeaders.value",
    ),
    InvalidSpec("NUL in a service of gRPC", _probe(grpc={"port": 80, "service": "a\0"}), f"{_PROBE}.grpc.service"),
    InvalidSpec("an unknown security profile", {"securityProfile": "restricted"}, "spec.securityProfile"),
    InvalidSpec("less than no GPU", {"gpu": -1}, "spec.gpu"),
    InvalidSpec("a GPU type that is no label value", {"gpuType": "A100 80GB"}, "spec.gpuType"),
    InvalidSpec(
        "two GPU types",
        {"gpuType": "A", "nodeSelector": {"nvidia.com/gpu.product": "B"}},
        "spec.nodeSelector[nvidia.com/gpu.product]",
    ),
    InvalidSpec("a variable without a name", _template(envs=[{"name": ""}]), "spec.template.envs.name"),
    InvalidSpec("a variable that begins with a digit", _template(envs=[{"name": "1A"}]), "spec.template.envs.name"),
    InvalidSpec("a variable of the operator's", _template(envs=[{"name": "GPU_COUNT"}]), "spec.template.envs.name"),
    InvalidSpec("a variable twice", _template(envs=[{"name": "A"}, {"name": "A"}]), "spec.template.envs"),
    InvalidSpec("two values of a variable", _env(value="x", valueFrom=_SECRET), "spec.template.envs"),
    InvalidSpec("a value from nowhere", _env(valueFrom={}), "spec.template.envs.valueFrom"),
    InvalidSpec(
        "a value from two places",
        _env(valueFrom={**_SECRET, "configMapKeyRef": {"name": "hub", "key": "token"}}),
        "spec.template.envs.valueFrom",
    ),
    InvalidSpec(
        "a key with a slash",
        _env(valueFrom={"secretKeyRef": {"name": "hub", "key": "a/b"}}),
        "spec.template.envs.valueFrom.secretKeyRef.key",
    ),
    InvalidSpec(
        "a port name that is too long", _template(ports=[{"name": "a" * 16, "port": 1}]), "spec.template.ports.name"
    ),
    InvalidSpec("a port name of digits", _template(ports=[{"name": "8080", "port": 1}]), "spec.template.ports.name"),
    InvalidSpec(
        "a port name with two dashes", _template(ports=[{"name": "a--b", "port": 1}]), "spec.template.ports.name"
    ),
    InvalidSpec("port 0", _template(ports=[{"name": "a", "port": 0}]), "spec.template.ports.port"),
    InvalidSpec("port 65536", _template(ports=[{"name": "a", "port": 65536}]), "spec.template.ports.port"),
    InvalidSpec(
        "an unknown protocol",
        _template(ports=[{"name": "a", "port": 1, "protocol": "QUIC"}]),
        "spec.template.ports.protocol",
    ),
    InvalidSpec(
        "a port name twice",
        _template(ports=[{"name": "a", "port": 1}, {"name": "a", "port": 2}]),
        "spec.template.ports",
    ),
    InvalidSpec(
        "a port number twice",
        _template(ports=[{"name": "a", "port": 1}, {"name": "b", "port": 1}]),
        "spec.template.ports",
    ),
    InvalidSpec("a probe that asks nothing", _probe(periodSeconds=1), "spec.template.readinessProbe"),
    InvalidSpec(
        "a probe that asks twice",
        _probe(tcpSocket={"port": 1}, exec={"command": ["a"]}),
        "spec.template.readinessProbe",
    ),
    InvalidSpec(
        "a probe of a port that is not there",
        _probe(httpGet={"port": "web"}),
        "spec.template.readinessProbe.httpGet.port",
    ),
    InvalidSpec(
        "a probe of an impossible port", _probe(tcpSocket={"port": 0}), "spec.template.readinessProbe.tcpSocket.port"
    ),
    InvalidSpec("a probe without a command", _probe(exec={"command": []}), "spec.template.readinessProbe.exec.command"),
    InvalidSpec("a probe of gRPC on port 0", _probe(grpc={"port": 0}), "spec.template.readinessProbe.grpc.port"),
    InvalidSpec(
        "a probe that never asks",
        _probe(tcpSocket={"port": 1}, periodSeconds=0),
        "spec.template.readinessProbe.periodSeconds",
    ),
    InvalidSpec(
        "a probe by an unknown scheme",
        _probe(httpGet={"port": 1, "scheme": "http"}),
        "spec.template.readinessProbe.httpGet.scheme",
    ),
    InvalidSpec(
        "a probe with a header that is none",
        _probe(httpGet={"port": 1, "httpHeaders": [{"name": "a b", "value": ""}]}),
        "spec.template.readinessProbe.httpGet.httpHeaders.name",
    ),
    InvalidSpec("a primary port without ports", {"access": {"primaryPort": "http"}}, "spec.access.primaryPort"),
    InvalidSpec(
        "a primary port of UDP",
        {**_template(ports=[{"name": "dns", "port": 53, "protocol": "UDP"}]), "access": {"primaryPort": "dns"}},
        "spec.access.primaryPort",
    ),
    InvalidSpec("an unknown scheme", {"access": {"scheme": "gopher"}}, "spec.access.scheme"),
    InvalidSpec("a pull secret twice", {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "spec.imagePullSecrets"),
    InvalidSpec("a toleration of nothing", {"tolerations": [{"effect": "NoSchedule"}]}, "spec.tolerations.key"),
    InvalidSpec(
        "a toleration of any value and of one",
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "spec.tolerations.value",
    ),
    InvalidSpec(
        "a toleration for a while of what does not evict",
        {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]},
        "spec.tolerations.effect",
    ),
    InvalidSpec(
        "an unknown operator", {"tolerations": [{"key": "a", "operator": "Like"}]}, "spec.tolerations.operator"
    ),
    InvalidSpec("an unknown effect", {"tolerations": [{"key": "a", "effect": "Never"}]}, "spec.tolerations.effect"),
    InvalidSpec("a worker of nothing", {"serverless": {}}, "spec.serverless.requestID"),
    InvalidSpec(
        "an enabled worker of nothing", {"serverless": {"enabled": True, "requestID": ""}}, "spec.serverless.requestID"
    ),
    InvalidSpec("a requestID with a capital", _worker(requestID="Hello"), "spec.serverless.requestID"),
    InvalidSpec("a requestID that is too long", _worker(requestID="a" * 129), "spec.serverless.requestID"),
    InvalidSpec(
        "a socket elsewhere",
        _worker(framework={"socketPath": "/var/run/framework.sock"}),
        f"{_FRAMEWORK}.socketPath",
    ),
    InvalidSpec(
        "a socket that climbs",
        _worker(framework={"socketPath": "/tmp/serverless-framework/../a.sock"}),  # noqa: S108
        f"{_FRAMEWORK}.socketPath",
    ),
    InvalidSpec("a relative path", _worker(framework={"invokePath": "invoke"}), f"{_FRAMEWORK}.invokePath"),
    InvalidSpec("the path of everything", _worker(framework={"healthPath": "/"}), f"{_FRAMEWORK}.healthPath"),
    InvalidSpec("fewer workers than none", _worker(minAvailableCount=-1), "spec.serverless.minAvailableCount"),
    InvalidSpec("a mount at the root", _mount("/"), _MOUNT_PATH),
    InvalidSpec("a relative mount", _mount("data"), _MOUNT_PATH),
    InvalidSpec("a mount with a slash at the end", _mount("/data/"), _MOUNT_PATH),
    InvalidSpec("a mount with an empty part", _mount("/a//b"), _MOUNT_PATH),
    InvalidSpec("a mount with a dot", _mount("/a/./b"), _MOUNT_PATH),
    InvalidSpec("a mount that climbs", _mount("/a/../dev"), _MOUNT_PATH),
    InvalidSpec("a mount with a colon", _mount("/a:b"), _MOUNT_PATH),
    InvalidSpec("a mount with a line break", _mount("/a\nb"), _MOUNT_PATH),
    InvalidSpec("a mount over the shared memory", _mount("/dev/shm"), _MOUNT_PATH),  # noqa: S108
    InvalidSpec("a mount over the devices", _mount("/dev"), _MOUNT_PATH),
    InvalidSpec("a mount over the processes", _mount("/proc/self"), _MOUNT_PATH),
    InvalidSpec("a mount of a storage that has no DNS label", _mount("/data", name="a.b"), "spec.storageMounts.name"),
    InvalidSpec(
        "a storage twice",
        {"storageMounts": [{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}]},
        "spec.storageMounts",
    ),
    InvalidSpec(
        "two mounts at one path",
        {"storageMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/a"}]},
        "spec.storageMounts",
    ),
    InvalidSpec(
        "a mount in another",
        {"storageMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/a/b"}]},
        "spec.storageMounts",
    ),
)

ACCEPTED_BY_SERVER = (
    InvalidSpec("a part of a byte of memory", {"memory": "0.000000001"}, "spec.memory"),
    InvalidSpec("memory in thousandths of a byte", {"memory": "512m"}, "spec.memory"),
    InvalidSpec("memory without its unit", {"memory": 16}, "spec.memory"),
    InvalidSpec("more memory than any machine has", {"memory": "1e30"}, "spec.memory"),
    InvalidSpec("more memory than there are bytes", {"memory": "1e40"}, "spec.memory"),
    InvalidSpec("less cpu than a thousandth", {"cpu": "0.0001"}, "spec.cpu"),
    InvalidSpec("more cpu than any machine has", {"cpu": "1e7"}, "spec.cpu"),
    InvalidSpec("more cpu than any machine has, as a number", {"cpu": 10_000_000}, "spec.cpu"),
    InvalidSpec("a node label that is none", {"nodeSelector": {"a b": "c"}}, "spec.nodeSelector"),
    InvalidSpec("a node label with a value that is none", {"nodeSelector": {"a": "b c"}}, "spec.nodeSelector[a]"),
    InvalidSpec(
        "a tainted key that is none", {"tolerations": [{"key": "a b", "operator": "Exists"}]}, "spec.tolerations.key"
    ),
    InvalidSpec("a pull secret with a capital", {"imagePullSecrets": [{"name": "Hub"}]}, "spec.imagePullSecrets.name"),
    InvalidSpec("a runtime class with a capital", {"runtimeClassName": "NVIDIA"}, "spec.runtimeClassName"),
    InvalidSpec("a variable of two dots", _template(envs=[{"name": "..A"}]), "spec.template.envs.name"),
    InvalidSpec(
        "a Secret with a capital",
        _env(valueFrom={"secretKeyRef": {"name": "Hub", "key": "token"}}),
        "spec.template.envs.valueFrom.secretKeyRef.name",
    ),
    InvalidSpec(
        "a key of two dots",
        _env(valueFrom={"configMapKeyRef": {"name": "site", "key": ".."}}),
        "spec.template.envs.valueFrom.configMapKeyRef.key",
    ),
    InvalidSpec("more than an annotation holds", _template(args=["x" * 100_000]), "spec"),
)
