"""A manager in the event loop of a test.

::

    async with running(build(from_kubeconfig(kube_cluster.kubeconfig))) as manager:
        ...  # the manager runs; its stores and its client are those of the program
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuruntime.control.manager import Manager

__all__ = ["running"]


@asynccontextmanager
async def running(manager: Manager, *, within: float = 60.0) -> AsyncIterator[Manager]:
    """Run the manager for the length of the block, then stop it gracefully.

    If the manager fails, the block is cancelled and the manager's error is raised. If the block fails, the manager is
    stopped and the block's error is raised. A single error is raised as it is, not in an exception group.

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
        problem = f"the block and the shutdown of the manager took more than {within:g} s"
        raise TimeoutError(f"{problem}: check what they wait for, or increase `within`") from error
