"""Generated units and renderings."""

from typing import Any

from hypothesis import strategies as st

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, UnitAccess
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.readiness import ExecCheck, GrpcCheck, HttpGetCheck, HttpHeader, ReadinessProbe, TcpSocketCheck
from gpuruntime.api.unit_template import EnvSource, KeyReference, UnitEnv, UnitPort, UnitTemplate
from gpuruntime.desired.rendering import Rendering
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import ObjectMeta

__all__ = ["OBJECT_NAMES", "TEXTS", "renderings", "units"]

_LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
OBJECT_NAMES = st.lists(_LABELS, min_size=1, max_size=4).map(".".join)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
_SHORT = st.sampled_from(["", "a", "b", "A", "a-b", "a b", "nvidia.com/gpu", "example.org/a", "..", "0", "café"])
_AMOUNTS = st.sampled_from(["0.0001", "500m", "4", "1.5Gi", "16Gi", "1e3", "100.5M", 2, "0", "lots", "1e40", "3n"])
_NUMBERS = st.sampled_from([-1, 0, 1, 2, 80, 443, 8080, 65535, 65536])


def _struct(cls: Any, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(cls, **fields)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3).map(tuple)


_PORT_NAMES = st.sampled_from(["http", "dns", "a-1", "8080", "too-long-for-a-port"])
_REFERENCES = _struct(KeyReference, name=_SHORT, key=_SHORT, optional=_maybe(st.booleans()))
_ENVS = _struct(
    UnitEnv,
    name=st.sampled_from(["A", "B", "C_1", "GPU_COUNT", "1A", "..A", "", "a.b-c"]),
    value=_maybe(TEXTS),
    value_from=_maybe(_struct(EnvSource, secret_key_ref=_maybe(_REFERENCES), config_map_key_ref=_maybe(_REFERENCES))),
)
_PORTS = _struct(UnitPort, name=_PORT_NAMES, port=_NUMBERS, protocol=st.sampled_from(["TCP", "TCP", "UDP", "QUIC"]))
_HEADERS = _struct(HttpHeader, name=st.sampled_from(["Host", "X-A", "a b"]), value=TEXTS)
_PROBES = _struct(
    ReadinessProbe,
    http_get=_maybe(
        _struct(
            HttpGetCheck,
            port=_NUMBERS | _PORT_NAMES,
            path=_maybe(st.sampled_from(["/", "/healthz?a=b", ""])),
            scheme=_maybe(st.sampled_from(["HTTP", "HTTPS", "http"])),
            http_headers=_some(_HEADERS),
        )
    ),
    tcp_socket=_maybe(_struct(TcpSocketCheck, port=_NUMBERS | _PORT_NAMES)),
    exec=_maybe(_struct(ExecCheck, command=_some(TEXTS))),
    grpc=_maybe(_struct(GrpcCheck, port=_NUMBERS, service=_maybe(TEXTS))),
    initial_delay_seconds=_maybe(_NUMBERS),
    period_seconds=_maybe(_NUMBERS),
    timeout_seconds=_maybe(_NUMBERS),
    success_threshold=_maybe(_NUMBERS),
    failure_threshold=_maybe(_NUMBERS),
)
_TEMPLATES = _struct(
    UnitTemplate,
    command=_some(TEXTS),
    args=_some(TEXTS),
    envs=_some(_ENVS),
    ports=_some(_PORTS),
    readiness_probe=_maybe(_PROBES),
)
_TOLERATIONS = _struct(
    UnitToleration,
    key=_maybe(_SHORT),
    operator=_maybe(st.sampled_from(["Exists", "Equal", "Like"])),
    value=_maybe(_SHORT),
    effect=_maybe(st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute", "Never"])),
    toleration_seconds=_maybe(st.integers(-1, 300)),
)
_SPECS = _struct(
    GPUUnitSpec,
    spec_name=st.sampled_from(["g1.1", "c1", "G_2", "", "g 1"]),
    image=_maybe(st.sampled_from(["python:3.12", "registry.example.org/a@sha256:0", "busy box", ""])),
    cpu=_maybe(_AMOUNTS),
    memory=_maybe(_AMOUNTS),
    gpu=st.sampled_from([0, 0, 1, 8, -1, 4000]),
    gpu_type=_maybe(st.sampled_from(["NVIDIA-A100-SXM4-80GB", "A 100"])),
    template=_TEMPLATES,
    access=_struct(
        UnitAccess, primary_port=_maybe(_PORT_NAMES), scheme=st.sampled_from(["http", "https", "grpc", "gopher"])
    ),
    image_pull_secrets=_some(_struct(PullSecret, name=_SHORT)),
    tolerations=_some(_TOLERATIONS),
    node_selector=st.dictionaries(
        _SHORT | st.just("nvidia.com/gpu.product"), _SHORT | st.just("NVIDIA-A100-SXM4-80GB"), max_size=2
    ).map(FrozenDict),
    runtime_class_name=_maybe(_SHORT),
    termination_grace_period_seconds=st.sampled_from([10, 1, 3600, 0, -1]),
    share_process_namespace=st.booleans(),
)


def units() -> st.SearchStrategy[GPUUnit]:
    """Arbitrary units, nearly all of them invalid; see `valid_units` for valid ones."""
    namespaces = st.sampled_from(["runtime-instance", "runtime-stock", "team-a"])
    metadata = st.builds(ObjectMeta, name=OBJECT_NAMES, namespace=namespaces)
    return st.builds(GPUUnit, metadata=metadata, spec=_SPECS)


def renderings() -> st.SearchStrategy[Rendering]:
    """Renderings of different operator versions and settings."""
    names = st.sampled_from(["busybox:1.36", "busybox:1.37", "registry.example.org/pause:3"])
    return st.builds(
        Rendering,
        stock_image=names,
        default_image=names,
        active_priority_class=st.sampled_from(["gpuruntime-active", "high"]),
        progress_deadline_seconds=st.integers(60, 3600),
    )
