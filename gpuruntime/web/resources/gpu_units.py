"""/gpu-units: active units. Their creation claims stock, their deletion returns it."""

from functools import partial

from gpuruntime.api.rest.gpu_units import CreateUnitBody, UnitView, UpdateUnitBody
from gpuruntime.api.rest.queries import FlavourQuery
from gpuruntime.endpoints.server.route import NO_CAPACITY, STORAGE_IN_USE, Route
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.operations.submit import Performed
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.object_models import flavour_filter
from gpuruntime.web.resources.object_resource import Create, Delete, ObjectResource, Update, Words
from gpuruntime.web.resources.object_routes import object_routes
from gpuruntime.web.resources.unit_models import ACTIVE, create_request, unit_view

__all__ = ["gpu_unit_routes"]

_CREATE = """\
Claim the oldest ready stock unit of the flavour, and run the image on its capacity.

With coldStart the unit is created without stock. With serverless it is a worker of the function with that requestID,
which is made from the unit if there is none. The storages in storageMounts are locked for the unit first; it starts
when they can be mounted. If there is no ready stock, or a storage is in use, nothing is stored, and the operationID can
be used again."""
_UPDATE = """\
Update image, template, access, pull secrets, security profile, storages, serverless or labels. A change of anything but
labels restarts the unit. New storages are locked for it first; those that it does not mount any more are freed when the
old pod has ended."""
_DELETE = "Delete a unit. The stock unit that it was created from is created again, unless a pool had supplied it."


def gpu_unit_routes(service: Service) -> tuple[Route, ...]:
    """The routes of active units."""

    async def delete(operation_id: str, request: DeleteObject) -> Performed:
        asked = DeleteUnit(request.name, request.namespace)
        deleted = await service.units.delete(operation_id, asked, version=request.resource_version)
        return deleted.performed

    return object_routes(
        ObjectResource(
            path="/gpu-units",
            words=Words("unit", "units", "GpuUnit"),
            objects=service.of(ACTIVE_UNITS),
            query=FlavourQuery,
            matches=flavour_filter,
            view_type=UnitView,
            view=lambda unit: unit_view(unit, service.namespaces),
            deleted_view=partial(UnitView, lifecycle=ACTIVE),
            create=Create(
                _CREATE,
                CreateUnitBody,
                lambda body, _operation_id: create_request(body, service.namespaces),
                service.units.create,
                errors=(NO_CAPACITY, STORAGE_IN_USE),
            ),
            update=Update(_UPDATE, UpdateUnitBody, errors=(STORAGE_IN_USE,)),
            delete=Delete(_DELETE, delete),
        )
    )
