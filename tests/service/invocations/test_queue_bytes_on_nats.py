"""The limit of bytes in the queue of a function."""

import pytest

from gpuruntime.service.errors import QueueLimitError
from gpuruntime.testing.nats import NatsServer
from tests.service.invocations.invocation_scenes import function, invoked


async def test_a_queue_with_its_maximum_of_bytes_refuses_more_through_every_replica(nats_server: NatsServer) -> None:
    limits = {"maxRequestBytes": "1Mi", "maxQueuedBytes": "1Mi"}
    async with invoked(nats_server, function(invocation=limits)) as world:
        first = await world.one.invoke(world.request(bytes(700_000), own_id="first"))

        with pytest.raises(QueueLimitError, match=r"and 1Mi bytes wait"):
            await world.one.invoke(world.request(bytes(400_000)))
        with pytest.raises(QueueLimitError):
            await world.other.invoke(world.request(bytes(400_000)))
        small = await world.other.invoke(world.request(bytes(1000)))
        again = await world.one.invoke(world.request(bytes(700_000), own_id="first"))

    assert small.sequence == 2
    assert again.is_duplicate
    assert again.key == first.key
