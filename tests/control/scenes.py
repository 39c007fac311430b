"""What tests of informers have in common."""

import asyncio
import http
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpuruntime.control.controllers.freshness import StaleCacheError
from gpuruntime.control.informers.cache import Cache, NotSyncedError
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.leadership.election_terms import ElectionTiming
from gpuruntime.control.manager import Manager
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing import AdminClient, ClusterAccess, RefusedError
from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.faults import ClientCertificate, FaultProxy

LONG_LEASE = ElectionTiming(lease=30, renew=20.0, retry=0.5)
"""A lease that does not expire on a busy machine, and is tried for often."""
_SERVED_SECONDS = 60.0


@asynccontextmanager
async def open_transport(access: ClusterAccess) -> AsyncIterator[Transport]:
    async with Transport(from_kubeconfig(access.kubeconfig), user_agent="tests") as transport:
        yield transport


@asynccontextmanager
async def running(cache: Cache) -> AsyncIterator[Cache]:
    """The cache, at work for the length of the block."""
    task = asyncio.create_task(cache.run())
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def managing(manager: Manager) -> AsyncIterator[None]:
    """The manager, at work for the length of the block; it is stopped in order."""
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        manager.stop()
        await task


@asynccontextmanager
async def proxied(access: ClusterAccess, directory: Path) -> AsyncIterator[tuple[FaultProxy, Credentials]]:
    """A fault proxy, and the administrator's credentials through it."""
    identity = ClientCertificate(access.certificate, access.key)
    async with FaultProxy(access.server, access.authority, identity=identity) as proxy:
        kubeconfig = directory / "proxy.kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_document(proxy.url, b"", {})))
        yield proxy, from_kubeconfig(kubeconfig)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a figure that causes no event; the timeout of the test ends the wait."""
    while not condition():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.02)


async def eventually_on_server(condition: Callable[[], bool]) -> None:
    """Wait for a condition that is read from the server, in a thread; the timeout of the test ends the wait."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.02)


def await_served(admin: AdminClient, path: str) -> None:
    """Wait until a collection can be listed: a moment after the definition of its kind is said to be established."""
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            admin.get(path)
        except RefusedError as error:
            # It is not known yet, or its storage is initializing.
            is_early = error.status in {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.TOO_MANY_REQUESTS}
            if not is_early or time.monotonic() > deadline:
                raise
            time.sleep(0.02)  # there is no event to await
        else:
            return


async def held_up_by(cache: Cache, pattern: str) -> None:
    """Wait until the cache says why it is not complete, in these words; the timeout of the test ends the wait."""
    while True:
        try:
            await cache.synced(within=0.2)
        except NotSyncedError as error:
            if re.search(pattern, str(error)):
                return
        else:
            raise AssertionError("the cache is complete")


async def tried_until_fresh(settle: Callable[[], Awaitable[None]]) -> None:
    """Retry while the cache is behind, as a controller does."""
    while True:
        try:
            return await settle()
        except StaleCacheError:
            continue


class ChangeRecorder:
    """A subscriber that remembers everything and can be waited for."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self._heard = asyncio.Event()

    def __call__(self, change: Change[Any]) -> None:
        self.changes.append((change.type, change.key.name))
        self._heard.set()

    async def until(self, condition: Callable[[list[tuple[str, str]]], bool]) -> None:
        """Returns when the changes so far fulfil the condition; the test's timeout catches one that never do."""
        while not condition(self.changes):
            self._heard.clear()
            await self._heard.wait()


async def watch(informer: Informer[Any]) -> ChangeRecorder:
    witness = ChangeRecorder()
    await informer.subscribe(witness)
    return witness
