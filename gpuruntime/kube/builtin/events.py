"""events.k8s.io/v1: Event."""

from attrs import field, frozen

from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["Event", "EventSeries", "ObjectReference"]


@frozen
class ObjectReference(Struct):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


@frozen
class EventSeries(Struct):
    """The number of occurrences, and the time of the last one (with microseconds, see `format_micros`)."""

    count: int
    last_observed_time: str


@frozen
class Event(TypedObject):
    """`event_time` has microseconds on the wire, and is null on events that were created through core/v1."""

    KIND = ResourceKind("events.k8s.io", "v1", "Event", "events", namespaced=True)

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str | None = None
    reporting_instance: str | None = None
    action: str | None = None
    reason: str | None = None
    type: str | None = None
    note: str | None = None
    regarding: ObjectReference = field(default=ObjectReference())
    related: ObjectReference | None = None
