"""Where things live, and what the place of a unit says about its role."""

from collections.abc import Iterable
from typing import Final, Literal

from attrs import field, frozen

__all__ = ["INSTANCE_NAMESPACE", "STOCK_NAMESPACE", "SYSTEM_NAMESPACE", "Role", "Roles"]

Role = Literal["active", "stock"]

STOCK_NAMESPACE: Final = "runtime-stock"
"""Reserved capacity, unless configured otherwise."""
INSTANCE_NAMESPACE: Final = "runtime-instance"
"""Active units, unless configured or asked for otherwise."""
SYSTEM_NAMESPACE: Final = "gpuruntime-system"
"""The product itself, and its Operations."""


def _as_set(namespaces: Iterable[str]) -> frozenset[str]:
    return frozenset(namespaces)


@frozen
class Roles:
    """The role of a unit follows its namespace and nothing else: stock in a stock namespace, active anywhere else."""

    stock_namespaces: frozenset[str] = field(default=(STOCK_NAMESPACE,), converter=_as_set)

    def is_stock(self, namespace: str) -> bool:
        return namespace in self.stock_namespaces

    def role_of(self, namespace: str) -> Role:
        return "stock" if namespace in self.stock_namespaces else "active"
