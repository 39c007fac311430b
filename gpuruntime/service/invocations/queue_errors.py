"""What errors of NATS mean to a caller of the API."""

from collections.abc import Iterator
from contextlib import contextmanager

from gpuruntime.api.invocations import MessageError
from gpuruntime.bus import BusError, MessageTooLargeError, OutcomeUnknownError, StorageFullError, StreamMissingError
from gpuruntime.service.errors import (
    PayloadTooLargeError,
    QueueUnavailableError,
    ResultStorageFullError,
    ServiceError,
)

__all__ = ["as_service_error", "queue_errors"]


def as_service_error(error: BusError | MessageError, what: str) -> ServiceError:
    """The error for a caller who asked for `what`."""
    match error:
        case StorageFullError():
            return ResultStorageFullError(f"{what}: NATS has no storage left")
        case MessageTooLargeError():
            return PayloadTooLargeError(f"{what}: larger than the queue takes: {error}")
        case StreamMissingError():
            return QueueUnavailableError(f"{what}: the queue is not there yet; an activator makes it")
        case OutcomeUnknownError():
            return QueueUnavailableError(
                f"{what}: NATS did not answer, and may have carried it out; send it again with the same ID"
            )
        case MessageError():
            return QueueUnavailableError(f"{what}: a stored message cannot be read: {error}")
        case _:
            return QueueUnavailableError(f"{what}: the queue is not available: {error}")


@contextmanager
def queue_errors(what: str) -> Iterator[None]:
    """Raise errors of NATS, of the block, as errors of a use case.

    Raises:
        QueueUnavailableError, ResultStorageFullError, PayloadTooLargeError: see `as_service_error`.
    """
    try:
        yield
    except (BusError, MessageError) as error:
        raise as_service_error(error, what) from error
