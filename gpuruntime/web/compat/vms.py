"""/vms: machines on reserved capacity, a simplified view of active units."""

from attrs import frozen

from gpuruntime.api.rest.machines import VM, DeletedVM, MachineQuery, NewVM
from gpuruntime.endpoints.server.headers import version_header
from gpuruntime.endpoints.server.route import (
    NO_CAPACITY,
    REFUSED,
    STALE,
    Call,
    Idempotency,
    Reply,
    Response,
    Route,
    Scope,
)
from gpuruntime.meta import FrozenDict
from gpuruntime.service.compat.machines import DELETED, Machines
from gpuruntime.web.compat.paging import age_header, page_of

__all__ = ["VMRoutes"]


@frozen
class VMRoutes:
    """The routes of /vms, on any backend of machines."""

    machines: Machines

    async def list(self, call: Call) -> Reply:
        """List VMs by id."""
        page = page_of(self.machines.vms(), call.query, lambda vm: vm.id)
        return Reply(200, page, age_header(self.machines.age()))

    async def create(self, call: Call) -> Reply:
        """Create a VM with the default image on the oldest available stock of a flavour, or on the stock that stockID
        names. The VM is stored, but may not run yet: see its status. Sent again with the same operationID, nothing is
        created, and the response is 200.
        """
        request: NewVM = call.body
        created = await self.machines.create_vm(call.operation_id, request)
        return Reply(200 if created.is_replay else 201, created.vm, FrozenDict(version_header(created.version)))

    async def get(self, call: Call) -> Reply:
        """Get a VM."""
        vm = await self.machines.vm(call.path_params["id"], call.at_least)
        return Reply(200, vm, age_header(self.machines.age()))

    async def delete(self, call: Call) -> Reply:
        """Delete a VM. Its stock becomes available again, unless a pool supplied it: the pool has replaced it already.

        With If-Match, only if the unit of the VM has this ETag when the request arrives.
        """
        await self.machines.delete_vm(call.operation_id, call.path_params["id"], call.if_match or "")
        return Reply(200, DeletedVM(call.path_params["id"], DELETED))

    def routes(self) -> tuple[Route, ...]:
        """The routes below the prefix of the API."""
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
                responses=(Response(200, VM, "The VMs.", is_list=True),),
            ),
            Route(
                "POST",
                "/vms",
                self.create,
                "Create a VM on reserved capacity",
                Scope.WRITE,
                name="createVm",
                body=NewVM,
                responses=(
                    Response(201, VM, "The VM is stored."),
                    Response(200, VM, "The request was sent before: the VM as it is now."),
                ),
                errors=(NO_CAPACITY, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                "GET",
                "/vms/{id}",
                self.get,
                "Get a VM",
                Scope.READ,
                name="getVm",
                responses=(Response(200, VM, "The VM."),),
                errors=(missing,),
            ),
            Route(
                "DELETE",
                "/vms/{id}",
                self.delete,
                "Delete a VM",
                Scope.WRITE,
                name="deleteVm",
                responses=(Response(200, DeletedVM, "The VM is deleted."),),
                errors=(missing, STALE, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
        )
