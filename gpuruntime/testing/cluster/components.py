"""The command lines of the control plane's processes, as pure functions of the cluster's layout."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gpuruntime.testing.cluster.nodes import FAKE_NODE_ANNOTATION
from gpuruntime.testing.cluster.pki import Pki

__all__ = [
    "HOST",
    "SCRATCH",
    "SERVER_HOSTS",
    "SERVICES",
    "Layout",
    "apiserver",
    "component_environment",
    "controller_manager",
    "etcd",
    "kwok",
    "kwok_command",
    "scheduler",
    "scheduler_config",
]

HOST = "127.0.0.1"
_SERVICE = "kubernetes.default.svc.cluster.local"
SERVER_HOSTS = (
    "localhost",
    HOST,
    "10.96.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    _SERVICE,
)
SERVICES = "10.96.0.0/16"
SCRATCH = "scratch"
ISSUER = f"https://{_SERVICE}"
# With the default client limits of 20 and 50 requests per second, controllers would be the bottleneck of every test.
_QPS, _BURST = 1000, 2000


@frozen
class Layout:
    """The files and ports of a cluster."""

    directory: Path
    binaries: Path
    pki: Pki
    api_port: int
    etcd_port: int
    audit: bool = False
    apiserver_flags: Mapping[str, str] = field(factory=dict)

    @property
    def server(self) -> str:
        return f"https://{HOST}:{self.api_port}"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    def log(self, component: str) -> Path:
        return self.directory / "logs" / f"{component}.log"

    def kubeconfig(self, component: str) -> Path:
        return self.directory / f"{component}.kubeconfig"


def component_environment(directory: Path) -> dict[str, str]:
    """The environment variables of a component: its home and temporary directory are inside the cluster's directory."""
    scratch = str(directory / SCRATCH)
    # Its life is short: a lazy garbage collector saves a sixth of the CPU time, and costs 150 MB of memory.
    return {"HOME": scratch, "TMPDIR": scratch, "GOGC": "400"}


def etcd(layout: Layout) -> list[str]:
    url = f"https://{HOST}:{layout.etcd_port}"
    return _command(
        layout.binaries,
        "etcd",
        {
            "data-dir": layout.directory / "etcd",
            "listen-client-urls": url,
            "advertise-client-urls": url,
            # There are no peers; port 0 takes any free port.
            "listen-peer-urls": f"http://{HOST}:0",
            "client-cert-auth": "true",
            "trusted-ca-file": layout.pki.authority.certificate,
            "cert-file": layout.pki.etcd.certificate,
            "key-file": layout.pki.etcd.key,
            # The data is discarded with the process, so it need not be durable.
            "unsafe-no-fsync": "true",
        },
    )


def apiserver(layout: Layout) -> list[str]:
    flags: dict[str, Any] = {
        "etcd-servers": f"https://{HOST}:{layout.etcd_port}",
        "etcd-cafile": layout.pki.authority.certificate,
        "etcd-certfile": layout.pki.etcd.certificate,
        "etcd-keyfile": layout.pki.etcd.key,
        "bind-address": HOST,
        "secure-port": layout.api_port,
        "tls-cert-file": layout.pki.apiserver.certificate,
        "tls-private-key-file": layout.pki.apiserver.key,
        # The default is /var/run/kubernetes, outside the cluster's directory.
        "cert-dir": layout.directory / SCRATCH,
        "client-ca-file": layout.pki.authority.certificate,
        # For logs, exec and port-forward of pods on real nodes.
        "kubelet-client-certificate": layout.pki.kubelet_client.certificate,
        "kubelet-client-key": layout.pki.kubelet_client.key,
        "kubelet-certificate-authority": layout.pki.authority.certificate,
        "kubelet-preferred-address-types": "InternalIP",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "service-account-issuer": ISSUER,
        "service-account-key-file": layout.pki.tokens.certificate,
        "service-account-signing-key-file": layout.pki.tokens.key,
        "service-cluster-ip-range": SERVICES,
        # A loopback address cannot be the endpoint of the Service `kubernetes`.
        "endpoint-reconciler-type": "none",
        "allow-privileged": "true",
        "profiling": "false",
    }
    if layout.audit:
        flags["audit-policy-file"] = files("gpuruntime.testing") / "controlplane" / "audit-policy.yaml"
        flags["audit-log-path"] = layout.audit_log
        # Writes the audit line of a request before the request is handled.
        flags["audit-log-mode"] = "blocking-strict"
        # In megabytes: readers use file offsets, so the file must never be rotated.
        flags["audit-log-maxsize"] = 1_000_000
    return _command(layout.binaries, "kube-apiserver", {**flags, **layout.apiserver_flags})


def controller_manager(layout: Layout) -> list[str]:
    kubeconfig = layout.kubeconfig("kube-controller-manager")
    return _command(
        layout.binaries,
        "kube-controller-manager",
        {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
            "secure-port": 0,
            "use-service-account-credentials": "true",
            "service-account-private-key-file": layout.pki.tokens.key,
            "root-ca-file": layout.pki.authority.certificate,
            "cluster-signing-cert-file": layout.pki.authority.certificate,
            "cluster-signing-key-file": layout.pki.authority.key,
            # The default is below /usr/libexec, and would be created there if this runs as root.
            "flex-volume-plugin-dir": layout.directory / SCRATCH / "volume-plugins",
            "kube-api-qps": _QPS,
            "kube-api-burst": _BURST,
        },
    )


def scheduler(layout: Layout) -> list[str]:
    return _command(
        layout.binaries, "kube-scheduler", {"config": layout.directory / "kube-scheduler.yaml", "secure-port": 0}
    )


def scheduler_config(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfig("kube-scheduler")),
            "qps": _QPS,
            "burst": _BURST,
        },
        "leaderElection": {"leaderElect": False},
    }


def kwok(layout: Layout) -> list[str]:
    return kwok_command(layout.binaries, layout.kubeconfig("kwok"))


def kwok_command(binaries: Path, kubeconfig: Path) -> list[str]:
    """The command of kwok, which simulates the kubelets of fake nodes in any cluster."""
    flags = {
        "kubeconfig": kubeconfig,
        "config": files("gpuruntime.testing") / "controlplane" / "stages.yaml",
        "manage-all-nodes": "false",
        "manage-nodes-with-annotation-selector": f"{FAKE_NODE_ANNOTATION}=fake",
        # Without node leases, Kubernetes declares the nodes and their pods lost after 40 s.
        "node-lease-duration-seconds": 40,
    }
    return _command(binaries, "kwok", flags)


def _command(binaries: Path, component: str, flags: Mapping[str, Any]) -> list[str]:
    return [str(binaries / component), *(f"--{name}={value}" for name, value in flags.items())]
