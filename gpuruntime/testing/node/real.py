"""A real node in a local cluster: a kubelet and containerd in namespaces of their own, which run containers."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from gpuruntime.testing import assets
from gpuruntime.testing.cluster.access import ClusterAccess, kubeconfig_document
from gpuruntime.testing.cluster.admin import RefusedError
from gpuruntime.testing.cluster.local import ClusterError
from gpuruntime.testing.images import File, ImageStore
from gpuruntime.testing.node import cgroups, configuration
from gpuruntime.testing.node.addresses import Addresses, ReservedNumber
from gpuruntime.testing.node.cluster_objects import ClusterObjects
from gpuruntime.testing.node.configuration import PAUSE_IMAGE, REAL_NODE, NodeLayout
from gpuruntime.testing.node.dns import DNS_COMMAND, DNS_IMAGE, dns_files
from gpuruntime.testing.node.mounts import file_system_of, mounts
from gpuruntime.testing.node.requirements import find_program, require_real_node
from gpuruntime.testing.processes.supervised import ChildProcesses

__all__ = ["NodeError", "RealNode"]

_READY_SECONDS = 60.0
_STATE = ("config", "containerd", "kubelet", "scratch", "volumes")
_KEEPER = "keeper"


class NodeError(ClusterError):
    """The node did not start; the message names the program that failed and its last log line."""


class RealNode:
    """A node that runs containers, in the local cluster of `access`, for the length of a `with` block.

    Guarantees:
        - It is Ready when the block begins. Its pods have logs, exec, port-forward, probes, Services and limits.
        - Processes, mounts, network and nftables are in namespaces of the node. On the machine there are one virtual
          link and one cgroup per hierarchy. When the block ends, or this process dies for any reason, all of it goes.
        - Any number of nodes run side by side, up to 250 on a machine.
        - Images come from `images` alone: each name is looked up there, and nothing is asked elsewhere.
        - The node is tainted with `gpuruntime.local/real-node:NoSchedule` unless `taints` says otherwise, and labelled
          `gpuruntime.local/real-node=true`: only pods that tolerate and select it run there.

    Caveats:
        It needs Linux and root: see `require_real_node`. Pods do not reach the internet, nor pods of another real node.
        If both this process and its supervisor are killed, empty cgroups stay until the next node starts or stops.
    """

    def __init__(
        self,
        access: ClusterAccess,
        directory: Path | None = None,
        *,
        name: str = "real-1",
        labels: Mapping[str, str] | None = None,
        taints: Mapping[str, str] | None = None,
        gpus: int = 0,
        kubelet: Mapping[str, Any] | None = None,
        images: Path | None = None,
        binaries: Path | None = None,
    ) -> None:
        """Prepare a node; nothing is started.

        Args:
            access: the cluster that it joins, one of this machine.
            directory: for state and logs, one node per directory; a temporary one if None.
            name: the name of its Node object, unique in the cluster.
            labels: additional labels.
            taints: keys and effects, in place of the default taint.
            gpus: the number of GPUs that it offers, once as `nvidia.com/gpu` and once as devices of the DeviceClass
                `gpu.nvidia.com`; no hardware is behind them.
            kubelet: fields of the KubeletConfiguration, in addition to ours or in their place.
            images: a directory of images; `images` below its own directory if None.
            binaries: a directory with the node's programs; found or built if None.
        """
        self._access = access
        self._given_directory = directory
        self._given_images = images
        self.name = name
        self._labels = dict(labels or {})
        self._taints = {REAL_NODE: "NoSchedule"} if taints is None else dict(taints)
        self._gpus = gpus
        self._kubelet = dict(kubelet or {})
        self._binaries = binaries
        self._layout: NodeLayout | None = None
        self._keeper = 0
        self._stack = ExitStack()

    @property
    def images(self) -> ImageStore:
        """The images that pods of this node can use."""
        return ImageStore(self._running().images)

    @property
    def layout(self) -> NodeLayout:
        """The files and addresses of the running node."""
        return self._running()

    def __enter__(self) -> Self:
        require_real_node()
        binaries = self._binaries or assets.ensure(of=assets.NODE)
        mounted = cgroups.hierarchies()
        with ExitStack() as stack:
            stack.callback(cgroups.sweep, mounted)
            cgroups.sweep(mounted)
            number = ReservedNumber.first_free()
            stack.callback(number.close)
            temporary = self._given_directory is None
            directory = self._given_directory or Path(tempfile.mkdtemp(prefix="gpuruntime-node-"))
            if temporary:
                # Normally the supervisor removes it; this is for one that was killed.
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
            stack.callback(_delete_state, directory)
            objects = ClusterObjects(self._access.admin(), self.name, number.addresses)
            stack.callback(_delete_objects, objects)
            children = stack.enter_context(
                ChildProcesses(directory, temporary=temporary, inherited=(number.descriptor,))
            )
            self._layout = layout = self._prepare(directory, number.addresses, binaries)
            objects.create()
            keeper = [sys.executable, "-m", "gpuruntime.testing.node.keeper", str(number.addresses.number)]
            self._keeper = children.start(_KEEPER, [*keeper, str(layout.config("init.json"))], layout.log(_KEEPER))
            self._await_ready(children, objects)
            objects.keep_api_traffic_local()
            objects.offer_gpus(self._gpus)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._layout = None

    def signal(self, program: str, number: Signals) -> None:
        """Send a signal to one of the node's programs: SIGSTOP to `kubelet` makes the cluster lose the node.

        A program that ends is started again after a second.
        """
        self._running()
        unshare = _child_processes(self._keeper)
        init = [pid for process in unshare for pid in _child_processes(process)]
        found = [pid for process in init for pid in _child_processes(process) if _process_name(pid) == program]
        if not found:
            raise NodeError(
                f"the node {self.name} runs no program {program!r}: expected kubelet, containerd or kube-proxy"
            )
        for pid in found:
            os.kill(pid, number)

    def _running(self) -> NodeLayout:
        if self._layout is None:
            raise NodeError(f"the node {self.name} is not running: use a `with` block")
        return self._layout

    def _prepare(self, directory: Path, addresses: Addresses, binaries: Path) -> NodeLayout:
        """Write all files that the node reads."""
        # Imported here, because pytest loads the plugin in every run, also without the extra `testing`.
        from gpuruntime.testing.cluster.certificates import Authority  # noqa: PLC0415

        _delete_state(directory)
        shutil.rmtree(directory / "logs", ignore_errors=True)
        authority = Authority.load(self._access.authority.parent)
        layout = NodeLayout(
            name=self.name,
            directory=directory,
            binaries=binaries,
            images=self._given_images or directory / "images",
            runc=Path(find_program("runc") or "runc"),
            addresses=addresses,
            authority=self._access.authority,
            serving=authority.issue(f"{self.name}-kubelet", self.name, hosts=(self.name, addresses.node, "127.0.0.1")),
            api_port=urlsplit(self._access.server).port or 443,
            # An overlay cannot lie on an overlay, the file system of most containers: there, images are copied.
            snapshotter="native" if file_system_of(directory.resolve(), mounts()) == "overlay" else "overlayfs",
            labels=self._labels,
            taints=self._taints,
            kubelet=self._kubelet,
            gpus=self._gpus,
        )
        for path in (
            *layout.state.values(),
            layout.config("cni"),
            layout.config("registries/_default"),
            directory / "scratch",
            directory / "logs",
        ):
            path.mkdir(parents=True)
        users = {
            "kubelet": authority.issue(f"{self.name}-client", f"system:node:{self.name}", groups=("system:nodes",)),
            "kube-proxy": authority.issue(f"{self.name}-kube-proxy", "system:kube-proxy"),
            "agent": authority.issue(f"{self.name}-agent", "node-agent", groups=("system:masters",)),
        }
        for program, pair in users.items():
            document = kubeconfig_document(addresses.server, self._access.authority.read_bytes(), pair.inline())
            # The certificate of the API server does not have the address of the link.
            document["clusters"][0]["cluster"]["tls-server-name"] = "localhost"
            layout.kubeconfig(program).touch(mode=0o600)
            layout.kubeconfig(program).write_text(json.dumps(document))
        texts = {
            "kubelet.yaml": json.dumps(configuration.kubelet(layout), indent=2),
            "kube-proxy.yaml": json.dumps(configuration.kube_proxy(layout), indent=2),
            "containerd.toml": configuration.containerd(layout),
            "registries/_default/hosts.toml": configuration.hosts(),
            "cni/pods.conflist": json.dumps(configuration.cni(layout), indent=2),
            "resolv.conf": "",
            "init.json": json.dumps(configuration.init_plan(layout, os.environ), indent=2),
        }
        for name, text in texts.items():
            layout.config(name).write_text(text)
        ImageStore(layout.images).add(DNS_IMAGE, dns_files(binaries / "dns"), entrypoint=DNS_COMMAND)
        ImageStore(layout.images).add(PAUSE_IMAGE, {"/pause": File(binaries / "pause", 0o755)}, entrypoint=["/pause"])
        return layout

    def _await_ready(self, children: ChildProcesses, objects: ClusterObjects) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while lacking := objects.shortcoming():
            log = self._running().log(_KEEPER)
            if children.exits():
                raise NodeError(f"the node {self.name} ended: {_last_line(log)}; logs: {log.parent}")
            if time.monotonic() > deadline:
                raise NodeError(
                    f"the node {self.name} cannot be used after {_READY_SECONDS:.0f} s: {lacking}; kubelet:"
                    f" {_last_line(self._running().log('kubelet'))}; logs: {log.parent}"
                )
            time.sleep(0.05)  # the answer of a watch would come no earlier


def _delete_state(directory: Path) -> None:
    for name in _STATE:
        shutil.rmtree(directory / name, ignore_errors=True)


def _delete_objects(objects: ClusterObjects) -> None:
    """Delete the node's objects, unless the cluster is gone as well."""
    with contextlib.suppress(OSError, RefusedError):
        objects.delete()


def _child_processes(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def _process_name(process: int) -> str:
    return Path(f"/proc/{process}/comm").read_text().strip()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "no output"
