"""Admission: problems of a spec that are reported before anything is stored, and rejections by the API server.

A quota, an admission policy or a validation rule rejects the request, and a retry is of no use. RBAC rejects our own
account instead: that is temporary right after the start of an API server, which does not know its roles yet, or else an
administrator has to fix the roles; both times a retry succeeds later.

Each problem of a spec starts with the path of a field as the caller wrote it, such as "template.ports[0].port".
"""

import re
from collections.abc import Mapping
from typing import Final

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import GROUP
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.desired.problems import Problem, bad_label
from gpuruntime.desired.validation import problems, stock_problems
from gpuruntime.kube import BadRequestError, ForbiddenError, InvalidError, KubeError, StatusError, UnavailableError
from gpuruntime.meta import ObjectMeta
from gpuruntime.schema import violations
from gpuruntime.service.errors import InvalidRequestError, RefusedError

__all__ = [
    "REFUSALS",
    "is_rbac_denial",
    "is_reserved",
    "label_problems",
    "pool_problems",
    "raise_if_any",
    "raise_if_rbac_denial",
    "refusal",
    "unit_problems",
]

REFUSALS: Final = (BadRequestError, ForbiddenError, InvalidError)
"""Errors by which the API server rejects a request for good."""

_RBAC_DENIAL: Final = re.compile(r'User "[^"]*" cannot \w+ resource')
_RESERVED: Final = (GROUP, "app.kubernetes.io")


def unit_problems(spec: GPUUnitSpec) -> list[str]:
    """Problems of a unit's spec: violations of its schema, or else of the rules that a schema cannot express."""
    broken = [str(violation) for violation in violations(spec, GPUUnitSpec)]
    return broken or [_as_written(problem) for problem in problems(GPUUnit(ObjectMeta(), spec))]


def pool_problems(spec: StockPoolSpec) -> list[str]:
    """Problems of a pool's spec, and of the units that it would create."""
    broken = [str(violation) for violation in violations(spec, StockPoolSpec)]
    return broken or [_as_written(problem) for problem in stock_problems(spec)]


def label_problems(labels: Mapping[str, str]) -> list[str]:
    """Problems of the labels of a caller, who may not set the product's own."""
    found = [str(problem) for key, value in labels.items() for problem in bad_label("labels", key, value)]
    taken = sorted(key for key in labels if is_reserved(key))
    return found + [f"labels: expected labels of your own, got {key!r}, which the product sets" for key in taken]


def is_reserved(label: str) -> bool:
    """Whether only the product sets this label."""
    return label.partition("/")[0] in _RESERVED


def raise_if_any(found: list[str]) -> None:
    """Return if there are no problems.

    Raises:
        InvalidRequestError: there are.
    """
    if found:
        raise InvalidRequestError(tuple(found))


def is_rbac_denial(error: KubeError) -> bool:
    """Whether RBAC denied the request to our own account."""
    return isinstance(error, StatusError) and error.code == 403 and _RBAC_DENIAL.search(error.message) is not None


def raise_if_rbac_denial(error: StatusError) -> None:
    """Return if the API server rejected the request itself.

    Raises:
        UnavailableError: RBAC denied it to our account; try again later.
    """
    if is_rbac_denial(error):
        raise UnavailableError(f"this process lacks a permission (yet): {error}") from error


def refusal(what: str, error: StatusError) -> RefusedError:
    """The error to raise when the API server rejects a write.

    Raises:
        UnavailableError: see `raise_if_rbac_denial`.
    """
    raise_if_rbac_denial(error)
    return RefusedError(f"{what} was refused: {error}")


def _as_written(problem: Problem) -> str:
    return str(problem).removeprefix("spec.")
