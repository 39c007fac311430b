"""Every answer becomes one error of the tree, whatever is in it."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

import gpuruntime.kube
from gpuruntime.kube import errors
from gpuruntime.kube.errors import Cause, KubeError, StatusError, UnavailableError, error_from_status


def status(code: int, reason: str = "", message: str = "", **details: Any) -> bytes:
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    ).encode()


def error_of(code: int, body: bytes = b"", **headers: str) -> KubeError:
    return error_from_status(code, body, CIMultiDict({name.replace("_", "-"): text for name, text in headers.items()}))


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequestError),
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (406, "NotAcceptable", errors.StatusError),
        (409, "Conflict", errors.ConflictError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (410, "Expired", errors.ExpiredError),
        (410, "Gone", errors.ExpiredError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
        (501, "", errors.ServerError),
        (502, "", errors.UnavailableError),
        (503, "ServiceUnavailable", errors.UnavailableError),
        (504, "Timeout", errors.UnavailableError),
    ],
)
def test_the_code_and_the_reason_choose_the_error(code: int, reason: str, expected: type[KubeError]) -> None:
    with_status = error_of(code, status(code, reason, "a pity"))

    assert type(with_status) is expected
    assert str(with_status) == f"{code} {reason}: a pity".replace(" :", ":")


def test_the_answer_keeps_its_fields() -> None:
    causes = [
        {"reason": "FieldValueInvalid", "field": "spec.replicas", "message": "must be positive"},
        {"field": "spec.name"},
    ]

    error = error_from_status(422, status(422, "Invalid", "no", causes=causes, retryAfterSeconds=3), {}, "PUT /x")

    assert isinstance(error, errors.InvalidError)
    assert (error.code, error.reason, error.message, error.retry_after) == (422, "Invalid", "no", 3.0)
    assert error.causes == (
        Cause("FieldValueInvalid", "spec.replicas", "must be positive"),
        Cause(field="spec.name"),
    )
    assert str(error) == "PUT /x: 422 Invalid: no"


def test_a_version_of_the_future_differs_from_other_timeouts() -> None:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]

    error = error_of(504, status(504, "Timeout", "Too large resource version: 9", causes=causes, retryAfterSeconds=1))

    assert isinstance(error, errors.TooLargeResourceVersionError)
    assert error.retry_after == 1.0


def test_a_page_of_a_proxy_is_quoted_on_one_short_line() -> None:
    page = b"<html>\n  <h1>Bad  Gateway</h1>\n" + b"x" * 5000

    error = error_of(502, page)

    assert str(error).startswith("502: <html> <h1>Bad Gateway</h1> xxx")
    assert len(str(error)) == len("502: ") + 256


def test_the_header_says_better_than_the_body_how_long_to_wait() -> None:
    error = error_of(429, status(429, "TooManyRequests", retryAfterSeconds=3), Retry_After="7")
    unavailable = error_of(503, b"", Retry_After="2")

    assert isinstance(error, StatusError)
    assert error.retry_after == 7.0
    assert isinstance(unavailable, UnavailableError)
    assert (unavailable.code, unavailable.retry_after) == (503, 2.0)


@pytest.mark.parametrize(
    ("code", "unknown"), [(404, False), (409, False), (429, False), (500, True), (502, True), (503, True), (504, True)]
)
def test_only_a_server_that_failed_leaves_the_outcome_of_a_write_open(code: int, unknown: bool) -> None:
    assert error_of(code).outcome_unknown is unknown


def test_the_status_of_a_watch_event_is_an_error_as_well() -> None:
    expired = errors.error_from_watch_status({"kind": "Status", "code": 410, "reason": "Expired", "message": "old"})
    gone = errors.error_from_watch_status({"kind": "Status", "code": 410, "reason": "Gone"})
    strange = errors.error_from_watch_status({"kind": "Pod"})

    assert isinstance(expired, errors.ExpiredError)
    assert isinstance(gone, errors.ExpiredError)
    assert isinstance(strange, errors.ServerError)


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("away", code=503, retry_after=1.0, outcome_unknown=True),
        errors.UnexpectedResponseError("a page", outcome_unknown=True),
        errors.NotFoundError(errors.Status(404, "NotFound", "no"), "GET /x"),
        errors.CredentialsError("none"),
    ],
)
def test_an_error_travels_between_processes(error: KubeError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
statuses = st.fixed_dictionaries(
    {"kind": st.just("Status")},
    optional={
        "code": json_values,
        "reason": json_values,
        "message": json_values | st.text(min_size=200, max_size=900),
        "details": json_values | st.dictionaries(st.sampled_from(["causes", "retryAfterSeconds"]), json_values),
    },
)


@settings(deadline=None)
@given(
    st.integers(400, 599),
    st.binary(max_size=600) | statuses.map(lambda value: json.dumps(value).encode()),
    st.text(max_size=40),
)
def test_any_answer_becomes_an_error_of_bounded_size(code: int, body: bytes, retry_after: str) -> None:
    error = error_from_status(code, body, CIMultiDict({"Retry-After": retry_after}))

    assert isinstance(error, KubeError)
    assert len(str(error)) < 3 * 256


def test_a_date_to_come_again_at_is_measured_by_the_clock_of_the_answer() -> None:
    headers = {"Date": "Tue, 17 Nov 2020 12:00:00 GMT", "Retry-After": "Tue, 17 Nov 2020 12:00:07 GMT"}

    error = error_from_status(503, b"", CIMultiDict(headers))

    assert isinstance(error, UnavailableError)
    assert error.retry_after == 7.0


def test_no_exception_of_the_http_library_is_part_of_the_tree_or_of_the_public_face() -> None:
    public = [getattr(gpuruntime.kube, name) for name in gpuruntime.kube.__all__]

    exceptions = [value for value in public if isinstance(value, type) and issubclass(value, Exception)]

    assert KubeError in exceptions
    assert all(issubclass(error, KubeError) for error in exceptions)
    assert {base.__module__ for error in exceptions for base in error.__mro__} == {errors.__name__, "builtins"}
