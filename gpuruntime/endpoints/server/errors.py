"""Error responses: one table from the errors of `service` and `kube` to HTTP statuses and codes.

Every error response is `{"error": {"code", "message", "details"}}`. `code` is a stable identifier for programs,
`message` a sentence for people. `details`, if present, lists the invalid parts of the request.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from aiohttp import web
from attrs import frozen

from gpuruntime.kube import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    StatusError,
    TooManyRequestsError,
    UnavailableError,
)
from gpuruntime.meta import EMPTY, FrozenDict, Struct
from gpuruntime.schema import CHECK, Violation
from gpuruntime.service.errors import InvalidRequestError, ServiceError
from gpuruntime.service.objects.admission import is_rbac_denial

__all__ = [
    "CODES",
    "MOST_FAULTS_SHOWN",
    "ApiError",
    "Fault",
    "Faults",
    "as_api_error",
    "error_body",
    "fault_of",
    "invalid",
]

MOST_FAULTS_SHOWN: Final = 100
"""The most faults that a response lists; its message says if there are more."""
_PATH_SHOWN: Final = 200
_RETRY_SECONDS: Final = 2.0
_LONGEST_RETRY_SECONDS: Final = 60.0

CODES: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    412: "conflict",
    413: "request_too_large",
    415: "unsupported_media_type",
    500: "internal_error",
    503: "service_unavailable",
}
"""The default code of each status."""

_SERVICE_STATUS: Final[Mapping[str, int]] = {
    "invalid_request": 400,
    "not_found": 404,
    "operation_conflict": 409,
    "insufficient_capacity": 409,
    "refused": 409,
    "stock_claimed": 409,
    "storage_in_use": 409,
    "not_recoverable": 409,
    "function_deleting": 409,
    "invocation_conflict": 409,
    "invocation_ended": 409,
    "result_expired": 410,
    "conflict": 412,
    "request_too_large": 413,
    "queue_full": 429,
    "queue_unavailable": 503,
    "storage_full": 503,
    "archive_unavailable": 503,
    "namespace_not_found": 503,
    "service_unavailable": 503,
    "not_finished": 504,
}


@frozen
class Fault(Struct):
    """One invalid part of a request."""

    path: str
    """JSON path in the body, such as $.template.ports[0].port, or ?NAME for a query parameter."""
    message: str
    """What was expected, and what was found."""
    rule: str | None = None
    """The schema keyword that the value violates, such as maximum, required or unknown."""


def fault_of(violation: Violation) -> Fault:
    """The fault of a body that violates a rule; a rule that is in no schema has no keyword."""
    rule = None if violation.rule == CHECK else violation.rule
    return Fault(f"$.{violation.path}" if violation.path else "$", violation.message, rule)


class ApiError(Exception):
    """An error response. The message is shown to the caller, so it contains no secrets."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: tuple[Fault, ...] = (),
        headers: Mapping[str, str] = EMPTY,
    ) -> None:
        super().__init__(message)
        self.status: Final = status
        self.code: Final = code
        self.message: Final = message
        self.details: Final = details
        self.headers: Final = FrozenDict(headers)


def invalid(*faults: Fault) -> ApiError:
    """A 400 response that lists all these faults."""
    shown = "; ".join(f"{_clipped(fault.path)}: {fault.message}" for fault in faults[:3])
    more = f"; and {len(faults) - 3} more, see details" if len(faults) > 3 else ""
    if len(faults) > MOST_FAULTS_SHOWN:
        more = f"; and more than {MOST_FAULTS_SHOWN - 3} others, see details"
    return ApiError(400, "invalid_request", f"{shown}{more}", faults)


