"""What can go wrong between us and an API server; everything that `gpuruntime.kube` raises about it is a KubeError.

::

    KubeError
    ├── CredentialsError                  no usable credentials; nothing was sent
    ├── NotSentError                      a guard of this process kept the request back
    ├── UnavailableError                  no usable answer: refused, reset, timed out, cut off, 502, 503, 504
    ├── UnexpectedResponseError             an answer that no API server gives: a redirect, a page of a proxy
    └── StatusError                       the API server said no
        ├── BadRequestError               400
        ├── UnauthorizedError             401
        ├── ForbiddenError                403
        ├── NotFoundError                 404
        ├── ConflictError                 409
        │   └── AlreadyExistsError        409, reason AlreadyExists
        ├── ExpiredError                  410, reasons Expired and Gone
        ├── InvalidError                  422
        ├── TooManyRequestsError          429
        ├── TooLargeResourceVersionError  504, cause ResourceVersionTooLarge
        └── ServerError                   other 5xx

An exception of the HTTP library is only ever the `__cause__` of one of these.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from attrs import frozen

from gpuruntime.kube.transport.retry_after import parse_http_date, parse_retry_after

__all__ = [
    "AlreadyExistsError",
    "BadRequestError",
    "Cause",
    "ConflictError",
    "CredentialsError",
    "ExpiredError",
    "ForbiddenError",
    "InvalidError",
    "KubeError",
    "NotFoundError",
    "NotSentError",
    "ServerError",
    "Status",
    "StatusError",
    "TooLargeResourceVersionError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedResponseError",
    "error_from_status",
    "error_from_watch_status",
    "excerpt",
]

_TEXT_LIMIT: Final = 256


class KubeError(Exception):
    """The base. `outcome_unknown` says that a write may have been executed in spite of the error."""

    outcome_unknown: bool = False


class CredentialsError(KubeError):
    """There are no usable credentials.

    The message names the file and the field, or the plugin, and holds no secret.
    """


class NotSentError(KubeError):
    """A guard of this process kept the request back, or gave it up on its way. Not to be tried again."""

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class UnavailableError(KubeError):
    """There was no usable answer. `code` is None if there was none at all; `retry_after` is in seconds."""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        retry_after: float | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.outcome_unknown = outcome_unknown


class UnexpectedResponseError(KubeError):
    """Something answered that is no API server, or one that speaks in tongues."""

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


@frozen
class Cause:
    """One of the causes of a refusal. `field` is a path such as spec.replicas, "" if it is about no field."""

    reason: str = ""
    field: str = ""
    message: str = ""


@frozen
class Status:
    """The answer of an API server that refuses, as far as it could be read; `retry_after` is in seconds."""

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: float | None = None


class StatusError(KubeError):
    """The API server refused; `request` says what, for the text of the error."""

    def __init__(self, status: Status, request: str = "") -> None:
        super().__init__(status, request)
        self.status: Final = status
        self.request: Final = request

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        """The word for it, such as "NotFound"; "" if the answer had none."""
        return self.status.reason

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self.status.causes

    @property
    def retry_after(self) -> float | None:
        """How many seconds the server asks us to wait."""
        return self.status.retry_after

    def __str__(self) -> str:
        return _text(self.status, self.request)


class BadRequestError(StatusError):
    """400: the request makes no sense to the server."""


class UnauthorizedError(StatusError):
    """401: the server does not believe who we are."""


class ForbiddenError(StatusError):
    """403: we may not do this."""


class NotFoundError(StatusError):
    """404: there is no such object, or no such kind."""


class ConflictError(StatusError):
    """409: the object changed since it was read, or a precondition or another field manager is in the way."""


class AlreadyExistsError(ConflictError):
    """409: an object of this name exists, perhaps still being deleted."""


class ExpiredError(StatusError):
    """410: the resource version or the continue token is too old; list again."""


class InvalidError(StatusError):
    """422: the object breaks rules; `causes` says which fields do."""


class TooManyRequestsError(StatusError):
    """429: the server, or a disruption budget, asks us to slow down."""


class TooLargeResourceVersionError(StatusError):
    """504: the server has not seen the resource version yet that the request asked for."""


class ServerError(StatusError):
    """Another 5xx: the server failed."""

    outcome_unknown = True


_BY_CODE: Final[Mapping[int, type[StatusError]]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: TooManyRequestsError,
}
_UNAVAILABLE: Final = frozenset({502, 503, 504})


def error_from_status(code: int, body: bytes, headers: Mapping[str, str], request: str = "") -> KubeError:
    """The error that an answer stands for, be its body a Status object, a page of a proxy or garbage.

    `headers` must be a case-insensitive mapping; `request` names the request in the text.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict) and value.get("kind") == "Status":
        status = _read_status(value, code)
    else:
        status = Status(code, message=excerpt(body))
    # A date is one of the clock that the answer was dated by; ours may be wrong.
    sent = parse_http_date(headers.get("Date", "")) or datetime.now(UTC)
    told = parse_retry_after(headers.get("Retry-After", ""), sent)
    if told is not None:
        status = Status(status.code, status.reason, status.message, status.causes, told)
    return _error(status, request)


def error_from_watch_status(status: Mapping[str, Any], request: str = "") -> KubeError:
    """The error that the object of an ERROR event of a watch stands for; anything but a Status is a server error."""
    return _error(_read_status(status, 500), request)


def excerpt(data: bytes) -> str:
    """The beginning of a text, at most 256 characters, on one line."""
    # Four bytes for each character are enough in UTF-8; white space is what may be more.
    text = " ".join(data[: 16 * _TEXT_LIMIT].decode("utf-8", "replace").split())
    return text[:_TEXT_LIMIT]


def _error(status: Status, request: str) -> KubeError:
    if any(cause.reason == "ResourceVersionTooLarge" for cause in status.causes):
        return TooLargeResourceVersionError(status, request)
    if status.code in _UNAVAILABLE:
        text = _text(status, request)
        return UnavailableError(text, code=status.code, retry_after=status.retry_after, outcome_unknown=True)
    if status.reason == "AlreadyExists":
        return AlreadyExistsError(status, request)
    if status.reason in {"Expired", "Gone"}:
        return ExpiredError(status, request)
    known = _BY_CODE.get(status.code, ServerError if status.code >= 500 else StatusError)
    return known(status, request)


def _read_status(value: Mapping[str, Any], code: int) -> Status:
    details = value.get("details")
    if not isinstance(details, Mapping):
        details = {}
    causes = details.get("causes")
    told, seconds = value.get("code"), details.get("retryAfterSeconds")
    return Status(
        code=told if type(told) is int and told >= 400 else code,
        reason=_word(value, "reason"),
        message=_word(value, "message"),
        causes=tuple(_cause(cause) for cause in causes if isinstance(cause, Mapping))
        if isinstance(causes, list)
        else (),
        retry_after=float(seconds) if type(seconds) is int and seconds > 0 else None,
    )


def _cause(value: Mapping[str, Any]) -> Cause:
    return Cause(reason=_word(value, "reason"), field=_word(value, "field"), message=_word(value, "message"))


def _word(value: Mapping[str, Any], name: str) -> str:
    word = value.get(name)
    return word[:_TEXT_LIMIT] if isinstance(word, str) else ""


def _text(status: Status, request: str) -> str:
    parts = (request, f"{status.code} {status.reason}".rstrip(), status.message)
    return ": ".join(part for part in parts if part)
