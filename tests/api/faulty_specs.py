"""Invalid specs of units, with the path of the problem.

The API server rejects the `REFUSED` ones by the generated CRD. It accepts the `UNSEEN` ones; only
`gpuruntime.desired.validation` rejects them.
"""

from typing import Any

from attrs import frozen

__all__ = ["REFUSED", "UNSEEN", "Fault", "unit_with"]


@frozen
class Fault:
    """The fields that make a spec invalid, and the path of the problem without its index."""

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


_PROBE = "spec.template.readinessProbe"
_SECRET = {"secretKeyRef": {"name": "hub", "key": "token"}}

REFUSED = (
    Fault("no spec name", {"specName": ""}, "spec.specName"),
    Fault("a spec name with a space", {"specName": "g 1"}, "spec.specName"),
    Fault("a spec name that is too long", {"specName": "g" * 64}, "spec.specName"),
    Fault("an empty image", {"image": ""}, "spec.image"),
    Fault("an image with a space", {"image": "busy box"}, "spec.image"),
    Fault("no quantity", {"memory": "not-a-quantity"}, "spec.memory"),
    Fault("no memory at all", {"memory": "0Gi"}, "spec.memory"),
    Fault("less than no memory", {"memory": "-1Gi"}, "spec.memory"),
    Fault("no cpu at all", {"cpu": 0}, "spec.cpu"),
    Fault("NUL in a value", _env(value="a\0b"), "spec.template.envs.value"),
    Fault("NUL in an argument", _template(args=["a", "b\0"]), "spec.template.args"),
    Fault("NUL in a command", _template(command=["\0"]), "spec.template.command"),
    Fault("NUL in the command of a probe", _probe(exec={"command": ["a\0"]}), f"{_PROBE}.exec.command"),
    Fault(
        "a line break in the path of a probe", _probe(httpGet={"port": 80, "path": "/a\nb"}), f"{_PROBE}.httpGet.path"
    ),
    Fault(
        "a line break in a header of a probe",
        _probe(httpGet={"port": 80, "httpHeaders": [{"name": "A", "value": "b\r\nC: d"}]}),
        f"{_PROBE}.httpGet.httpHeaders.value",
    ),
    Fault("NUL in a service of gRPC", _probe(grpc={"port": 80, "service": "a\0"}), f"{_PROBE}.grpc.service"),
    Fault("an unknown security profile", {"securityProfile": "restricted"}, "spec.securityProfile"),
    Fault("less than no GPU", {"gpu": -1}, "spec.gpu"),
    Fault("a GPU type that is no label value", {"gpuType": "A100 80GB"}, "spec.gpuType"),
    Fault(
        "two GPU types",
        {"gpuType": "A", "nodeSelector": {"nvidia.com/gpu.product": "B"}},
        "spec.nodeSelector[nvidia.com/gpu.product]",
    ),
    Fault("a variable without a name", _template(envs=[{"name": ""}]), "spec.template.envs.name"),
    Fault("a variable that begins with a digit", _template(envs=[{"name": "1A"}]), "spec.template.envs.name"),
    Fault("a variable of the operator's", _template(envs=[{"name": "GPU_COUNT"}]), "spec.template.envs.name"),
    Fault("a variable twice", _template(envs=[{"name": "A"}, {"name": "A"}]), "spec.template.envs"),
    Fault("two values of a variable", _env(value="x", valueFrom=_SECRET), "spec.template.envs"),
    Fault("a value from nowhere", _env(valueFrom={}), "spec.template.envs.valueFrom"),
    Fault(
        "a value from two places",
        _env(valueFrom={**_SECRET, "configMapKeyRef": {"name": "hub", "key": "token"}}),
        "spec.template.envs.valueFrom",
    ),
    Fault(
        "a key with a slash",
        _env(valueFrom={"secretKeyRef": {"name": "hub", "key": "a/b"}}),
        "spec.template.envs.valueFrom.secretKeyRef.key",
    ),
    Fault("a port name that is too long", _template(ports=[{"name": "a" * 16, "port": 1}]), "spec.template.ports.name"),
    Fault("a port name of digits", _template(ports=[{"name": "8080", "port": 1}]), "spec.template.ports.name"),
    Fault("a port name with two dashes", _template(ports=[{"name": "a--b", "port": 1}]), "spec.template.ports.name"),
    Fault("port 0", _template(ports=[{"name": "a", "port": 0}]), "spec.template.ports.port"),
    Fault("port 65536", _template(ports=[{"name": "a", "port": 65536}]), "spec.template.ports.port"),
    Fault(
        "an unknown protocol",
        _template(ports=[{"name": "a", "port": 1, "protocol": "QUIC"}]),
        "spec.template.ports.protocol",
    ),
    Fault(
        "a port name twice",
        _template(ports=[{"name": "a", "port": 1}, {"name": "a", "port": 2}]),
        "spec.template.ports",
    ),
    Fault(
        "a port number twice",
        _template(ports=[{"name": "a", "port": 1}, {"name": "b", "port": 1}]),
        "spec.template.ports",
    ),
    Fault("a probe that asks nothing", _probe(periodSeconds=1), "spec.template.readinessProbe"),
    Fault(
        "a probe that asks twice",
        _probe(tcpSocket={"port": 1}, exec={"command": ["a"]}),
        "spec.template.readinessProbe",
    ),
    Fault(
        "a probe of a port that is not there",
        _probe(httpGet={"port": "web"}),
        "spec.template.readinessProbe.httpGet.port",
    ),
    Fault(
        "a probe of an impossible port", _probe(tcpSocket={"port": 0}), "spec.template.readinessProbe.tcpSocket.port"
    ),
    Fault("a probe without a command", _probe(exec={"command": []}), "spec.template.readinessProbe.exec.command"),
    Fault("a probe of gRPC on port 0", _probe(grpc={"port": 0}), "spec.template.readinessProbe.grpc.port"),
    Fault(
        "a probe that never asks",
        _probe(tcpSocket={"port": 1}, periodSeconds=0),
        "spec.template.readinessProbe.periodSeconds",
    ),
    Fault(
        "a probe by an unknown scheme",
        _probe(httpGet={"port": 1, "scheme": "http"}),
        "spec.template.readinessProbe.httpGet.scheme",
    ),
    Fault(
        "a probe with a header that is none",
        _probe(httpGet={"port": 1, "httpHeaders": [{"name": "a b", "value": ""}]}),
        "spec.template.readinessProbe.httpGet.httpHeaders.name",
    ),
    Fault("a primary port without ports", {"access": {"primaryPort": "http"}}, "spec.access.primaryPort"),
    Fault(
        "a primary port of UDP",
        {**_template(ports=[{"name": "dns", "port": 53, "protocol": "UDP"}]), "access": {"primaryPort": "dns"}},
        "spec.access.primaryPort",
    ),
    Fault("an unknown scheme", {"access": {"scheme": "gopher"}}, "spec.access.scheme"),
    Fault("a pull secret twice", {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "spec.imagePullSecrets"),
    Fault("a toleration of nothing", {"tolerations": [{"effect": "NoSchedule"}]}, "spec.tolerations.key"),
    Fault(
        "a toleration of any value and of one",
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "spec.tolerations.value",
    ),
    Fault(
        "a toleration for a while of what does not evict",
        {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]},
        "spec.tolerations.effect",
    ),
    Fault("an unknown operator", {"tolerations": [{"key": "a", "operator": "Like"}]}, "spec.tolerations.operator"),
    Fault("an unknown effect", {"tolerations": [{"key": "a", "effect": "Never"}]}, "spec.tolerations.effect"),
)

