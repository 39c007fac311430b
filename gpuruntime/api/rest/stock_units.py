"""Body of /operator/stock-units. Its views are those of units."""

from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.rest.objects import Namespace
from gpuruntime.meta import Range

__all__ = ["LARGEST_BATCH", "SeedStockBody"]

LARGEST_BATCH: Final = 999
"""Maximum number of stock units of one seed request."""


@frozen
class SeedStockBody(Reservation):
    """A batch of stock units: how many, and what each of them reserves. Stock units run no user image."""

    replicas: Annotated[int, Range(minimum=1, maximum=LARGEST_BATCH)] = field(kw_only=True)
    """Number of units to create."""
    namespace: Namespace | None = None
    """The stock namespace to create them in. Defaults to the first stock namespace."""
