"""The sets of binaries: the control plane, a real node, and NATS. Each is built from Go modules of this package."""

import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

from attrs import field, frozen

__all__ = ["CONTROL_PLANE", "NATS", "NODE", "BinarySet", "GoModule"]

# The variables that the linker sets, by the module whose pinned version they show. "{version}" is v1.36.3.
_STAMPS: Mapping[str, Mapping[str, str]] = {
    "k8s.io/kubernetes": {
        # Clients and kubectl parse the server's version, and fail on the placeholder of a build without version stamps.
        "k8s.io/component-base/version.gitVersion": "{version}",
        "k8s.io/component-base/version.gitMajor": "{major}",
        "k8s.io/component-base/version.gitMinor": "{minor}",
        "k8s.io/component-base/version.gitTreeState": "clean",
        "k8s.io/component-base/version.gitCommit": "unknown",
        "k8s.io/client-go/pkg/version.gitVersion": "{version}",
        "k8s.io/client-go/pkg/version.gitCommit": "unknown",
    },
    "sigs.k8s.io/kwok": {"sigs.k8s.io/kwok/pkg/consts.Version": "{version}"},
    "github.com/containerd/containerd/v2": {"github.com/containerd/containerd/v2/version.Version": "{version}"},
}


@frozen
class GoModule:
    """A Go module of this package, and the binaries that are built in it: name to Go package."""

    path: tuple[str, ...]
    binaries: Mapping[str, str]
    tags: tuple[str, ...] = ()

    @property
    def directory(self) -> Traversable:
        return files("gpuruntime.testing").joinpath(*self.path)

    def pinned(self, name: str) -> str:
        """The version of a dependency, or of the language `go`.

        Raises:
            LookupError: go.mod does not pin it.
        """
        match = re.search(rf"^\s*{re.escape(name)} (\S+)$", (self.directory / "go.mod").read_text(), re.MULTILINE)
        if match is None:
            raise LookupError(f"{'/'.join(self.path)}/go.mod does not pin {name}")
        return match.group(1)

    def linker_flags(self) -> str:
        """The flags of the linker, which together with the sources determine the binaries."""
        requirements = (self.directory / "go.mod").read_text().partition("\n)")[0]
        flags = ["-s", "-w"]
        for name, variables in _STAMPS.items():
            if f"\t{name} " in requirements:
                version = self.pinned(name)
                major, minor = version.removeprefix("v").split(".")[:2]
                values = {"version": version, "major": major, "minor": minor}
                flags += [f"-X {variable}={value.format(**values)}" for variable, value in variables.items()]
        return " ".join(flags)


@frozen
class BinarySet:
    """Binaries that are found or built together. `variable` is an environment variable that names their directory."""

    name: str
    title: str
    minutes: int
    modules: tuple[GoModule, ...]
    variable: str | None = field(default=None)

    @property
    def binaries(self) -> tuple[str, ...]:
        return tuple(name for module in self.modules for name in module.binaries)

    def digest(self) -> str:
        """A hash of everything that determines the binaries: a new pin, flag or source gives another one."""
        digest = hashlib.sha256()
        for module in self.modules:
            digest.update(module.linker_flags().encode())
            for name in ("go.mod", "go.sum"):
                digest.update((module.directory / name).read_bytes())
            for name, package in module.binaries.items():
                if package.startswith("./"):
                    digest.update(f"{name} {package} {module.tags}".encode())
                    digest.update((module.directory / package / "main.go").read_bytes())
        return digest.hexdigest()[:12]


CONTROL_PLANE = BinarySet(
    name="controlplane",
    title="the Kubernetes control plane",
    minutes=10,
    variable="KUBEBUILDER_ASSETS",
    modules=(
        GoModule(
            ("controlplane",),
            {
                "etcd": "go.etcd.io/etcd/server/v3",
                "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
                "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
                "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
                "kubectl": "k8s.io/kubernetes/cmd/kubectl",
                "kwok": "sigs.k8s.io/kwok/cmd/kwok",
            },
        ),
    ),
)
NODE = BinarySet(
    name="node",
    title="the programs of a real node",
    minutes=15,
    modules=(
        GoModule(
            ("nodeplane", "kubernetes"),
            {
                "kubelet": "k8s.io/kubernetes/cmd/kubelet",
                "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
                "gpus": "./gpus",
            },
        ),
        GoModule(
            ("nodeplane", "containers"),
            {
                "pause": "./pause",
                "loopback": "github.com/containernetworking/plugins/plugins/main/loopback",
                "ptp": "github.com/containernetworking/plugins/plugins/main/ptp",
                "host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
                "containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
                "containerd": "github.com/containerd/containerd/v2/cmd/containerd",
                "dns": "./dns",
            },
            # The node uses overlayfs; other snapshotters would only make the build longer.
            tags=("no_btrfs", "no_devmapper", "no_zfs", "no_aufs"),
        ),
    ),
)
NATS = BinarySet(
    name="nats",
    title="the NATS server",
    minutes=2,
    variable="KUBEBUILDER_ASSETS",
    modules=(GoModule(("natsserver",), {"nats-server": "github.com/nats-io/nats-server/v2"}),),
)
