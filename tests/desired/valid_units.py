"""Generated units without violations."""

from typing import Any

from hypothesis import strategies as st

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, UnitAccess
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.readiness import ExecCheck, GrpcCheck, HttpGetCheck, HttpHeader, ReadinessProbe, TcpSocketCheck
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.api.unit_template import EnvSource, KeyReference, UnitEnv, UnitPort, UnitTemplate
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import ObjectMeta
from tests.desired.unit_strategies import OBJECT_NAMES, TEXTS

__all__ = ["valid_units"]

_FEW = 3


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _distinct(strategy: st.SearchStrategy[Any], *by: Any) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=_FEW, unique_by=by).map(tuple)


def _name(value: Any) -> Any:
    return value.name


_REFERENCES = st.builds(
    KeyReference,
    name=st.sampled_from(["hub", "site.example"]),
    key=st.sampled_from(["token", "A.b_c-d"]),
    optional=_maybe(st.booleans()),
)
_SOURCES = st.builds(EnvSource, secret_key_ref=_REFERENCES) | st.builds(EnvSource, config_map_key_ref=_REFERENCES)
_ENV_NAMES = st.from_regex(r"[_a-zA-Z][-._a-zA-Z0-9]{0,8}", fullmatch=True)
_ENVS = st.builds(UnitEnv, name=_ENV_NAMES, value=_maybe(TEXTS)) | st.builds(
    UnitEnv, name=_ENV_NAMES, value_from=_SOURCES
)
_PORTS = st.builds(
    UnitPort,
    name=st.sampled_from(["http", "a", "8-b", "grpc-1"]),
    port=st.integers(1, 65535),
    protocol=st.sampled_from(["TCP", "UDP", "SCTP"]),
)
_SERVICES = _maybe(st.sampled_from(["", "a.B"]))
_HEADERS = st.builds(HttpHeader, name=st.sampled_from(["Host", "X-A"]), value=st.sampled_from(["", "b", "c d"]))
_TOLERATIONS = st.sampled_from(
    [
        UnitToleration(operator="Exists"),
        UnitToleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),
        UnitToleration(key="dedicated", value="training"),
        UnitToleration(key="a/b", operator="Equal", effect="NoExecute", toleration_seconds=-1),
    ]
)
_MOUNTS = st.builds(
    StorageMount,
    name=st.sampled_from(["a", "data-1", "0"]),
    mount_path=st.sampled_from(["/data", "/data1", "/a/.b/..c", "/Meine Daten", "/devices", "/dev1", "/var/run/x"]),
    read_only=st.booleans(),
)
_CPUS = st.sampled_from([2, "4", "500m", "0.0015", "1e1", "1m", "1000000"])
_MEMORIES = st.sampled_from([2**20, "16Gi", "1.5Gi", "100.5M", "1048576.5", "1e9", "1Pi"])


@st.composite
def _probes(draw: st.DrawFn, ports: tuple[UnitPort, ...]) -> ReadinessProbe:
    probe_ports = st.integers(1, 65535) | (st.sampled_from(ports).map(_name) if ports else st.nothing())
    handler = draw(
        st.one_of(
            st.fixed_dictionaries({"tcp_socket": st.builds(TcpSocketCheck, port=probe_ports)}),
            st.fixed_dictionaries({"grpc": st.builds(GrpcCheck, port=st.integers(1, 65535), service=_SERVICES)}),
            st.fixed_dictionaries(
                {"exec": st.builds(ExecCheck, command=st.lists(TEXTS, min_size=1, max_size=2).map(tuple))}
            ),
            st.fixed_dictionaries(
                {
                    "http_get": st.builds(
                        HttpGetCheck,
                        port=probe_ports,
                        path=_maybe(st.sampled_from(["/", "/a?b=c"])),
                        scheme=_maybe(st.sampled_from(["HTTP", "HTTPS"])),
                        http_headers=st.lists(_HEADERS, max_size=2).map(tuple),
                    )
                }
            ),
        )
    )
    return ReadinessProbe(
        **handler,
        initial_delay_seconds=draw(_maybe(st.integers(0, 60))),
        period_seconds=draw(_maybe(st.integers(1, 60))),
        failure_threshold=draw(_maybe(st.integers(1, 60))),
    )


@st.composite
def valid_units(draw: st.DrawFn, namespace: str | None = None) -> GPUUnit:
    """A unit without violations, in this namespace or in one of the usual ones."""
    place = namespace or draw(st.sampled_from(["runtime-instance", "runtime-stock", "team-a"]))
    ports = draw(_distinct(_PORTS, _name, lambda port: (port.port, port.protocol)))
    reachable = [port.name for port in ports if port.protocol == "TCP"]
    template = UnitTemplate(
        command=draw(st.lists(TEXTS, max_size=2).map(tuple)),
        args=draw(st.lists(TEXTS, max_size=2).map(tuple)),
        envs=draw(_distinct(_ENVS, _name)),
        ports=ports,
        readiness_probe=draw(_maybe(_probes(ports))),
    )
    spec = GPUUnitSpec(
        draw(st.sampled_from(["g1.1", "c1", "G_2"])),
        image=draw(_maybe(st.sampled_from(["python:3.12", "registry.example.org/a@sha256:0"]))),
        cpu=draw(_maybe(_CPUS)),
        memory=draw(_maybe(_MEMORIES)),
        gpu=draw(st.sampled_from([0, 1, 8])),
        gpu_type=draw(_maybe(st.just("NVIDIA-A100-SXM4-80GB"))),
        template=template,
        access=UnitAccess(
            draw(_maybe(st.sampled_from(reachable)) if reachable else st.none()),
            draw(st.sampled_from(["http", "grpc"])),
        ),
        image_pull_secrets=draw(_distinct(st.builds(PullSecret, name=st.sampled_from(["a", "b.c"])), _name)),
        tolerations=draw(st.lists(_TOLERATIONS, max_size=_FEW).map(tuple)),
        node_selector=draw(st.sampled_from([{}, {"zone": "a"}, {"example.org/empty": ""}]).map(FrozenDict)),
        runtime_class_name=draw(_maybe(st.just("nvidia"))),
        storage_mounts=draw(_distinct(_MOUNTS, _name, lambda mount: mount.mount_path)),
    )
    return GPUUnit(ObjectMeta(name=draw(OBJECT_NAMES), namespace=place), spec)
