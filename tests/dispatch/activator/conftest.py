from collections.abc import AsyncIterator

import pytest

from gpuruntime.testing.nats import NatsServer
from tests.dispatch.activator.dispatch_scenes import Dispatching


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[Dispatching]:
    """A NATS server with the streams of all functions."""
    async with Dispatching.on(nats_server) as world:
        yield world
