"""/gpu-storages: data that outlives units. A preparation that failed is repeated on request only."""

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import project
from gpuruntime.api.rest.gpu_storages import CreateStorageBody, RecoverStorageBody, StorageView, UpdateStorageBody
from gpuruntime.api.rest.queries import ObjectQuery
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.endpoints.server.route import CONFLICT, REFUSED, STALE, Call, Idempotency, Reply, Response, Route, Scope
from gpuruntime.service.storage.recovery import STORAGE_RECOVERY, recovery_request
from gpuruntime.service.storage.requests import STORAGES, CreateStorage
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.object_handlers import ObjectHandlers
from gpuruntime.web.resources.object_models import object_fields, object_filter
from gpuruntime.web.resources.object_resource import Create, Delete, ObjectResource, Update, Words
from gpuruntime.web.resources.object_routes import object_routes

__all__ = ["gpu_storage_routes", "storage_view"]

_PATH = "/gpu-storages"
_WORDS = Words("storage", "storages", "GpuStorage")
_IN_USE = (409, "storage_in_use")
_CREATE = """\
Create a storage: a volume that one unit at a time can mount, empty or prepared. A preparation runs once, before the
first unit can mount the storage: the program of an image, which writes to /workspace, or a copy of another storage."""
_UPDATE = """\
Change the size, the accessor or the VolumeAttributesClass. The size can grow if the StorageClass allows it; it can be
reduced, but not below the capacity."""
_DELETE = """\
Delete a storage and its data, unless a unit mounts it or another storage copies it. It is visible, with
`deleting: true`, until its volume is gone: wait with for=Deleted."""
_RECOVER = """\
Repeat the preparation of a storage, once, after it failed. By default everything on the volume is deleted first.

Nothing else repeats a preparation. A storage whose preparation has not failed, or whose last recovery has yet to begin,
is answered with 409, one without a preparation with 400. Sent again with the same operationID, the preparation is not
repeated again."""


def gpu_storage_routes(service: Service) -> tuple[Route, ...]:
    """The routes of storages."""
    storages = service.of(STORAGES)
    resource = ObjectResource(
        path=_PATH,
        words=_WORDS,
        objects=storages,
        matches=object_filter,
        view_type=StorageView,
        view=storage_view,
        deleted_view=StorageView,
        create=Create(
            _CREATE,
            CreateStorageBody,
            lambda body, _operation_id: _create_request(body, service.namespaces),
            storages.create,
        ),
        update=Update(_UPDATE, UpdateStorageBody),
        delete=Delete(_DELETE, storages.delete, errors=(_IN_USE,)),
    )
    return (*object_routes(resource), _recover_route(resource))


def storage_view(storage: GPUStorage) -> StorageView:
    """The view of a storage. Its lock is shown as soon as it is written."""
    meta, status, lock = storage.metadata, storage.status, lock_of(storage.metadata)
    return project(
        storage.spec,
        StorageView,
        **object_fields(storage),
        capacity=status.capacity,
        claim_name=status.claim_name,
        attached_to=None if lock is None else lock.holder,
        mounted_by=tuple(sorted(status.mounted_by)),
        prepare_status=status.prepare,
        resize=status.resize,
        accessor_status=status.accessor,
        deleting=True if meta.deletion_timestamp is not None else None,
    )


def _create_request(body: CreateStorageBody, namespaces: Namespaces) -> CreateStorage:
    """The request to the service; `namespaces` are the defaults."""
    return CreateStorage(body.name, project(body, GPUStorageSpec), body.namespace or namespaces.default_instance)


def _recover_route(resource: ObjectResource[GPUStorage, StorageView]) -> Route:
    handlers = ObjectHandlers(resource)

    async def recover(call: Call) -> Reply:
        body: RecoverStorageBody = call.body
        key = resource.objects.key(call.path_params["name"], call.query.namespace)
        request = recovery_request(key, call.operation_id, wipe=body.wipe, resource_version=call.if_match or "")
        return await handlers.written(call, await resource.objects.act(STORAGE_RECOVERY, call.operation_id, request))

    return Route(
        *("POST", f"{_PATH}/{{name}}/recover", recover, "Repeat a failed preparation", Scope.WRITE),
        name="recoverGpuStorage",
        description=_RECOVER,
        body=RecoverStorageBody,
        query=ObjectQuery,
        responses=(
            Response(200, StorageView, "The storage; its preparation is repeated."),
            Response(202, StorageView, "The storage as it is: the timeout was over before it was ready."),
        ),
        errors=(_WORDS.missing, STALE, CONFLICT, _IN_USE, (409, "not_recoverable"), REFUSED),
        idempotency=Idempotency.ACCEPTED,
    )
