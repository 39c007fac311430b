"""The times of an activator. Tests shorten them together; the product uses the defaults."""

from attrs import frozen

from gpuruntime.service.invocations.streams import ACK_WAIT_SECONDS

__all__ = ["DispatchSettings"]


@frozen(kw_only=True)
class DispatchSettings:
    """All times are in seconds.

    Args:
        ack_wait: how long a delivery stays with its holder that is not heard; that of the consumers.
        heartbeat: between two signs of life of a worker, each of which extends its leases: several in an `ack_wait`.
        silence: without a frame, after which the connection of a worker is closed.
        hello: for the first frame of a connection.
        send: for a worker to take a frame.
        ask: for other activators to say that a worker of theirs has a delivery.
        settle: after a reconnect, until other activators are connected again too; more than the longest pause between
            two attempts of `Bus`.
        check: between two looks for results of invocations that run.
        record: between two records of a run.
        retry: before what NATS refused is tried again.
        rest: for which a worker that gave a run back gets no other.
        drain: for workers to leave when the process stops.
    """

    ack_wait: float = ACK_WAIT_SECONDS
    heartbeat: float = 5.0
    silence: float = 15.0
    hello: float = 10.0
    send: float = 30.0
    ask: float = 1.0
    settle: float = 4.0
    check: float = 15.0
    record: float = 10.0
    retry: float = 0.5
    rest: float = 1.0
    drain: float = 15.0
