"""What goes wrong, as answers: one table from the errors of `service` and `kube` to statuses and codes.

Every refusal has the shape `{"error": {"code", "message", "details"}}`. `code` is one word for programs, `message` a
sentence for people, and `details`, where there are any, say which parts of the request are at fault.
"""

import math
import re
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
from gpuruntime.service.errors import InvalidRequestError, ServiceError
from gpuruntime.service.objects.admission import is_denied

__all__ = ["CODES", "MOST_FAULTS_SHOWN", "ApiError", "Fault", "Faults", "error_body", "invalid", "refusal_of"]

MOST_FAULTS_SHOWN: Final = 100
"""How many faults of a request an answer lists; its message says if there are more."""
_PATH_SHOWN: Final = 200
_RETRY_SECONDS: Final = 2.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_PROBLEM: Final = re.compile(r"([A-Za-z][\w.\[\]]*): (.*)", re.DOTALL)

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
"""The code of a status that the frame itself answers."""

_SERVICE_STATUS: Final[Mapping[str, int]] = {
    "invalid_request": 400,
    "not_found": 404,
    "operation_conflict": 409,
    "insufficient_capacity": 409,
    "refused": 409,
    "stock_claimed": 409,
    "conflict": 412,
    "namespace_not_found": 503,
    "service_unavailable": 503,
    "not_finished": 504,
}


@frozen
class Fault(Struct):
    """One part of a request that is at fault."""

    path: str
    """Where it is: the JSON path in the body, such as $.template.ports[0].port, or ?name of a query parameter."""
    message: str
    """What was found and what was expected."""
    rule: str | None = None
    """The keyword of the schema that it breaks, such as maximum, required or unknown."""


class ApiError(Exception):
    """A refusal as the caller sees it; the message is for people and holds no secret."""

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
    """The refusal of a request with these faults, all at once."""
    shown = "; ".join(f"{_clipped(fault.path)}: {fault.message}" for fault in faults[:3])
    more = f"; and {len(faults) - 3} more, see details" if len(faults) > 3 else ""
    if len(faults) > MOST_FAULTS_SHOWN:
        more = f"; and more than {MOST_FAULTS_SHOWN - 3} others, see details"
    return ApiError(400, "invalid_request", f"{shown}{more}", faults)


class Faults:
    """Collects the faults that blocks refuse a request for, so that the caller hears of all of them at once."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, ApiError) or error.status != 400:
            return False
        self._found += error.details
        return True

    def refuse(self) -> None:
        """Pass if there was none.

        Raises:
            ApiError: 400.
        """
        if self._found:
            raise invalid(*self._found)


def refusal_of(error: Exception) -> ApiError:
    """The answer that an error stands for. One that is nobody's refusal is a 500, which tells nothing of the inside."""
    match error:
        case ApiError():
            return error
        case InvalidRequestError(problems=problems):
            return invalid(*(_fault(problem) for problem in problems))
        case ServiceError(code=code):
            return _of_service(code, str(error))
        case KubeError():
            return _of_kube(error)
        case web.HTTPException():
            return _of_http(error)
        case _:
            return ApiError(500, CODES[500], "the request failed on our side; the log of the process says why")


def error_body(refusal: ApiError) -> bytes:
    """The JSON of a refusal. It lists the first hundred faults, and the message says if there are more.

    A byte of the request that was no text is told as an escape.
    """
    error: dict[str, Any] = {"code": refusal.code, "message": _told(refusal.message)}
    if refusal.details:
        error["details"] = [_plain(fault) for fault in refusal.details[:MOST_FAULTS_SHOWN]]
    return orjson.dumps({"error": error})


def _plain(fault: Fault) -> dict[str, str]:
    rule = {} if fault.rule is None else {"rule": fault.rule}
    return {"path": _told(_clipped(fault.path)), **rule, "message": _told(fault.message)}


def _told(text: str) -> str:
    # Bytes of headers and paths that are not UTF-8 come as lone surrogates, which no JSON can hold.
    return text.encode(errors="backslashreplace").decode()


def _clipped(path: str) -> str:
    return path if len(path) <= _PATH_SHOWN else f"{path[:_PATH_SHOWN]}..."


def _fault(problem: str) -> Fault:
    """The services name the field before a colon."""
    named = _PROBLEM.fullmatch(problem)
    return Fault(f"$.{named[1]}", named[2]) if named else Fault("$", problem)


def _of_service(code: str, message: str) -> ApiError:
    status = _SERVICE_STATUS[code]
    return ApiError(status, code, message, headers=_retry(None) if status >= 500 else EMPTY)


def _of_kube(error: KubeError) -> ApiError:
    if is_denied(error):
        return _away(error)
    for kind, answer in _KUBE:
        if isinstance(error, kind):
            return answer(error)
    return _away(error)


def _of_status(status: int, code: str) -> Callable[[Any], ApiError]:
    return lambda error: ApiError(status, code, f"the cluster refused: {error.message or error}")


def _of_rules(error: StatusError) -> ApiError:
    message = f"the cluster refused: {error.message or error}"
    faults = tuple(Fault(f"$.{cause.field}" if cause.field else "$", cause.message) for cause in error.causes)
    return ApiError(400, CODES[400], message, faults)


def _away(error: KubeError) -> ApiError:
    told = getattr(error, "retry_after", None)
    uncertain = "; it may have been carried out, send it again with the same operationID" * error.outcome_unknown
    message = f"the cluster cannot be asked now{uncertain}"
    return ApiError(503, CODES[503], message, headers=_retry(told))


# The first line that fits. What is in none of them says nothing about the request: the cluster is away, or not ours.
_KUBE: Final[tuple[tuple[type[KubeError], Callable[[Any], ApiError]], ...]] = (
    (UnavailableError, _away),
    (TooManyRequestsError, _away),
    (BadRequestError, _of_rules),
    (InvalidError, _of_rules),
    (ForbiddenError, _of_status(409, "refused")),
    (NotFoundError, _of_status(404, CODES[404])),
    (ConflictError, _of_status(409, "conflict")),
)


def _of_http(refusal: web.HTTPException) -> ApiError:
    code = CODES.get(refusal.status, CODES[400] if refusal.status < 500 else CODES[500])
    headers = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else {}
    return ApiError(refusal.status, code, refusal.reason.lower(), headers=headers)


def _retry(seconds: float | None) -> Mapping[str, str]:
    waited = min(seconds or _RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
    return {"Retry-After": str(math.ceil(waited))}
