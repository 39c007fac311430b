"""Errors of the bus; all of them are a BusError.

::

    BusError
    ├── BusUnavailableError             no usable answer: not connected, no leader, too much unsent
    │   ├── BusTimeoutError             a question without effects was not answered in time
    │   └── OutcomeUnknownError         a write was sent and not answered: it may or may not have happened
    ├── BusPermissionError              the server's permissions of this user forbid the subject
    ├── NoRespondersError               nothing subscribes to the subject of a request
    ├── MessageTooLargeError            larger than the server, or the stream, takes
    ├── StreamMissingError              no such stream, or no stream that takes the subject
    ├── ConsumerGoneError               no such consumer, or it was deleted during a pull
    ├── SubjectTakenError               the stream has a message of that subject already
    ├── QueueFullError                  the stream has its maximum of messages or bytes
    ├── StorageFullError                the server has no storage left
    ├── BatchRefusedError               an atomic batch was refused as a whole; nothing of it is stored
    └── JetStreamRefusedError           any other refusal, with the code of the server

An exception of the client library is only ever the `__cause__` of one of these.
"""

from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "BatchRefusedError",
    "BusError",
    "BusPermissionError",
    "BusTimeoutError",
    "BusUnavailableError",
    "ConsumerGoneError",
    "JetStreamRefusedError",
    "MessageTooLargeError",
    "NoRespondersError",
    "OutcomeUnknownError",
    "QueueFullError",
    "StorageFullError",
    "StreamMissingError",
    "SubjectTakenError",
    "refusal",
]


class BusError(Exception):
    """The base class. `code` is the `err_code` of JetStream; 0 where there is none."""

    code: int = 0


class BusUnavailableError(BusError):
    """There is no connection, or no usable answer. Nothing was written, except for an OutcomeUnknownError."""


class BusTimeoutError(BusUnavailableError):
    """No answer in time. What was asked has no effects, so it can be asked again."""


class OutcomeUnknownError(BusUnavailableError):
    """A write was sent, and its answer did not come: send it again in a form that is idempotent."""


class BusPermissionError(BusError):
    """The server refused a subject, by the permissions of the user of this connection."""


class NoRespondersError(BusError):
    """Nothing subscribes to the subject of a request."""


class MessageTooLargeError(BusError):
    """The message is larger than the server, or the stream, takes."""


class StreamMissingError(BusError):
    """There is no such stream, or none that takes the subject."""


class ConsumerGoneError(BusError):
    """There is no such consumer, or it was deleted during a pull."""


class SubjectTakenError(BusError):
    """The stream has a message of that subject already: a create-only publish lost, or one a subject is the limit."""


class QueueFullError(BusError):
    """The stream holds its maximum of messages or bytes, and discards new ones."""


class StorageFullError(BusError):
    """The server, or the account, has no storage left."""


class BatchRefusedError(BusError):
    """An atomic batch was refused as a whole, for instance because of one duplicate; nothing of it is stored."""


class JetStreamRefusedError(BusError):
    """A refusal without an error class of its own."""


_WRONG_LAST_SEQUENCE: Final = (10071, 10164)
_STORE_FAILED: Final = 10077
_BY_CODE: Final[Mapping[int, type[BusError]]] = {
    **dict.fromkeys(_WRONG_LAST_SEQUENCE, SubjectTakenError),
    10008: BusUnavailableError,  # JetStream system temporarily unavailable
    10009: BusUnavailableError,  # not the leader
    10163: BusUnavailableError,  # expected last sequence temporarily unavailable
    10039: BusUnavailableError,  # not enabled for the account
    10076: BusUnavailableError,  # not enabled
    10167: BusUnavailableError,  # too many requests
    10210: BusUnavailableError,  # too many batches under way
    10002: StorageFullError,  # resource limits of the account
    10023: StorageFullError,  # insufficient resources
    10028: StorageFullError,  # memory resources
    10047: StorageFullError,  # storage resources
    10054: MessageTooLargeError,
    10059: StreamMissingError,
    10014: ConsumerGoneError,
    **dict.fromkeys((10174, 10175, 10176, 10177, 10179, 10199, 10200, 10201), BatchRefusedError),
}
# The texts of error 10077, which is what any failure of the store becomes.
_STORE_TEXTS: Final[Mapping[str, type[BusError]]] = {
    "maximum messages per subject exceeded": SubjectTakenError,
    "maximum messages exceeded": QueueFullError,
    "maximum bytes exceeded": QueueFullError,
}


def refusal(error: Mapping[str, Any], what: str) -> BusError:
    """The error for the `error` of an answer of JetStream. `what` says what was asked: it begins the message."""
    code, text = int(error.get("err_code", 0)), str(error.get("description", "no description"))
    kind = _STORE_TEXTS.get(text, BusError) if code == _STORE_FAILED else _BY_CODE.get(code, BusError)
    found = (JetStreamRefusedError if kind is BusError else kind)(f"{what}: {text} ({code})")
    found.code = code
    return found
