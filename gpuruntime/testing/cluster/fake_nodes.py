"""Fake GPU nodes in an existing cluster such as kind: kwok runs on this machine and simulates them there."""

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuruntime.testing.cluster.components import kwok_command
from gpuruntime.testing.cluster.local import ClusterError
from gpuruntime.testing.cluster.nodes import NodeShape
from gpuruntime.testing.processes.supervised import ChildProcesses

__all__ = ["FakeNodes"]

_READY_SECONDS = 60


class FakeNodes:
    """Fake nodes in the cluster of `kubeconfig`, for the length of a `with` block.

    They are Ready when the block begins, and deleted when it ends. If this process dies, they stay behind as NotReady.
    """

    def __init__(self, directory: Path, kubeconfig: Path, nodes: tuple[NodeShape, ...], binaries: Path) -> None:
        self._directory = directory
        self._kubeconfig = kubeconfig
        self._nodes = nodes
        self._binaries = binaries
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            children = stack.enter_context(ChildProcesses(self._directory))
            children.start("kwok", kwok_command(self._binaries, self._kubeconfig), self._directory / "kwok.log")
            names = [f"node/{node.name}" for node in self._nodes]
            stack.callback(self._kubectl, "delete", "--ignore-not-found", "--wait=false", *names)
            manifests = {"apiVersion": "v1", "kind": "List", "items": [node.manifest() for node in self._nodes]}
            self._kubectl("create", "-f", "-", text=json.dumps(manifests))
            self._kubectl("wait", "--for=condition=Ready", f"--timeout={_READY_SECONDS}s", *names)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _kubectl(self, *arguments: str, text: str | None = None) -> None:
        command = [str(self._binaries / "kubectl"), "--kubeconfig", str(self._kubeconfig), *arguments]
        environment = {**os.environ, "KUBECACHEDIR": str(self._directory / "kubectl")}
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise ClusterError(f"kubectl {arguments[0]} of the fake nodes failed: {done.stderr.strip()}")
