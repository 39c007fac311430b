"""The table from exceptions to error responses."""

import orjson
import pytest

from gpuruntime.endpoints.server.errors import ApiError, Fault, Faults, as_api_error, error_body, invalid
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    Cause,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    Status,
    TooManyRequestsError,
    UnavailableError,
    UnexpectedResponseError,
)
from gpuruntime.schema import Violation
from gpuruntime.service.errors import (
    InsufficientCapacityError,
    InvalidRequestError,
    NameTakenError,
    NotFinishedError,
    NotRunningError,
    ObjectNotFoundError,
    OperationConflictError,
    RefusedError,
    ServiceError,
    StaleVersionError,
    StockClaimedError,
)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequestError((Violation.of("replicas", "1", 0),)), 400, "invalid_request"),
        (OperationConflictError("another request"), 409, "operation_conflict"),
        (NameTakenError("taken"), 409, "operation_conflict"),
        (InsufficientCapacityError("none"), 409, "insufficient_capacity"),
        (ObjectNotFoundError("none"), 404, "not_found"),
        (RefusedError("quota"), 409, "refused"),
        (StaleVersionError("changed"), 412, "conflict"),
        (StockClaimedError("in use"), 409, "stock_claimed"),
        (NotRunningError("stopping"), 503, "service_unavailable"),
        (NotFinishedError("later"), 504, "not_finished"),
    ],
)
def test_every_service_error_has_its_own_code(error: ServiceError, status: int, code: str) -> None:
    response = as_api_error(error)

    assert (response.status, response.code) == (status, code)
    assert ("Retry-After" in response.headers) == (status >= 500)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UnavailableError("refused"), 503, "service_unavailable"),
        (CredentialsError("none"), 503, "service_unavailable"),
        (UnexpectedResponseError("a page"), 503, "service_unavailable"),
        (TooManyRequestsError(Status(429, retry_after=0.5)), 503, "service_unavailable"),
        (ServerError(Status(500)), 503, "service_unavailable"),
        (InvalidError(Status(422)), 400, "invalid_request"),
        (ForbiddenError(Status(403)), 409, "refused"),
        (ForbiddenError(Status(403, "Forbidden", 'User "us" cannot get resource "x"')), 503, "service_unavailable"),
        (NotFoundError(Status(404)), 404, "not_found"),
        (ConflictError(Status(409)), 409, "conflict"),
        (AlreadyExistsError(Status(409)), 409, "conflict"),
    ],
)
def test_rejections_by_the_cluster_and_an_unavailable_cluster_have_different_codes(
    error: KubeError, status: int, code: str
) -> None:
    response = as_api_error(error)

    assert (response.status, response.code) == (status, code)
    assert ("Retry-After" in response.headers) == (status == 503)


@pytest.mark.parametrize("kind", ServiceError.__subclasses__())
def test_every_service_error_has_a_status(kind: type[ServiceError]) -> None:
    error = as_api_error(kind((Violation("", "right"),) if kind is InvalidRequestError else "wrong"))

    assert (error.status, error.code) != (500, "internal_error")


@pytest.mark.parametrize(("seconds", "header"), [(None, "2"), (0.2, "1"), (7.0, "7"), (86400.0, "60")])
def test_retry_after_is_that_of_the_cluster_up_to_a_minute(seconds: float | None, header: str) -> None:
    error = as_api_error(UnavailableError("away", retry_after=seconds))

    assert error.headers["Retry-After"] == header


def test_an_error_with_unknown_outcome_says_how_to_retry() -> None:
    error = as_api_error(UnavailableError("cut off", outcome_unknown=True))

    assert "send it again with the same operationID" in error.message


def test_violations_of_services_become_faults_of_fields() -> None:
    found = (Violation("replicas", "1 to 9", "0", "minimum"), Violation("", "another moon"))

    error = as_api_error(InvalidRequestError(found))

    assert [(fault.path, fault.rule) for fault in error.details] == [("$.replicas", "minimum"), ("$", None)]


def test_causes_of_the_api_server_become_faults() -> None:
    causes = (Cause("FieldValueInvalid", "spec.image", "must be an image"),)

    error = as_api_error(InvalidError(Status(422, "Invalid", "GPUUnit is invalid", causes)))

    assert (error.status, error.details) == (400, (Fault("$.spec.image", "must be an image"),))


def test_an_internal_error_reveals_nothing() -> None:
    error = as_api_error(KeyError("hunter2"))

    assert (error.status, error.code) == (500, "internal_error")
    assert b"hunter2" not in error_body(error)


def test_invalid_utf_8_is_shown_as_an_escape() -> None:
    error = invalid(Fault("?\udcff", "expected a number, got \udcfe"))

    error = orjson.loads(error_body(error))["error"]

    assert error["details"] == [{"path": "?\\udcff", "message": "expected a number, got \\udcfe"}]
    assert error["message"] == "?\\udcff: expected a number, got \\udcfe"


def test_many_faults_do_not_make_a_long_response() -> None:
    error = invalid(*(Fault(f"$.{'x' * 1000}{number}", "expected less") for number in range(5000)))

    body = error_body(error)

    assert len(orjson.loads(body)["error"]["details"]) == 100
    assert len(body) < 30_000
    assert error.message.endswith("; and more than 97 others, see details")


def test_faults_of_several_steps_are_reported_together() -> None:
    faults = Faults()
    for path in ("$.a", "$.b"):
        with faults:
            raise invalid(Fault(path, "wrong"))

    with pytest.raises(ApiError) as caught:
        faults.raise_if_any()

    assert [fault.path for fault in caught.value.details] == ["$.a", "$.b"]


def test_an_error_other_than_400_is_not_collected() -> None:
    with pytest.raises(ApiError, match="too large"), Faults():
        raise ApiError(413, "request_too_large", "too large")
