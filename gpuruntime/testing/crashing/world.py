"""The objects of a run at one time, and the sequence of all states that the cluster went through."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from attrs import field, frozen

from gpuruntime.kube.forms import Form, as_form
from gpuruntime.meta import ResourceKind

__all__ = ["Event", "EventType", "Moment", "ObjectRef", "World", "moments"]

T = TypeVar("T")
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class ObjectRef(NamedTuple):
    """The kind, namespace and name of an object."""

    kind: ResourceKind
    namespace: str
    name: str


@frozen
class World:
    """All objects of the scenario's kinds in the namespaces of a run, as JSON; `namespaces` maps roles to names."""

    namespaces: Mapping[str, str]
    objects: Mapping[ObjectRef, Mapping[str, Any]] = field(factory=dict)

    def list(self, form: type[T] | Form[T], role: str | None = None) -> tuple[T, ...]:
        """The decoded objects of a kind, in the namespace of a role or in all; empty for a kind not in the scenario.

        Raises:
            KeyError: the scenario has no such role.
        """
        wanted = as_form(form)
        namespace = None if role is None else self.namespaces[role]
        return tuple(
            wanted.decode(dict(obj))
            for ref, obj in self.objects.items()
            if ref.kind == wanted.kind and namespace in (None, ref.namespace)
        )

    def get(self, form: type[T] | Form[T], name: str, role: str = "main") -> T | None:
        wanted = as_form(form)
        found = self.objects.get(ObjectRef(wanted.kind, self.namespaces[role], name))
        return None if found is None else wanted.decode(dict(found))


@frozen
class Event:
    """A change as a watch reports it."""

    version: int
    type: EventType
    ref: ObjectRef
    object: Mapping[str, Any] = field(repr=False)


@frozen
class Moment:
    """A change, and the state right after it."""

    event: Event
    world: World

    def __str__(self) -> str:
        ref = self.event.ref
        return f"after {self.event.type} {ref.kind.kind} {ref.namespace}/{ref.name}"


def moments(start: World, events: Iterable[Event]) -> Iterator[Moment]:
    """Every state that the cluster was in, ordered by resource version and not by the arrival of events."""
    world = start
    for event in sorted(events, key=lambda event: event.version):
        others = {ref: obj for ref, obj in world.objects.items() if ref != event.ref}
        if event.type != "DELETED":
            others[event.ref] = event.object
        world = World(world.namespaces, others)
        yield Moment(event, world)