UNSEEN = (
    Fault("a part of a byte of memory", {"memory": "0.000000001"}, "spec.memory"),
    Fault("memory in thousandths of a byte", {"memory": "512m"}, "spec.memory"),
    Fault("memory without its unit", {"memory": 16}, "spec.memory"),
    Fault("more memory than any machine has", {"memory": "1e30"}, "spec.memory"),
    Fault("more memory than there are bytes", {"memory": "1e40"}, "spec.memory"),
    Fault("less cpu than a thousandth", {"cpu": "0.0001"}, "spec.cpu"),
    Fault("more cpu than any machine has", {"cpu": "1e7"}, "spec.cpu"),
    Fault("more cpu than any machine has, as a number", {"cpu": 10_000_000}, "spec.cpu"),
    Fault("a node label that is none", {"nodeSelector": {"a b": "c"}}, "spec.nodeSelector"),
    Fault("a node label with a value that is none", {"nodeSelector": {"a": "b c"}}, "spec.nodeSelector"),
    Fault("a tainted key that is none", {"tolerations": [{"key": "a b", "operator": "Exists"}]}, "spec.tolerations"),
    Fault("a pull secret with a capital", {"imagePullSecrets": [{"name": "Hub"}]}, "spec.imagePullSecrets.name"),
    Fault("a runtime class with a capital", {"runtimeClassName": "NVIDIA"}, "spec.runtimeClassName"),
    Fault("a variable of two dots", _template(envs=[{"name": "..A"}]), "spec.template.envs.name"),
    Fault(
        "a Secret with a capital",
        _env(valueFrom={"secretKeyRef": {"name": "Hub", "key": "token"}}),
        "spec.template.envs.valueFrom.secretKeyRef.name",
    ),
    Fault(
        "a key of two dots",
        _env(valueFrom={"configMapKeyRef": {"name": "site", "key": ".."}}),
        "spec.template.envs.valueFrom.configMapKeyRef.key",
    ),
    Fault("more than an annotation holds", _template(args=["x" * 100_000]), "spec"),
)
