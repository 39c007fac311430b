"""The configuration of a real node's programs, as pure functions of its layout."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gpuruntime.testing.cluster.components import SERVICES
from gpuruntime.testing.cluster.pki import KeyPair
from gpuruntime.testing.node.addresses import API_PORT, Addresses
from gpuruntime.testing.node.dns import DNS_ADDRESS
from gpuruntime.testing.node.forwarder import __file__ as forwarder_script

__all__ = [
    "PAUSE_IMAGE",
    "REAL_NODE",
    "NodeLayout",
    "cni",
    "containerd",
    "gpus_command",
    "hosts",
    "init_plan",
    "kube_proxy",
    "kubelet",
    "kubelet_command",
]

REAL_NODE = "gpuruntime.local/real-node"
PAUSE_IMAGE = "gpuruntime.local/pause:1"
_VOLUMES = "/var/lib/volumes"
_REGISTRY_PORT = 5000
_SOCKET = "/run/containerd/containerd.sock"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The values that the kubelet would set for the whole machine.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@frozen
class NodeLayout:
    """The files of a real node, and how it appears in the cluster. `taints` maps keys to effects."""

    name: str
    directory: Path
    binaries: Path
    images: Path
    runc: Path
    addresses: Addresses
    authority: Path
    serving: KeyPair
    api_port: int
    snapshotter: str = "overlayfs"
    labels: Mapping[str, str] = field(factory=dict)
    taints: Mapping[str, str] = field(factory=dict)
    kubelet: Mapping[str, Any] = field(factory=dict)
    gpus: int = 0

    def config(self, name: str) -> Path:
        return self.directory / "config" / name

    def kubeconfig(self, program: str) -> Path:
        return self.config(f"{program}.kubeconfig")

    def log(self, program: str) -> Path:
        return self.directory / "logs" / f"{program}.log"

    @property
    def state(self) -> Mapping[str, Path]:
        """The directories by the paths that they have on the node, where programs have fixed or need short paths."""
        return {f"/var/lib/{name}": self.directory / name for name in ("containerd", "kubelet", "volumes")}


def kubelet(layout: NodeLayout) -> dict[str, Any]:
    """The kubelet's configuration; `layout.kubelet` replaces or adds fields."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.addresses.node,
        "containerRuntimeEndpoint": f"unix://{_SOCKET}",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        # With a root of its own, the kubelet accounts by pod and quality of service on both versions of cgroups.
        "cgroupRoot": layout.addresses.cgroup,
        "tlsCertFile": str(layout.serving.certificate),
        "tlsPrivateKeyFile": str(layout.serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        # Empty: pods must not ask the name servers of the machine, which they do not reach.
        "resolvConf": str(layout.config("resolv.conf")),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "registerWithTaints": [{"key": key, "effect": effect} for key, effect in layout.taints.items()],
        # The disk is the machine's: how full it is must not decide whether a test passes.
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "failSwapOn": False,
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 1000,
        "kubeAPIBurst": 2000,
        **layout.kubelet,
    }


def kubelet_command(layout: NodeLayout) -> list[str]:
    labels = {REAL_NODE: "true", **layout.labels}
    flags = {
        "config": layout.config("kubelet.yaml"),
        "kubeconfig": layout.kubeconfig("kubelet"),
        "hostname-override": layout.name,
        "node-ip": layout.addresses.node,
        "root-dir": "/var/lib/kubelet",
        "node-labels": ",".join(f"{key}={value}" for key, value in labels.items()),
    }
    return [str(layout.binaries / "kubelet"), *(f"--{name}={value}" for name, value in flags.items())]


def gpus_command(layout: NodeLayout) -> list[str]:
    """The driver of the fake GPUs, for dynamic resource allocation."""
    flags = {"kubeconfig": layout.kubeconfig("agent"), "node": layout.name, "gpus": layout.gpus}
    return [str(layout.binaries / "gpus"), *(f"--{name}={value}" for name, value in flags.items())]


