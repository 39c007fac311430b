"""Errors of requests to an API server; all of them are a KubeError.

::

    KubeError
    ├── CredentialsError                  no usable credentials; nothing was sent
    ├── NotSentError                      a guard in this process stopped the request
    ├── UnavailableError                  no usable response: refused, reset, timed out, cut off, 502, 503, 504
    ├── UnexpectedResponseError           a response that is not an API server's: a redirect, a page of a proxy
    └── StatusError                       the API server refused the request
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
    """The base class. `outcome_unknown` says that a write may have been executed despite the error."""

    outcome_unknown: bool = False


class CredentialsError(KubeError):
    """There are no usable credentials.

    The message names the file and the field, or the plugin, and holds no secret.
    """


class NotSentError(KubeError):
    """A guard in this process stopped the request before or while it was sent. Do not retry."""

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class UnavailableError(KubeError):
    """There was no usable response. `code` is None if there was none at all; `retry_after` is in seconds."""

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
    """The response is not one of an API server: a redirect, an HTML page, JSON of another type."""

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


@frozen
class Cause:
    """One of the causes in a Status. `field` is a path such as spec.replicas, "" if the cause is not about a field."""

    reason: str = ""
    field: str = ""
    message: str = ""


@frozen
class Status:
    """The Status object of an error response, or what is known of it; `retry_after` is in seconds."""

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: float | None = None


class StatusError(KubeError):
    """The API server refused the request; `request` names it in the message."""

    def __init__(self, status: Status, request: str = "") -> None:
        super().__init__(status, request)
        self.status: Final = status
        self.request: Final = request

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine-readable reason, such as "NotFound"; "" if the response had none."""
        return self.status.reason

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self.status.causes

    @property
    def retry_after(self) -> float | None:
        """The seconds to wait before a retry, as the server asks."""
        return self.status.retry_after

    def __str__(self) -> str:
        return _text(self.status, self.request)


class BadRequestError(StatusError):
    """400: the request is invalid."""


class UnauthorizedError(StatusError):
    """401: the credentials are missing, invalid or expired."""


class ForbiddenError(StatusError):
    """403: the user has no permission for this request."""


class NotFoundError(StatusError):
    """404: there is no such object, or no such kind."""


class ConflictError(StatusError):
    """409: the object changed since it was read, a precondition failed, or another field manager owns a field."""


class AlreadyExistsError(ConflictError):
    """409: an object of this name exists, perhaps still being deleted."""


class ExpiredError(StatusError):
    """410: the resource version or the continue token is too old; list again."""


class InvalidError(StatusError):
    """422: the object is invalid; `causes` names the fields."""


class TooManyRequestsError(StatusError):
    """429: the server, or a disruption budget, asks the client to slow down."""


class TooLargeResourceVersionError(StatusError):
    """504: the server has not reached the requested resource version yet."""


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
    """The error for a response, whether its body is a Status object, a page of a proxy or garbage.

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
    # A date in Retry-After is by the clock of the Date header; the local clock may be wrong.
    sent = parse_http_date(headers.get("Date", "")) or datetime.now(UTC)
    retry_after = parse_retry_after(headers.get("Retry-After", ""), sent)
    if retry_after is not None:
        status = Status(status.code, status.reason, status.message, status.causes, retry_after)
    return _error(status, request)


def error_from_watch_status(status: Mapping[str, Any], request: str = "") -> KubeError:
    """The error for the object of a watch's ERROR event; anything but a Status is a server error."""
    return _error(_read_status(status, 500), request)


def excerpt(data: bytes) -> str:
    """The beginning of a text, at most 256 characters, on one line."""
    # UTF-8 takes up to four bytes a character; the rest is room for white space, which is collapsed.
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
    stated, seconds = value.get("code"), details.get("retryAfterSeconds")
    return Status(
        code=stated if type(stated) is int and stated >= 400 else code,
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
