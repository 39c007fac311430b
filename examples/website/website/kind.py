"""The kind: spec and status of a Website. The CustomResourceDefinition is generated from it."""

from typing import Annotated, ClassVar

from attrs import field, frozen

from gpuruntime.meta import (
    Column,
    Condition,
    Definition,
    Length,
    MapOf,
    Range,
    ResourceKind,
    Struct,
    TypedObject,
)

__all__ = ["Website", "WebsiteSpec", "WebsiteStatus"]


@frozen
class WebsiteSpec(Struct):
    """What the site shows, and how many pods serve it."""

    html: Annotated[str, Length(minimum=1, maximum=65536)]
    """The page."""

    replicas: Annotated[int, Range(minimum=1, maximum=10)] = 1
    """How many pods serve the page."""


@frozen
class WebsiteStatus(Struct):
    """How the site is doing."""

    ready_replicas: int = 0
    """How many pods serve the page now."""

    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()
    """`Ready` is True while as many pods as wanted serve the page."""


@frozen
class Website(TypedObject):
    """A page that pods serve inside of the cluster, under a Service of the same name."""

    KIND = ResourceKind("example.org", "v1", "Website", "websites", namespaced=True)
    DEFINITION: ClassVar[Definition] = Definition(
        short_names=("site",),
        columns=(
            Column("Wanted", ".spec.replicas", type="integer"),
            Column("Serving", ".status.readyReplicas", type="integer"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        ),
    )

    spec: WebsiteSpec
    status: WebsiteStatus = field(default=WebsiteStatus())
