"""Creating many objects of one kind over several connections."""

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.progress import Progress

__all__ = ["ObjectsError", "create_objects"]

_CONNECTIONS = 16


class ObjectsError(Exception):
    """The objects could not be created."""


async def create_objects(
    access: ClusterAccess,
    collection: str,
    make: Callable[[int], dict[str, Any]],
    count: int,
    progress: Progress,
) -> None:
    """Create the objects `make(0)` to `make(count - 1)` by POST to `collection`.

    Raises:
        ObjectsError: the API server refused one, or the connection failed.
    """
    what = collection.rpartition("/")[2]
    tls = ssl.create_default_context(cafile=str(access.authority))
    tls.load_cert_chain(access.certificate, access.key)
    numbers = iter(range(count))
    done = 0

    async def create(session: aiohttp.ClientSession) -> None:
        nonlocal done
        for number in numbers:
            async with session.post(collection, data=json.dumps(make(number))) as answer:
                if answer.status != 201:
                    said = (await answer.text())[:256]
                    raise ObjectsError(f"number {number} of {what} was refused: HTTP {answer.status}: {said}")
                await answer.read()
            done += 1
            progress.advance(f"creating {what}", done, count)

    connector = aiohttp.TCPConnector(ssl=tls, limit=_CONNECTIONS)
    headers = {"Content-Type": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(access.server, connector=connector, headers=headers) as session,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(_CONNECTIONS):
                group.create_task(create(session))
    except ExceptionGroup as failed:
        expected, unexpected = failed.split((ObjectsError, aiohttp.ClientError, OSError))
        if expected is None or unexpected is not None:
            raise
        raise ObjectsError(f"the {what} could not be created: {expected.exceptions[0]}") from failed
