"""The namespaces in which the product works."""

from attrs import frozen

from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE, Roles

__all__ = ["Places"]


@frozen
class Places:
    """The namespaces in which the product works. It looks into no other, and needs no permissions there.

    Args:
        instance: where active units may be; those that name no namespace are in the first one.
        stock: where reserved capacity is, in the same way.
        system: where Operations are, and the lease of the process that leads.
    """

    instance: tuple[str, ...] = (INSTANCE_NAMESPACE,)
    stock: tuple[str, ...] = (STOCK_NAMESPACE,)
    system: str = SYSTEM_NAMESPACE

    @property
    def units(self) -> tuple[str, ...]:
        """Where units are, of either role."""
        return tuple(sorted({*self.instance, *self.stock}))

    @property
    def all(self) -> tuple[str, ...]:
        """Every namespace of the product."""
        return tuple(sorted({*self.units, self.system}))

    @property
    def roles(self) -> Roles:
        return Roles(self.stock)

    @property
    def confused(self) -> tuple[str, ...]:
        """Namespaces that would be for active units and for stock, which none can be."""
        return tuple(sorted({*self.instance} & {*self.stock}))
