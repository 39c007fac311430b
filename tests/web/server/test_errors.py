"""The table from errors to answers."""

import orjson
import pytest

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
from gpuruntime.service.errors import (
    ClaimedError,
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
)
from gpuruntime.web.server.errors import ApiError, Fault, Faults, error_body, invalid, refusal_of


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequestError(("replicas: expected 1, got 0",)), 400, "invalid_request"),
        (OperationConflictError("another request"), 409, "operation_conflict"),
        (NameTakenError("taken"), 409, "operation_conflict"),
        (InsufficientCapacityError("none"), 409, "insufficient_capacity"),
        (ObjectNotFoundError("none"), 404, "not_found"),
        (RefusedError("quota"), 409, "refused"),
        (StaleVersionError("changed"), 412, "conflict"),
        (ClaimedError("in use"), 409, "stock_claimed"),
        (NotRunningError("stopping"), 503, "service_unavailable"),
        (NotFinishedError("later"), 504, "not_finished"),
    ],
)
def test_a_use_case_that_says_no_has_its_own_code(error: ServiceError, status: int, code: str) -> None:
    refusal = refusal_of(error)

    assert (refusal.status, refusal.code) == (status, code)
    assert ("Retry-After" in refusal.headers) == (status >= 500)


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
def test_what_the_cluster_does_is_told_from_what_it_refuses(error: KubeError, status: int, code: str) -> None:
    refusal = refusal_of(error)

    assert (refusal.status, refusal.code) == (status, code)
    assert ("Retry-After" in refusal.headers) == (status == 503)


@pytest.mark.parametrize("kind", ServiceError.__subclasses__())
def test_every_refusal_of_the_services_has_a_status(kind: type[ServiceError]) -> None:
    refusal = refusal_of(kind(("wrong",) if kind is InvalidRequestError else "wrong"))

    assert (refusal.status, refusal.code) != (500, "internal_error")


@pytest.mark.parametrize(("seconds", "header"), [(None, "2"), (0.2, "1"), (7.0, "7"), (86400.0, "60")])
def test_callers_wait_as_long_as_the_cluster_asks_for_within_reason(seconds: float | None, header: str) -> None:
    refusal = refusal_of(UnavailableError("away", retry_after=seconds))

    assert refusal.headers["Retry-After"] == header


def test_an_uncertain_write_says_how_to_find_out() -> None:
    refusal = refusal_of(UnavailableError("cut off", outcome_unknown=True))

    assert "send it again with the same operationID" in refusal.message


def test_problems_of_services_name_their_fields() -> None:
    refusal = refusal_of(InvalidRequestError(("replicas: expected 1 to 9, got 0", "the moon is wrong")))

    assert refusal.details == (Fault("$.replicas", "expected 1 to 9, got 0"), Fault("$", "the moon is wrong"))


def test_rules_that_only_the_cluster_can_check_are_told_like_ours() -> None:
    causes = (Cause("FieldValueInvalid", "spec.image", "must be an image"),)

    refusal = refusal_of(InvalidError(Status(422, "Invalid", "GPUUnit is invalid", causes)))

    assert (refusal.status, refusal.details) == (400, (Fault("$.spec.image", "must be an image"),))


def test_a_failure_of_ours_tells_nothing_of_the_inside() -> None:
    refusal = refusal_of(KeyError("hunter2"))

    assert (refusal.status, refusal.code) == (500, "internal_error")
    assert b"hunter2" not in error_body(refusal)


def test_a_byte_that_is_no_text_is_told_as_an_escape() -> None:
    refusal = invalid(Fault("?\udcff", "expected a number, got \udcfe"))

    error = orjson.loads(error_body(refusal))["error"]

    assert error["details"] == [{"path": "?\\udcff", "message": "expected a number, got \\udcfe"}]
    assert error["message"] == "?\\udcff: expected a number, got \\udcfe"


def test_very_many_faults_make_no_very_long_answer() -> None:
    refusal = invalid(*(Fault(f"$.{'x' * 1000}{number}", "expected less") for number in range(5000)))

    body = error_body(refusal)

    assert len(orjson.loads(body)["error"]["details"]) == 100
    assert len(body) < 30_000
    assert refusal.message.endswith("; and more than 97 others, see details")


def test_faults_of_several_steps_are_refused_together() -> None:
    faults = Faults()
    for path in ("$.a", "$.b"):
        with faults:
            raise invalid(Fault(path, "wrong"))

    with pytest.raises(ApiError) as caught:
        faults.refuse()

    assert [fault.path for fault in caught.value.details] == ["$.a", "$.b"]


def test_what_is_no_fault_of_the_request_ends_the_collection() -> None:
    with pytest.raises(ApiError, match="too large"), Faults():
        raise ApiError(413, "request_too_large", "too large")
