"""The operator under test: a coroutine in this process, or a program in any language."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.testing.processes.supervised import ChildProcesses

__all__ = ["Launch", "Operator", "OperatorEndedError", "program"]

_NAME = "operator"
_POLL_SECONDS = 0.1


class OperatorEndedError(Exception):
    """The program exited by itself."""


@frozen
class Launch:
    """The inputs of an operator: a kubeconfig that points at the proxy, and the namespaces of the run by role.

    The operator must confine itself to these namespaces: other runs may use others at the same time.
    """

    kubeconfig: Path
    namespaces: Mapping[str, str]

    def namespace(self, role: str = "main") -> str:
        return self.namespaces[role]

    @property
    def credentials(self) -> Credentials:
        """The credentials of a `Manager`, for operators built on `gpuruntime.control`."""
        return from_kubeconfig(self.kubeconfig)


Operator = Callable[[Launch], Awaitable[None]]
"""Runs an operator until it is cancelled; one that exits by itself is restarted.

Its connections to the API server are cut before it is cancelled, so that its cleanup can write nothing: to the cluster
it has crashed. Global variables of this process survive; `program` avoids that."""


def program(
    command: Callable[[Launch], Sequence[str]], environment: Callable[[Launch], Mapping[str, str]] | None = None
) -> Operator:
    """An operator that is a program; a crash is SIGKILL.

    Its environment has KUBECONFIG set. It never outlives this process. Its output goes to `operator.log` beside the
    kubeconfig.
    """

    async def run(launch: Launch) -> None:
        directory = launch.kubeconfig.parent
        variables = {"KUBECONFIG": str(launch.kubeconfig), **(environment(launch) if environment else {})}
        # A request to the supervisor blocks the loop for a millisecond; in a thread it could not be cancelled.
        with ChildProcesses(directory / _NAME) as children:
            children.start(_NAME, command(launch), directory / f"{_NAME}.log", variables)
            try:
                while not (exits := children.exits()):  # noqa: ASYNC110 - a child of another process sets no event
                    await asyncio.sleep(_POLL_SECONDS)
            finally:
                children.signal(_NAME, signal.SIGKILL)
        raise OperatorEndedError(f"exit code {exits[_NAME]}")

    return run
