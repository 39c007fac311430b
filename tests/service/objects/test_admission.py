"""Rejections by the API server."""

import pytest

from gpuruntime.kube.errors import ConflictError, ForbiddenError, KubeError, Status, StatusError, UnavailableError
from gpuruntime.service.errors import RefusedError
from gpuruntime.service.objects.admission import is_rbac_denial, refusal

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
def test_an_rbac_denial_is_distinguished_from_a_quota_or_a_policy(error: KubeError, denied: bool) -> None:
    assert is_rbac_denial(error) == denied


@pytest.mark.parametrize("error", [QUOTA, POLICY])
def test_a_quota_or_a_policy_refuses_the_request(error: StatusError) -> None:
    refused = refusal("unit a", error)

    assert isinstance(refused, RefusedError)
    assert "unit a" in str(refused)
    assert error.message in str(refused)


def test_an_rbac_denial_is_retried_later() -> None:
    with pytest.raises(UnavailableError, match="permission"):
        refusal("unit a", DENIED)
