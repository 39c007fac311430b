"""/serverless/functions: programs that run on request, and their queues."""

from collections.abc import Callable

from attrs import evolve

from gpuruntime.api.gpufunction import FunctionWorkers, GPUFunction, GPUFunctionSpec, request_id_of
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import project
from gpuruntime.api.rest.functions import (
    CreateFunctionBody,
    FunctionQuery,
    FunctionView,
    QueueLimits,
    QueueView,
    UpdateFunctionBody,
)
from gpuruntime.api.rest.queries import NamespaceQuery
from gpuruntime.bus import Bus
from gpuruntime.endpoints.server.route import Call, Reply, Response, Route, Scope
from gpuruntime.meta import parse_quantity
from gpuruntime.service.functions import FUNCTIONS, CreateFunction, create_function
from gpuruntime.service.invocations.functions import waiting_for
from gpuruntime.service.invocations.queue_figures import QueueFigures, QueueReads
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.masking import redacted_for
from gpuruntime.web.resources.object_models import flavour_filter, object_fields
from gpuruntime.web.resources.object_resource import Create, Delete, ObjectResource, Update, Words
from gpuruntime.web.resources.object_routes import object_routes

__all__ = ["function_routes", "function_view"]

_PATH = "/serverless/functions"
_WORDS = Words("function", "functions", "GpuFunction")
_CREATE = """\
Create a function: a program that runs on request. Callers invoke it by its requestID.

Without a name it gets the requestID as its name, or one derived from that. It holds no GPU; its workers are units of
the same namespace, `scaling.minWorkers` of them."""
_UPDATE = """\
Update what workers are made of, their number, or what holds for invocations. A change of image, template, envelope or
framework replaces the workers one by one, the new one first. With paused, invocations are accepted and not started."""
_DELETE = """\
Delete a function and its workers. What is queued or runs is cancelled, with failureClass function_deleted. The function
is visible, with `deleting: true`, until that is done: wait with for=Deleted."""
_QUEUE = """\
The queue of a function: how much is queued and runs, how long the oldest has waited, and what it waits for.

The figures are read from NATS at each request. Without NATS, or before the function has a queue, the response is 503
`queue_unavailable`."""


def function_routes(service: Service, bus: Bus | None) -> tuple[Route, ...]:
    """The routes of functions; without a bus the queues are not available."""
    functions = service.of(FUNCTIONS)
    resource = ObjectResource(
        path=_PATH,
        words=_WORDS,
        objects=functions,
        query=FunctionQuery,
        matches=_filter,
        view_type=FunctionView,
        view=function_view,
        deleted_view=FunctionView,
        create=Create(
            _CREATE,
            CreateFunctionBody,
            lambda body, _operation_id: _create_request(body, service.namespaces),
            functions.create,
        ),
        update=Update(_UPDATE, UpdateFunctionBody),
        delete=Delete(_DELETE, functions.delete),
    )
    return (*object_routes(resource), _queue_route(resource, QueueReads(bus)))


def function_view(function: GPUFunction) -> FunctionView:
    """The view of a function."""
    meta, status = function.metadata, function.status
    return project(
        function.spec,
        FunctionView,
        **object_fields(function),
        request_id=request_id_of(function),
        workers=status.workers,
        revision=status.revision,
        start_failures=status.start_failures,
        conditions=status.conditions,
        deleting=True if meta.deletion_timestamp is not None else None,
    )


def _filter(query: FunctionQuery) -> Callable[[GPUFunction], bool]:
    matches = flavour_filter(query)
    return lambda found: query.request_id in {None, request_id_of(found)} and matches(found)


def _create_request(body: CreateFunctionBody, namespaces: Namespaces) -> CreateFunction:
    """The request to the service; `namespaces` are the defaults."""
    return create_function(body.name, project(body, GPUFunctionSpec), body.namespace or namespaces.default_instance)


def _queue_route(resource: ObjectResource[GPUFunction, FunctionView], queues: QueueReads) -> Route:
    async def queue(call: Call) -> Reply:
        key = resource.objects.key(call.path_params["name"], call.query.namespace)
        found = await resource.objects.reads.get(key, call.at_least)
        function = found.object
        view = _queue_view(function, await queues.figures(function))
        waits = redacted_for(call.caller, view.waiting_for, function_view(function))
        return Reply(200, evolve(view, waiting_for=waits))

    return Route(
        *("GET", f"{_PATH}/{{name}}/queue", queue, "Get the queue of a function", Scope.READ),
        name="getGpuFunctionQueue",
        description=_QUEUE,
        query=NamespaceQuery,
        has_version=False,
        responses=(Response(200, QueueView, "The queue."),),
        errors=(_WORDS.missing, (503, "queue_unavailable")),
    )


def _queue_view(function: GPUFunction, figures: QueueFigures) -> QueueView:
    meta, limits = function.metadata, function.spec.invocation
    return QueueView(
        name=meta.name,
        namespace=meta.namespace,
        request_id=request_id_of(function),
        queued=figures.queued,
        running=figures.running,
        bytes=figures.bytes,
        limits=QueueLimits(limits.max_queued, parse_quantity(limits.max_queued_bytes).ceil()),
        workers=function.status.workers or FunctionWorkers(),
        oldest_age_seconds=figures.oldest_age_seconds,
        waiting_for=waiting_for(function) if figures.queued else None,
    )