class Faults:
    """Collects the faults of 400 errors that are raised inside `with` blocks, to report all of them in one response."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, ApiError) or error.status != 400:
            return False
        self._found += error.details
        return True

    def raise_if_any(self) -> None:
        """Report the collected faults.

        Raises:
            ApiError: 400, if there are any.
        """
        if self._found:
            raise invalid(*self._found)


def as_api_error(error: Exception) -> ApiError:
    """The error response for an exception. An unexpected exception is a 500 that reveals no internals."""
    match error:
        case ApiError():
            return error
        case InvalidRequestError(violations=found):
            return invalid(*map(fault_of, found))
        case ServiceError():
            return _of_service(error)
        case KubeError():
            return _of_kube(error)
        case web.HTTPException():
            return _of_http(error)
        case _:
            return ApiError(
                500,
                CODES[500],
                "internal error; the log of the process has the cause, under this request's X-Request-ID",
            )


def error_body(error: ApiError) -> bytes:
    """The JSON of an error response. It lists the first hundred faults; the message says if there are more.

    Bytes of the request that are not UTF-8 are shown as escapes.
    """
    body: dict[str, Any] = {"code": error.code, "message": _escaped(error.message)}
    if error.details:
        body["details"] = [_fault_json(fault) for fault in error.details[:MOST_FAULTS_SHOWN]]
    return orjson.dumps({"error": body})


def _fault_json(fault: Fault) -> dict[str, str]:
    rule = {} if fault.rule is None else {"rule": fault.rule}
    return {"path": _escaped(_clipped(fault.path)), **rule, "message": _escaped(fault.message)}


def _escaped(text: str) -> str:
    # aiohttp decodes bytes that are not UTF-8 as lone surrogates, which JSON cannot represent.
    return text.encode(errors="backslashreplace").decode()


def _clipped(path: str) -> str:
    return path if len(path) <= _PATH_SHOWN else f"{path[:_PATH_SHOWN]}..."


def _of_service(error: ServiceError) -> ApiError:
    status = _SERVICE_STATUS[error.code]
    is_passing = status == 429 or status >= 500
    return ApiError(status, error.code, str(error), headers=_retry(error.retry_after) if is_passing else EMPTY)


def _of_kube(error: KubeError) -> ApiError:
    if is_rbac_denial(error):
        return _unavailable(error)
    for kind, response in _KUBE:
        if isinstance(error, kind):
            return response(error)
    return _unavailable(error)


def _of_status(status: int, code: str) -> Callable[[Any], ApiError]:
    return lambda error: ApiError(status, code, f"the cluster rejected the request: {error.message or error}")


def _of_causes(error: StatusError) -> ApiError:
    message = f"the cluster rejected the request: {error.message or error}"
    faults = tuple(Fault(f"$.{cause.field}" if cause.field else "$", cause.message) for cause in error.causes)
    return ApiError(400, CODES[400], message, faults)


def _unavailable(error: KubeError) -> ApiError:
    unknown = "; the write may have been carried out: send it again with the same operationID" * error.outcome_unknown
    message = f"the Kubernetes API server is not available{unknown}"
    return ApiError(503, CODES[503], message, headers=_retry(getattr(error, "retry_after", None)))


# The first match counts. Any other error says nothing about the request: the API server is away or misconfigured.
_KUBE: Final[tuple[tuple[type[KubeError], Callable[[Any], ApiError]], ...]] = (
    (UnavailableError, _unavailable),
    (TooManyRequestsError, _unavailable),
    (BadRequestError, _of_causes),
    (InvalidError, _of_causes),
    (ForbiddenError, _of_status(409, "refused")),
    (NotFoundError, _of_status(404, CODES[404])),
    (ConflictError, _of_status(409, "conflict")),
)


def _of_http(error: web.HTTPException) -> ApiError:
    code = CODES.get(error.status, CODES[400] if error.status < 500 else CODES[500])
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return ApiError(error.status, code, error.reason.lower(), headers=headers)


def _retry(seconds: float | None) -> Mapping[str, str]:
    wait = min(seconds or _RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
    return {"Retry-After": str(math.ceil(wait))}
