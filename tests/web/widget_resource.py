"""A toy kind with everything that the API needs of it: the recipe of docs/contributing.md in one file."""

from typing import Annotated, Any, Final

from attrs import field, frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import patch_of, project, view_of
from gpuruntime.api.rest.objects import Name, Namespace, ObjectView
from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.endpoints.server.route import Route
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.meta import (
    Condition,
    Definition,
    FrozenDict,
    MapOf,
    ObjectMeta,
    Range,
    ResourceKind,
    Struct,
    TypedObject,
)
from gpuruntime.schema import violations
from gpuruntime.service.objects.create import CreateObjectHandler
from gpuruntime.service.objects.delete import DeleteObjectHandler
from gpuruntime.service.objects.served_kind import ServedKind
from gpuruntime.service.objects.update import UpdateObjectHandler, spec_patch
from gpuruntime.service.wiring import SERVED_KINDS, Service, ServiceOptions, install_service
from gpuruntime.web.resources.object_models import object_fields, object_filter
from gpuruntime.web.resources.object_resource import Create, Delete, ObjectResource, Update, Words
from gpuruntime.web.resources.object_routes import object_routes

__all__ = ["Widget", "WidgetStatus", "widget_routes", "wired"]


# gpuruntime/api/widget.py: the kind.
@frozen
class WidgetSpec(Struct):
    size: Annotated[int, Range(minimum=1, maximum=8)] = 1
    """Its size."""


@frozen
class WidgetStatus(Struct):
    phase: str | None = None
    observed_generation: int | None = None
    last_sync_time: str | None = None
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()


@frozen
class Widget(TypedObject):
    """Something with a size."""

    KIND = ResourceKind("resource.example.org", "v1", "Widget", "widgets", namespaced=True)
    DEFINITION = Definition()

    spec: WidgetSpec
    status: WidgetStatus = field(default=WidgetStatus())


# gpuruntime/api/rest/widgets.py: bodies and views.
@frozen
class CreateWidgetBody(WidgetSpec):
    """A widget."""

    name: Name = field(kw_only=True)
    """Its name."""
    namespace: Namespace | None = None
    """Its namespace."""


@frozen(field_transformer=patch_of(WidgetSpec))
class UpdateWidgetBody(Struct):
    """The fields to change."""


@frozen(field_transformer=view_of(WidgetSpec))
class WidgetView(ObjectView, WidgetSpec):
    """Spec and status of a widget."""


# gpuruntime/service/widgets.py: requests and their checks.
@frozen
class CreateWidget(Struct):
    name: str
    namespace: str
    spec: WidgetSpec


def _widget(request: CreateWidget) -> Widget:
    return Widget(ObjectMeta(name=request.name, namespace=request.namespace), request.spec)


def _patch(widget: Widget, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    return spec_patch(widget.spec, change)


WIDGETS: Final = ServedKind(
    Widget,
    lambda namespaces: namespaces.instance,
    creation=CreateObjectHandler(
        "create_widget", CreateWidget, _widget, lambda request: violations(request.spec, WidgetSpec)
    ),
    update=UpdateObjectHandler("update_widget", Widget, _patch),
    deletion=DeleteObjectHandler("delete_widget", Widget),
)


# gpuruntime/service/wiring.py: its row.
def wired(credentials: Credentials, namespaces: Namespaces) -> tuple[Manager, Service]:
    """A process with the rows of the product and that of widgets."""
    manager = Manager(credentials, ManagerOptions("widgets"))
    kinds = (*SERVED_KINDS, WIDGETS)
    return manager, install_service(manager, credentials, ServiceOptions(namespaces), kinds)


# gpuruntime/web/resources/widgets.py: the resource.
def widget_routes(service: Service) -> tuple[Route, ...]:
    """The routes of widgets."""
    widgets = service.of(WIDGETS)

    def request(body: CreateWidgetBody, _operation_id: str) -> CreateWidget:
        return CreateWidget(body.name, body.namespace or widgets.namespaces[0], project(body, WidgetSpec))

    return object_routes(
        ObjectResource(
            path="/widgets",
            words=Words("widget", "widgets", "Widget"),
            objects=widgets,
            matches=object_filter,
            view_type=WidgetView,
            view=lambda widget: project(widget.spec, WidgetView, **object_fields(widget)),
            deleted_view=WidgetView,
            create=Create("Create a widget.", CreateWidgetBody, request, widgets.create),
            update=Update("Update a widget.", UpdateWidgetBody),
            delete=Delete("Delete a widget.", widgets.delete),
        )
    )
