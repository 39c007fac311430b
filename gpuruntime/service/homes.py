"""Where something is that names no namespace."""

from attrs import frozen

from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE

__all__ = ["Homes"]


@frozen
class Homes:
    """The namespaces that requests are about unless they name another: of active units, and of stock and pools."""

    active: str = INSTANCE_NAMESPACE
    stock: str = STOCK_NAMESPACE
