"""The operator under test: a coroutine in this process, or a program in any language."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.testing.supervised import Children

__all__ = ["Launch", "Operator", "OperatorEndedError", "program"]

_NAME = "operator"
_LOOK_SECONDS = 0.1


class OperatorEndedError(Exception):
    """The program has ended by itself."""


@frozen
class Launch:
    """What an operator is given: a kubeconfig that leads through the proxy, and the namespaces of the run by role.

    It must keep to these namespaces: other runs may be going on in others.
    """

    kubeconfig: Path
    namespaces: Mapping[str, str]

    def namespace(self, role: str = "main") -> str:
        return self.namespaces[role]

    @property
    def credentials(self) -> Credentials:
        """For operators on `gpuruntime.control`: what a `Manager` takes."""
        return from_kubeconfig(self.kubeconfig)


Operator = Callable[[Launch], Awaitable[None]]
"""Runs an operator until it is cancelled; one that ends by itself is started again.

When it is cancelled, its way to the API server is cut already, so that cleaning up can write nothing: to the cluster it
has died. What it keeps in globals of this process survives; to test without that, use `program`."""


def program(
    command: Callable[[Launch], Sequence[str]], environment: Callable[[Launch], Mapping[str, str]] | None = None
) -> Operator:
    """An operator that is a program; dying is SIGKILL.

    Its KUBECONFIG is the launch's. It never outlives this process. What it says is in `operator.log` beside the
    kubeconfig.
    """

    async def run(launch: Launch) -> None:
        home = launch.kubeconfig.parent
        variables = {"KUBECONFIG": str(launch.kubeconfig), **(environment(launch) if environment else {})}
        # Talking to the keeper blocks the loop for a millisecond; in a thread it could not be cancelled.
        with Children(home / _NAME) as children:
            children.start(_NAME, command(launch), home / f"{_NAME}.log", variables)
            try:
                while not (exits := children.exits()):  # noqa: ASYNC110 - a child of another process sets no event
                    await asyncio.sleep(_LOOK_SECONDS)
            finally:
                children.signal(_NAME, signal.SIGKILL)
        raise OperatorEndedError(f"exit code {exits[_NAME]}")

    return run
