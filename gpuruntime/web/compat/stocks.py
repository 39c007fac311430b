"""/stocks: reserved capacity, a simplified view of stock units."""

from attrs import frozen

from gpuruntime.api.rest.machines import DeletedStocks, DeleteStocks, MachineQuery, NewStocks, Stock
from gpuruntime.endpoints.server.route import NO_CAPACITY, REFUSED, Call, Idempotency, Reply, Response, Route, Scope
from gpuruntime.service.compat.machines import Machines
from gpuruntime.web.compat.paging import age_header, page_of

__all__ = ["StockRoutes"]


@frozen
class StockRoutes:
    """The routes of /stocks, on any backend of machines."""

    machines: Machines

    async def list(self, call: Call) -> Reply:
        """List stocks by id: those that are available, and those that a VM uses."""
        page = page_of(self.machines.stocks(), call.query, lambda stock: stock.id)
        return Reply(200, page, age_header(self.machines.age()))

    async def create(self, call: Call) -> Reply:
        """Reserve capacity. The response is sent when all stocks are available, or after 20 seconds with 202 and the
        stocks as they are by then. Sent again with the same operationID, nothing is reserved, and the response is 200.
        """
        request: NewStocks = call.body
        created = await self.machines.create_stocks(call.operation_id, request)
        if not created.is_ready:
            return Reply(202, created.stocks)
        return Reply(200 if created.is_replay else 201, created.stocks)

    async def delete(self, call: Call) -> Reply:
        """Delete unused stocks of a flavour: first those that are not ready, then the newest. Either the requested
        number is deleted, or none. Stocks of a pool are not deleted.
        """
        request: DeleteStocks = call.body
        return Reply(200, await self.machines.delete_stocks(call.operation_id, request))

    def routes(self) -> tuple[Route, ...]:
        """The routes below the prefix of the API."""
        return (
            Route(
                "GET",
                "/stocks",
                self.list,
                "List stocks",
                Scope.READ,
                name="listStocks",
                query=MachineQuery,
                responses=(Response(200, Stock, "The stocks.", is_list=True),),
            ),
            Route(
                "POST",
                "/stocks",
                self.create,
                "Create stocks",
                Scope.OPERATOR,
                name="createStocks",
                body=NewStocks,
                responses=(
                    Response(201, Stock, "The stocks. All are available.", is_list=True),
                    Response(200, Stock, "The request was sent before: its stocks as they are now.", is_list=True),
                    Response(202, Stock, "The stocks as they are: not all are available yet.", is_list=True),
                ),
                errors=(REFUSED,),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                "DELETE",
                "/stocks",
                self.delete,
                "Delete unused stocks",
                Scope.OPERATOR,
                name="deleteStocks",
                body=DeleteStocks,
                responses=(Response(200, DeletedStocks, "The flavour and the number of stocks that were deleted."),),
                errors=(NO_CAPACITY, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
        )
