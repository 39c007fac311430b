"""The objects of a run at one moment, and the moments one after the other."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from attrs import field, frozen

from gpuruntime.kube.forms import Form, as_form
from gpuruntime.meta import ResourceKind

__all__ = ["Event", "EventType", "Moment", "Place", "World", "moments"]

T = TypeVar("T")
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Place(NamedTuple):
    """Where an object is."""

    kind: ResourceKind
    namespace: str
    name: str


@frozen
class World:
    """The objects of the scenario's kinds in the namespaces of a run, all as JSON; `namespaces` gives those by role."""

    namespaces: Mapping[str, str]
    objects: Mapping[Place, Mapping[str, Any]] = field(factory=dict)

    def list(self, form: type[T] | Form[T], role: str | None = None) -> tuple[T, ...]:
        """The objects of a kind, decoded, in one namespace or all of them; none if the scenario does not name the kind.

        Raises:
            KeyError: there is no namespace of this role.
        """
        wanted = as_form(form)
        namespace = None if role is None else self.namespaces[role]
        return tuple(
            wanted.decode(dict(obj))
            for place, obj in self.objects.items()
            if place.kind == wanted.kind and namespace in (None, place.namespace)
        )

    def get(self, form: type[T] | Form[T], name: str, role: str = "main") -> T | None:
        wanted = as_form(form)
        found = self.objects.get(Place(wanted.kind, self.namespaces[role], name))
        return None if found is None else wanted.decode(dict(found))


@frozen
class Event:
    """A change as a watch tells it."""

    version: int
    type: EventType
    place: Place
    object: Mapping[str, Any] = field(repr=False)


@frozen
class Moment:
    """A change, and the world right after it."""

    event: Event
    world: World

    def __str__(self) -> str:
        place = self.event.place
        return f"after {self.event.type} {place.kind.kind} {place.namespace}/{place.name}"


def moments(start: World, events: Iterable[Event]) -> Iterator[Moment]:
    """Every state that the cluster was in, in the order in which it was: by resource version, whatever came first."""
    world = start
    for event in sorted(events, key=lambda event: event.version):
        others = {place: obj for place, obj in world.objects.items() if place != event.place}
        if event.type != "DELETED":
            others[event.place] = event.object
        world = World(world.namespaces, others)
        yield Moment(event, world)
