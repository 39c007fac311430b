"""/vms: what runs on reserved capacity in plain words, a view of active units."""

from attrs import field, frozen

from gpuruntime.meta import FrozenDict, Struct, wire
from gpuruntime.service.compat.machines import DELETED, VM, Machines, NewVM
from gpuruntime.web.compat.machine_pages import MachineQuery, aged, page_of
from gpuruntime.web.server.reply_headers import shown
from gpuruntime.web.server.route import NO_CAPACITY, REFUSED, STALE, Answer, Call, Idempotency, Reply, Route, Scope

__all__ = ["DeletedVM", "VMRoutes"]


@frozen
class DeletedVM(Struct):
    """A VM that is gone."""

    vm_id: str = field(metadata=wire("vmID"))
    """Its name."""
    status: str
    """deleted."""


@frozen
class VMRoutes:
    """The routes, over whoever keeps VMs."""

    machines: Machines

    async def list(self, call: Call) -> Reply:
        """All VMs by id."""
        page = page_of(self.machines.vms(), call.query, lambda vm: vm.id)
        return Reply(200, page, aged(self.machines.age()))

    async def create(self, call: Call) -> Reply:
        """Makes a VM with the default image on the oldest available stock of a flavour, or on the one that stockID
        names. That it is stored does not mean that it runs: see its status. Sent again with the same operationID, it
        makes nothing and answers 200.
        """
        request: NewVM = call.body
        created = await self.machines.create_vm(call.operation_id, request)
        return Reply(200 if created.is_replay else 201, created.vm, FrozenDict(shown(created.version)))

    async def get(self, call: Call) -> Reply:
        """One VM."""
        vm = await self.machines.vm(call.names["id"], call.at_least)
        return Reply(200, vm, aged(self.machines.age()))

    async def delete(self, call: Call) -> Reply:
        """Deletes a VM. Its stock is available again, unless a pool had supplied it: the pool has made another.

        With If-Match, only if the unit that it is has this ETag when the request comes.
        """
        await self.machines.delete_vm(call.operation_id, call.names["id"], call.if_match or "")
        return Reply(200, DeletedVM(call.names["id"], DELETED))

    def routes(self) -> tuple[Route, ...]:
        """What is served below the API's prefix."""
        missing = (404, "vm_not_found")
        return (
            Route(
                "GET",
                "/vms",
                self.list,
                "List VMs",
                Scope.READ,
                name="listVms",
                query=MachineQuery,
                answers=(Answer(200, VM, "The VMs.", is_list=True),),
            ),
            Route(
                "POST",
                "/vms",
                self.create,
                "Create a VM on reserved capacity",
                Scope.WRITE,
                name="createVm",
                body=NewVM,
                answers=(
                    Answer(201, VM, "The VM, stored."),
                    Answer(200, VM, "The VM of a request that was sent before."),
                ),
                refusals=(NO_CAPACITY, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                "GET",
                "/vms/{id}",
                self.get,
                "Get a VM",
                Scope.READ,
                name="getVm",
                answers=(Answer(200, VM, "The VM."),),
                refusals=(missing,),
            ),
            Route(
                "DELETE",
                "/vms/{id}",
                self.delete,
                "Delete a VM",
                Scope.WRITE,
                name="deleteVm",
                answers=(Answer(200, DeletedVM, "It is gone."),),
                refusals=(missing, STALE, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
        )
