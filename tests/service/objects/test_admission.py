"""Whether a refusal is about a request or about us."""

import pytest

from gpuruntime.kube.errors import ConflictError, ForbiddenError, KubeError, Status, StatusError, UnavailableError
from gpuruntime.service.errors import RefusedError
from gpuruntime.service.objects.admission import is_denied, refused

DENIED = ForbiddenError(
    Status(
        403,
        "Forbidden",
        'operations.runtime.lokiwager.io "op-1" is forbidden: User "system:serviceaccount:gpuruntime-system:manager"'
        ' cannot get resource "operations" in API group "runtime.lokiwager.io" in the namespace "gpuruntime-system"',
    )
)
QUOTA = ForbiddenError(Status(403, "Forbidden", 'gpuunits "a" is forbidden: exceeded quota: none, requested: 1'))
POLICY = ForbiddenError(Status(403, "Forbidden", 'admission webhook "images" denied the request: no such registry'))


@pytest.mark.parametrize(
    ("error", "denied"),
    [
        (DENIED, True),
        (QUOTA, False),
        (POLICY, False),
        (ConflictError(Status(409, "Conflict", 'User "a" cannot get resource')), False),
        (UnavailableError('User "a" cannot get resource'), False),
    ],
)
def test_a_right_that_we_lack_is_told_from_a_rule_that_a_request_breaks(error: KubeError, denied: bool) -> None:
    assert is_denied(error) == denied


@pytest.mark.parametrize("error", [QUOTA, POLICY])
def test_what_breaks_a_rule_is_refused(error: StatusError) -> None:
    refusal = refused("unit a", error)

    assert isinstance(refusal, RefusedError)
    assert "unit a was refused" in str(refusal)
    assert error.message in str(refusal)


def test_what_we_may_not_do_is_for_later() -> None:
    with pytest.raises(UnavailableError, match="this process may not do it"):
        refused("unit a", DENIED)
