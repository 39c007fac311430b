"""The streams and consumers of invocations, as the leading activator makes them and as tests make them.

::

    FN_<namespace>_<function>   the queue of a function; consumer `workers`, from which all activators pull
    RESULTS                     how each invocation ended; consumer `archive`, from which the result store pulls
    DLQ                         requests of invocations that ended without success
    RUN                         who runs what, in memory
    ACTIVATOR                   what activators share
"""

from typing import Final

from attrs import evolve

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import (
    ACTIVATOR_STREAM,
    ARCHIVE_CONSUMER,
    DEAD_LETTERS_STREAM,
    RESULTS_STREAM,
    RUNS_STREAM,
    WORKERS_CONSUMER,
    function_stream,
)
from gpuruntime.bus import Bus, ConsumerConfig, StreamConfig
from gpuruntime.meta import parse_quantity

__all__ = ["ACK_WAIT_SECONDS", "HEADER_BYTES", "ensure_queue", "ensure_shared_streams", "queue_config"]

ACK_WAIT_SECONDS: Final = 20.0
"""How long a delivery stays with an activator that does not extend it."""
HEADER_BYTES: Final = 2**16 - 1
"""The most that a stream takes as headers of a message, beside its payload."""

_RUN_SECONDS: Final = 3600.0
_ARCHIVE_ACK_SECONDS: Final = 30.0


def queue_config(function: GPUFunction, replicas: int = 1) -> StreamConfig:
    """The stream with the queue of a function. A change of the function's limits is a change of its stream."""
    key, limits = function.key, function.spec.invocation
    return StreamConfig(
        name=function_stream(key),
        subjects=(f"inv.{key.namespace}.{key.name}.*",),
        description=f"invocations of {key}",
        retention="workqueue",
        replicas=replicas,
        discard="new",
        discard_new_per_subject=True,
        max_messages=limits.max_queued,
        max_messages_per_subject=1,
        # No max_bytes: the server would reserve them, and refuse the queue of the next function when the sum of all
        # limits reaches its storage, however empty they are. The API admits no more than `maxQueuedBytes`.
        max_message_size=parse_quantity(limits.max_request_bytes).ceil() + HEADER_BYTES,
        allow_direct=True,
        allow_atomic=True,
        metadata={"function-uid": function.metadata.uid},
    )


async def ensure_queue(bus: Bus, function: GPUFunction, replicas: int = 1, ack_wait: float = ACK_WAIT_SECONDS) -> None:
    """Make the queue of a function and its consumer, or bring them up to date; what is as it should be costs no write.

    Raises:
        BusError: NATS does not answer, or refuses.
    """
    config = queue_config(function, replicas)
    await bus.jetstream.ensure_stream(config)
    # A backoff would replace ack_wait, and a largest delivery count would strand messages: there is neither.
    workers = ConsumerConfig(name=WORKERS_CONSUMER, ack_wait=ack_wait)
    await bus.jetstream.ensure_consumer(config.name, workers)


async def ensure_shared_streams(bus: Bus, replicas: int = 1) -> None:
    """Make the streams that all functions share, or bring them up to date; what is as it should be costs no write.

    Raises:
        BusError: NATS does not answer, or refuses.
    """
    for config in _shared_streams(replicas):
        await bus.jetstream.ensure_stream(config)
    archive = ConsumerConfig(name=ARCHIVE_CONSUMER, ack_wait=_ARCHIVE_ACK_SECONDS)
    await bus.jetstream.ensure_consumer(RESULTS_STREAM, archive)


def _shared_streams(replicas: int) -> tuple[StreamConfig, ...]:
    runs = StreamConfig(
        name=RUNS_STREAM,
        subjects=("run.>",),
        description="who runs what",
        storage="memory",
        replicas=replicas,
        max_messages_per_subject=1,
        max_age=_RUN_SECONDS,
        allow_direct=True,
    )
    return (
        _created_once(RESULTS_STREAM, "res.>", "how invocations ended", replicas),
        _created_once(DEAD_LETTERS_STREAM, "dlq.>", "requests of invocations that ended without success", replicas),
        runs,
        # The key of leases is read from the leader only, and never expires.
        evolve(
            _created_once(ACTIVATOR_STREAM, "activator.>", "what activators share", replicas),
            allow_direct=False,
            allow_message_ttl=False,
        ),
    )


def _created_once(name: str, subjects: str, description: str, replicas: int) -> StreamConfig:
    """A stream with one message per subject, which is never replaced; it may expire."""
    return StreamConfig(
        name=name,
        subjects=(subjects,),
        description=description,
        replicas=replicas,
        discard="new",
        discard_new_per_subject=True,
        max_messages_per_subject=1,
        allow_direct=True,
        allow_message_ttl=True,
    )
