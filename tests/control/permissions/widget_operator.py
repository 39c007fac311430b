"""An operator of the lower layer that uses every declaration: a ConfigMap for each Widget, a status, events."""

from typing import Any, Final

from attrs import frozen

from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Watch
from gpuruntime.control.controllers.triggers import enqueue_object, enqueue_owner
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.informers.store import Store
from gpuruntime.control.manager import Election, Manager, ManagerOptions
from gpuruntime.control.permissions.declarations import Declaration, allow, allow_children, allow_events, allow_status
from gpuruntime.control.writing.status import write_status
from gpuruntime.control.writing.writer import Writer
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.client import Client
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta, ResourceKind, Struct, TypedObject
from gpuruntime.testing import AdminClient, ClusterAccess
from tests.control.scenes import LONG_LEASE, await_served

__all__ = ["DECLARED", "WIDGETS", "Widget", "build", "install_widgets", "phase_of"]

GROUP: Final = "permissions.example.org"


@frozen
class WidgetSpec(Struct):
    size: int = 0


@frozen
class WidgetStatus(Struct):
    phase: str = ""


@frozen
class Widget(TypedObject):
    KIND = ResourceKind(GROUP, "v1", "Widget", "widgets", namespaced=True)

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus | None = None


WIDGETS: Final = Widget.KIND.path
DECLARED: Final[tuple[Declaration, ...]] = (
    allow_children(ConfigMap, of=Widget),
    allow(ConfigMap, "delete"),
    allow_status(Widget),
    allow_events(Widget),
)


@frozen
class Reconciler:
    """A widget of size 0 has no map; any other has one with its size."""

    widgets: Store[Widget]
    maps: Store[ConfigMap]
    client: Client
    recorder: Recorder

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        widget, known = self.widgets.get(key), self.maps.get(key)
        if widget is None:
            return Result.done()
        writer, phase = Writer(self.client, field_manager="widgets.example.org"), f"size {widget.spec.size}"
        if widget.spec.size:
            metadata = ObjectMeta(name=key.name, namespace=key.namespace)
            await writer.ensure(ConfigMap(metadata, data=FrozenDict(size=str(widget.spec.size))), widget, live=known)
        elif known is not None:
            await writer.remove(known, widget)
        if await write_status(self.client, widget, WidgetStatus(phase)):
            self.recorder.record(widget, "Normal", "Resized", "Resize", phase)
        return Result.done()


def build(credentials: Credentials, namespace: str, declared: tuple[Declaration, ...] = DECLARED) -> Manager:
    """The whole operator, in one namespace."""
    election = Election(namespace, "widgets", timing=LONG_LEASE)
    manager = Manager(credentials, ManagerOptions("widgets", election=election, grace=5.0))
    widgets = manager.cache.informer(Widget, namespaces=[namespace])
    maps = manager.cache.informer(ConfigMap, namespaces=[namespace])
    reconciler = Reconciler(widgets.store, maps.store, manager.client, manager.recorder)
    manager.add_controller(
        "widget", reconciler, [Watch(widgets, enqueue_object()), Watch(maps, enqueue_owner(Widget.KIND))]
    )
    manager.declare(*declared)
    return manager


def install_widgets(cluster: ClusterAccess) -> None:
    """Make the kind known; it stays for other tests."""
    free: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }
    cluster.kubectl("apply", "--server-side", "-f", "-", input_text=str(body).replace("True", "true"))
    cluster.kubectl("wait", f"crd/widgets.{GROUP}", "--for=condition=Established", "--timeout=60s")
    await_served(cluster.admin(), Widget.KIND.path(None))


def phase_of(admin: AdminClient, namespace: str, name: str) -> str:
    status = admin.get(Widget.KIND.path(namespace, name)).get("status") or {}
    return str(status.get("phase", ""))