def kube_proxy(layout: NodeLayout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(layout.kubeconfig("kube-proxy"))},
        "hostnameOverride": layout.name,
        "bindAddress": layout.addresses.node,
        "healthzBindAddress": f"{layout.addresses.node}:10256",
        "clusterCIDR": layout.addresses.pods,
        # Zero leaves the limits as they are: a network namespace cannot write those of the machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def containerd(layout: NodeLayout) -> str:
    """The configuration of containerd, in TOML: strings are written as JSON, which TOML reads."""
    cri = "plugins.'io.containerd.cri.v1"
    tables: dict[str, dict[str, Any]] = {
        "": {"version": 3, "root": "/var/lib/containerd", "state": "/run/containerd"},
        "grpc": {"address": _SOCKET},
        # Without it, containerd makes /opt/containerd on the machine.
        "plugins.'io.containerd.internal.v1.opt'": {"path": "/var/lib/containerd/opt"},
        "plugins.'io.containerd.nri.v1.nri'": {"disable": True},
        # The other way to pull, containerd's transfer service, unpacks with its default snapshotter alone.
        f"{cri}.images'": {"snapshotter": layout.snapshotter, "use_local_image_pull": True},
        f"{cri}.images'.pinned_images": {"sandbox": PAUSE_IMAGE},
        f"{cri}.images'.registry": {"config_path": str(layout.config("registries"))},
        f"{cri}.runtime'": {
            "restrict_oom_score_adj": True,
            "disable_apparmor": True,
            "enable_cdi": True,
            "cdi_spec_dirs": ["/run/cdi"],
        },
        f"{cri}.runtime'.containerd": {"default_runtime_name": "runc"},
        f"{cri}.runtime'.containerd.runtimes.runc": {"runtime_type": "io.containerd.runc.v2"},
        f"{cri}.runtime'.containerd.runtimes.runc.options": {"BinaryName": str(layout.runc), "SystemdCgroup": False},
        f"{cri}.runtime'.cni": {"bin_dirs": [str(layout.binaries)], "conf_dir": str(layout.config("cni"))},
    }
    return "\n".join(_toml(name, values) for name, values in tables.items())


def hosts() -> str:
    """The configuration of every registry: all names resolve at the node's own one, and nothing is asked elsewhere."""
    registry = f"http://127.0.0.1:{_REGISTRY_PORT}"
    return "\n".join(
        [
            _toml("", {"server": registry}),
            _toml(f"host.{json.dumps(registry)}", {"capabilities": ["pull", "resolve"]}),
        ]
    )


def cni(layout: NodeLayout) -> dict[str, Any]:
    """The pods' network: a link per pod, all traffic routed by the node."""
    address = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": layout.addresses.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": address}],
    }


def init_plan(layout: NodeLayout, environ: Mapping[str, str]) -> dict[str, Any]:
    """What the node's process 1 does; see `init`."""
    addresses = layout.addresses
    python = [sys.executable]
    forwarder = [forwarder_script, addresses.machine, str(API_PORT), "127.0.0.1", str(layout.api_port)]
    registry = ["-m", "gpuruntime.testing.images.registry", str(layout.images), "--port", str(_REGISTRY_PORT)]
    agent = ["-m", "gpuruntime.testing.node.agent", layout.name, str(layout.kubeconfig("agent")), _VOLUMES]
    programs: list[dict[str, Any]] = [
        {"name": "forwarder", "argv": [*python, "-I", *forwarder], "outside": True},
        {
            "name": "containerd",
            "argv": [str(layout.binaries / "containerd"), "--config", str(layout.config("containerd.toml"))],
        },
        {"name": "registry", "argv": [*python, *registry]},
        {
            "name": "kube-proxy",
            "argv": [str(layout.binaries / "kube-proxy"), f"--config={layout.config('kube-proxy.yaml')}"],
        },
        {"name": "kubelet", "argv": kubelet_command(layout), "after": _SOCKET},
        {"name": "agent", "argv": [*python, *agent]},
    ]
    if layout.gpus:
        programs.append({"name": "gpus", "argv": gpus_command(layout)})
    scratch = str(layout.directory / "scratch")
    path = [str(layout.binaries), environ.get("PATH", ""), _DEFAULT_PATH]
    return {
        "name": layout.name,
        "link": addresses.link,
        "machine": addresses.machine,
        "node": addresses.node,
        "pods": addresses.pods,
        "services": SERVICES,
        "covered": ["/run", "/var/lib", "/var/log"],
        "binds": {target: str(source) for target, source in layout.state.items()},
        "kept": sorted({str(path) for path in _needed(layout)}),
        "kernel_settings": _KERNEL_SETTINGS,
        "environment": {**environ, "PATH": os.pathsep.join(path), "HOME": scratch, "TMPDIR": scratch, "GOGC": "400"},
        "programs": [{**program, "log": str(layout.log(program["name"]))} for program in programs],
    }


def _needed(layout: NodeLayout) -> list[Path]:
    """The directories that programs of the node read, wherever they are on the machine."""
    package = Path(forwarder_script).parents[3]
    python = [Path(sys.prefix), Path(sys.base_prefix)]
    return [
        path.resolve()
        for path in (layout.directory, layout.binaries, layout.images, layout.authority.parent, package, *python)
    ]


def _toml(table: str, values: Mapping[str, Any]) -> str:
    lines = [f"[{table}]"] if table else []
    return "\n".join([*lines, *(f"{name} = {_toml_value(value)}" for name, value in values.items()), ""])


def _toml_value(value: Any) -> str:
    """JSON of a string, a list or a number, which TOML reads as well if nothing is escaped but what must be."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
