"""A kind for tests of the builder, and a cluster that has it."""

from typing import Final

from attrs import frozen

from gpuruntime.meta import Definition, ResourceKind, Struct, TypedObject
from gpuruntime.schema import definition
from gpuruntime.testing import ClusterAccess
from tests.control.scenes import await_served

__all__ = ["GROUP", "Widget", "WidgetSpec", "WidgetStatus", "create_widget", "install_widgets"]

GROUP: Final = "builder.example.org"


@frozen
class WidgetSpec(Struct):
    size: int = 0


@frozen
class WidgetStatus(Struct):
    phase: str = ""


@frozen
class Widget(TypedObject):
    """Something with a size."""

    KIND = ResourceKind(GROUP, "v1", "Widget", "widgets", namespaced=True)
    DEFINITION = Definition()

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


def install_widgets(cluster: ClusterAccess) -> None:
    """Install the CustomResourceDefinition; it stays for other tests."""
    text = str(definition(Widget)).replace("True", "true").replace("False", "false")
    cluster.kubectl("apply", "--server-side", "-f", "-", input_text=text)
    cluster.kubectl("wait", f"crd/widgets.{GROUP}", "--for=condition=Established", "--timeout=60s")
    await_served(cluster.admin(), Widget.KIND.path(None))


def create_widget(cluster: ClusterAccess, namespace: str, name: str = "one", size: int = 1) -> None:
    body = {"metadata": {"name": name}, "spec": {"size": size}}
    cluster.admin().create(Widget.KIND.path(namespace), {"apiVersion": f"{GROUP}/v1", "kind": "Widget", **body})
