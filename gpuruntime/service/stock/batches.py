"""Stock on request: seeding a batch of stock units."""

from attrs import frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import SEED_STOCK_UNITS
from gpuruntime.service.operations.operations import Operations, Submitted
from gpuruntime.service.operations.requests import SeedStock, check_seed

__all__ = ["StockBatches"]


@frozen
class StockBatches:
    """Seeds stock. The Operation is the job; if it succeeded, all units are stored, ready or not."""

    operations: Operations
    namespaces: Namespaces

    async def seed(self, operation_id: str, request: SeedStock) -> Submitted:
        """Record that stock is to be made, and begin; a replay begins nothing.

        Raises:
            InvalidRequestError: nothing like that can be made.
            OperationConflictError: the operationID was used for another request.
            NotRunningError, KubeError: not now.
        """
        check_seed(request, self.namespaces)
        return await self.operations.submit(operation_id, SEED_STOCK_UNITS, request)
