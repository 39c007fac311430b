"""/stocks: reserved capacity in plain words, a view of stock units."""

from attrs import frozen

from gpuruntime.service.compat.machines import DeletedStocks, DeleteStocks, Machines, NewStocks, Stock
from gpuruntime.web.compat.machine_pages import MachineQuery, aged, page_of
from gpuruntime.web.server.route import NO_CAPACITY, REFUSED, Answer, Call, Idempotency, Reply, Route, Scope

__all__ = ["StockRoutes"]


@frozen
class StockRoutes:
    """The routes, over whoever keeps stocks."""

    machines: Machines

    async def list(self, call: Call) -> Reply:
        """All stocks by id: those that wait, and those that a VM has."""
        page = page_of(self.machines.stocks(), call.query, lambda stock: stock.id)
        return Reply(200, page, aged(self.machines.age()))

    async def create(self, call: Call) -> Reply:
        """Reserves capacity. The answer comes when all of it can be used, or after 20 seconds with 202 and the stocks
        as they are by then. Sent again with the same operationID, it reserves nothing and answers 200.
        """
        request: NewStocks = call.body
        created = await self.machines.create_stocks(call.operation_id, request)
        if not created.is_ready:
            return Reply(202, created.stocks)
        return Reply(200 if created.is_replay else 201, created.stocks)

    async def delete(self, call: Call) -> Reply:
        """Gives up stocks of a flavour that no VM has, those first that are not ready, then the youngest: as many as
        asked for, or none. Stocks of a pool are not touched.
        """
        request: DeleteStocks = call.body
        return Reply(200, await self.machines.delete_stocks(call.operation_id, request))

    def routes(self) -> tuple[Route, ...]:
        """What is served below the API's prefix."""
        return (
            Route(
                "GET",
                "/stocks",
                self.list,
                "List stocks",
                Scope.READ,
                name="listStocks",
                query=MachineQuery,
                answers=(Answer(200, Stock, "The stocks.", is_list=True),),
            ),
            Route(
                "POST",
                "/stocks",
                self.create,
                "Create stocks",
                Scope.OPERATOR,
                name="createStocks",
                body=NewStocks,
                answers=(
                    Answer(201, Stock, "The stocks, all of which can be used.", is_list=True),
                    Answer(200, Stock, "The stocks of a request that was sent before.", is_list=True),
                    Answer(202, Stock, "The stocks as far as they are made by now.", is_list=True),
                ),
                refusals=(REFUSED,),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                "DELETE",
                "/stocks",
                self.delete,
                "Delete stocks that nobody uses",
                Scope.OPERATOR,
                name="deleteStocks",
                body=DeleteStocks,
                answers=(Answer(200, DeletedStocks, "What was deleted."),),
                refusals=(NO_CAPACITY, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
        )
