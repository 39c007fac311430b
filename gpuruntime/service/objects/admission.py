"""Admission: violations that are reported before anything is stored, and rejections by the API server.

A quota, an admission policy or a validation rule rejects the request, and a retry is of no use. RBAC rejects our own
account instead: that is temporary right after the start of an API server, which does not know its roles yet, or else an
administrator has to fix the roles; both times a retry succeeds later.

The path of each violation is that of a field as the caller wrote it, such as "template.ports[0].port".
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from gpuruntime.api.rest.objects import CallerLabels
from gpuruntime.kube import BadRequestError, ForbiddenError, InvalidError, KubeError, StatusError, UnavailableError
from gpuruntime.meta import FrozenDict, ObjectKey, Struct, is_dns_subdomain
from gpuruntime.schema import Violation, violations
from gpuruntime.service.errors import InvalidRequestError, RefusedError

__all__ = [
    "REFUSALS",
    "is_rbac_denial",
    "key_violations",
    "label_violations",
    "namespace_violations",
    "raise_if_any",
    "raise_if_rbac_denial",
    "refusal",
]

REFUSALS: Final = (BadRequestError, ForbiddenError, InvalidError)
"""Errors by which the API server rejects a request for good."""

_RBAC_DENIAL: Final = re.compile(r'User "[^"]*" cannot \w+ resource')


@frozen
class _CallerLabels(Struct):
    labels: CallerLabels


def key_violations(key: ObjectKey, what: str, allowed: Collection[str]) -> Iterator[Violation]:
    """The rules that name and namespace of an object to create violate; see `namespace_violations`."""
    if not is_dns_subdomain(key.name):
        yield Violation.of("name", "lower-case letters, digits, '-' and '.'", key.name)
    yield from namespace_violations("namespace", key.namespace, what, allowed)


def namespace_violations(field: str, namespace: str, what: str, allowed: Collection[str]) -> Iterator[Violation]:
    """The violation of a field that must name one of the namespaces for such objects, if it does not.

    No controller watches another one: an object there would never be reconciled.
    """
    if namespace not in allowed:
        yield Violation.of(field, f"one for {what} ({', '.join(sorted(allowed))})", namespace)


def label_violations(labels: Mapping[str, str]) -> tuple[Violation, ...]:
    """The rules that the labels of a caller violate, who may not set the product's own."""
    return violations(_CallerLabels(FrozenDict(labels)), _CallerLabels)


def raise_if_any(violations: Iterable[Violation]) -> None:
    """Return if there are no violations.

    Raises:
        InvalidRequestError: there are.
    """
    found = tuple(violations)
    if found:
        raise InvalidRequestError(found)


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
