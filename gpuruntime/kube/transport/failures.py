"""Maps exceptions of aiohttp, and responses that are not of an API server, to KubeErrors."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from gpuruntime.kube.errors import (
    KubeError,
    UnavailableError,
    UnexpectedResponseError,
    error_from_status,
    excerpt,
)
from gpuruntime.kube.transport.session import ConnectionLostError

__all__ = ["FAILURES", "error_from_failure", "error_from_foreign_stream", "error_from_response"]

# TimeoutError is an OSError.
FAILURES: Final = (ConnectionLostError, aiohttp.ClientError, OSError)


def error_from_failure(
    failure: Exception, request: str, *, outcome_unknown: bool, seconds: float | None = None
) -> UnavailableError:
    """The error for one of FAILURES, with aiohttp's exception as its cause. `seconds` is the timeout."""
    cause = failure.__cause__ if isinstance(failure, ConnectionLostError) else failure
    error = UnavailableError(f"{request}: {_reason(cause, seconds)}", outcome_unknown=outcome_unknown)
    error.__cause__ = cause
    return error


def error_from_response(code: int, body: bytes, headers: Mapping[str, str], request: str) -> KubeError:
    """The error for a response of any code but 2xx."""
    if code >= 400:
        return error_from_status(code, body, headers, request)
    host = urlsplit(headers.get("Location", "")).hostname or "the same host"
    return UnexpectedResponseError(
        f"{request}: expected the response of an API server, found {code}, a redirect to {excerpt(host.encode())}; "
        "check the address of the server and whether a proxy with a login page is in front of it"
    )


def error_from_foreign_stream(content_type: str, page: bytes, request: str) -> UnexpectedResponseError:
    """The error for a stream that is not JSON."""
    return UnexpectedResponseError(f"{request}: expected a stream of JSON, found {content_type}: {excerpt(page)}")


def _reason(cause: BaseException | None, seconds: float | None) -> str:  # noqa: PLR0911  # a table in all but name
    match cause:
        case aiohttp.ClientConnectorError():
            # Not its own text, which includes TLS options.
            detail = cause.os_error.strerror or str(cause.os_error)
            return f"cannot connect to {cause.host}:{cause.port}: {detail}"
        case aiohttp.ConnectionTimeoutError():
            return "cannot connect in time"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without a response"
        case aiohttp.ClientPayloadError():
            return "the response was cut off"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy returned {cause.status}"
        case TimeoutError():
            return "timed out" if seconds is None else f"no response within {seconds:g} s"
        case OSError():
            return f"the connection was lost: {cause.strerror or type(cause).__name__}"
    return f"no usable response: {type(cause).__name__}"
