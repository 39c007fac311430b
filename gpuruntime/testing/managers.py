"""A manager in the loop of a test.

::

    async with running(build(from_kubeconfig(kube_cluster.kubeconfig))) as manager:
        ...  # it runs now; its stores and its client are those of the program
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuruntime.control.manager import Manager

__all__ = ["running"]


@asynccontextmanager
async def running(manager: Manager, *, within: float = 60.0) -> AsyncIterator[Manager]:
    """The manager runs while the block does, and is stopped in order at its end.

    If the manager fails, the block is cancelled and the manager's error raised. If the block fails, the manager ends
    and the error of the block is raised. Both are raised as they are, not in a group.

    Raises:
        TimeoutError: block and manager have not ended after `within` seconds.
    """
    limit = asyncio.timeout(within)
    try:
        async with limit, asyncio.TaskGroup() as group:
            group.create_task(manager.run())
            yield manager
            manager.stop()
    except BaseExceptionGroup as failures:
        if len(failures.exceptions) > 1:
            raise
        raise failures.exceptions[0] from None
    except TimeoutError as error:
        if not limit.expired():
            raise
        took = f"the block and the end of the manager took more than {within:g} s"
        raise TimeoutError(f"{took}: see what they wait for, or raise `within`") from error
