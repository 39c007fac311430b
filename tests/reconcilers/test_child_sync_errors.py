"""What an error of a write means for a unit: one row a kind of error."""

import pytest

from gpuruntime.api import reasons
from gpuruntime.control import (
    BeingDeletedError,
    ForeignObjectError,
    HotLoopError,
    ImmutableDifferenceError,
    StaleOwnerError,
    WriteRefusedError,
)
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    Status,
    TooManyRequestsError,
    UnavailableError,
)
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.reconcilers.child_sync_errors import child_sync_error

OTHER = ConfigMap(ObjectMeta(name="unit-a", namespace="apps", deletion_timestamp="2026-01-01T00:00:00Z"))


def is_living(namespace: str, uid: str) -> bool:
    return (namespace, uid) == ("apps", "living")


@pytest.mark.parametrize(
    ("error", "reason", "seconds", "words"),
    [
        (ForeignObjectError(OTHER, None, OTHER), reasons.FOREIGN_OBJECT, 30, "ConfigMap apps/unit-a"),
        (StaleOwnerError(OTHER, "gone", OTHER), "", 30, "previous Deployment"),
        (StaleOwnerError(OTHER, "living", OTHER), reasons.FOREIGN_OBJECT, 30, "ConfigMap apps/unit-a"),
        (BeingDeletedError(OTHER), "", 30, "previous Deployment"),
        (ImmutableDifferenceError(OTHER, ["spec.selector"]), "SyncFailed", 60, "spec.selector"),
        (ForbiddenError(Status(403, message="exceeded quota: q")), "SyncFailed", 60, "exceeded quota: q"),
        (InvalidError(Status(422, message="name is too long")), "SyncFailed", 60, "name is too long"),
        (BadRequestError(Status(400, "BadRequest")), "SyncFailed", 60, "BadRequest"),
        (ServerError(Status(500, message="failed calling webhook")), "", None, "failed calling webhook"),
        (TooManyRequestsError(Status(429, message="slow down")), "", None, "slow down"),
        (HotLoopError("reverted fields: spec.replicas", retry_after=30.0), "", None, "spec.replicas"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_refusal_is_a_failure_and_a_server_in_trouble_is_something_to_wait_for(
    error: KubeError | WriteRefusedError, reason: str, seconds: float | None, words: str
) -> None:
    met = child_sync_error(error, "Deployment", "SyncFailed", is_living=is_living)

    assert met is not None
    assert (met.failure.reason, met.seconds) == (reason, seconds)
    assert words in met.failure.message


@pytest.mark.parametrize(
    "error",
    [
        ConflictError(Status(409)),
        NotFoundError(Status(404)),
        UnavailableError("connection refused"),
        KubeError("something else"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_says_nothing_about_the_unit_is_not_in_its_status(error: KubeError) -> None:
    assert child_sync_error(error, "Deployment", "SyncFailed", is_living=is_living) is None
