"""The namespaces of the product, and the role that a unit has by its namespace."""

from typing import Final, Literal

from attrs import frozen

__all__ = ["INSTANCE_NAMESPACE", "STOCK_NAMESPACE", "SYSTEM_NAMESPACE", "Namespaces", "Role"]

Role = Literal["active", "stock"]

INSTANCE_NAMESPACE: Final = "runtime-instance"
"""Default namespace of active units."""
STOCK_NAMESPACE: Final = "runtime-stock"
"""Default namespace of stock units and pools."""
SYSTEM_NAMESPACE: Final = "gpuruntime-system"
"""Default namespace of Operations, of the lease and of the processes."""


@frozen
class Namespaces:
    """The namespaces that the product works in. It reads and writes no other namespace, and needs no permissions there.

    A unit's role follows from its namespace and nothing else: stock in a stock namespace, active in any other.

    Args:
        instance: for active units. The first is the default of requests that name no namespace.
        stock: for stock units and pools. The first is the default of requests that name no namespace.
        system: for Operations and the lease.
    """

    instance: tuple[str, ...] = (INSTANCE_NAMESPACE,)
    stock: tuple[str, ...] = (STOCK_NAMESPACE,)
    system: str = SYSTEM_NAMESPACE

    @property
    def default_instance(self) -> str:
        return self.instance[0]

    @property
    def default_stock(self) -> str:
        return self.stock[0]

    @property
    def units(self) -> tuple[str, ...]:
        """The namespaces of units of either role, sorted."""
        return tuple(sorted({*self.instance, *self.stock}))

    @property
    def all(self) -> tuple[str, ...]:
        """Every namespace of the product, sorted."""
        return tuple(sorted({*self.units, self.system}))

    def is_stock(self, namespace: str) -> bool:
        return namespace in self.stock

    def role_of(self, namespace: str) -> Role:
        return "stock" if namespace in self.stock else "active"
