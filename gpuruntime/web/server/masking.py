"""What a caller sees who may read and not write: everything but the values of fields that may hold secrets.

Which fields these are is said where they are declared, with `wire(sensitive=True)`. A masked view has as many variables
and arguments as the object, each with the mask as its value.
"""

from typing import Any, TypeVar

from attrs import evolve, fields

from gpuruntime.meta import EMPTY, FrozenDict, Struct
from gpuruntime.meta.structs import MASK, is_sensitive
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.objects.redaction import concealed, secret_texts
from gpuruntime.web.resources.object_views import ObjectView
from gpuruntime.web.server.route import Caller

__all__ = ["masked", "refuse_masks", "shown_to"]

S = TypeVar("S", bound=Struct)
V = TypeVar("V", bound=ObjectView)


def shown_to(caller: Caller, view: V) -> V:
    """The view as this caller may see it."""
    return view if caller.sees_values else masked(view)


def masked(view: V) -> V:
    """The view with the mask in place of every value that may be a secret.

    Guarantees: its message does not quote them either, see `concealed`.
    """
    is_current = view.observed_generation == view.generation
    return evolve(_without_secrets(view), message=concealed(view.message, view, is_current=is_current))


def refuse_masks(body: Struct) -> None:
    """Pass if no value of a field that may be secret is the mask: somebody would write back what a reader saw.

    Raises:
        InvalidRequestError: names all of them.
    """
    found = [path for path, text in secret_texts(body) if text == MASK]
    if found:
        what = f"expected the value, got the mask {MASK!r}: read the object with scope write to see it"
        raise InvalidRequestError(tuple(f"{path}: {what}" for path in found))


def _without_secrets(struct: S) -> S:
    changes: dict[str, Any] = {}
    for attribute in fields(type(struct)):
        value = getattr(struct, attribute.name)
        shown = _hidden(value) if is_sensitive(attribute) else _inside(value)
        if shown is not value:
            changes[attribute.name] = shown
    # What a newer version has added may be secret, too.
    return evolve(struct, **changes, extra=EMPTY) if changes or struct.extra else struct


def _inside(value: Any) -> Any:
    if isinstance(value, Struct):
        return _without_secrets(value)
    if isinstance(value, tuple):
        shown = tuple(map(_inside, value))
        return value if all(one is other for one, other in zip(shown, value, strict=True)) else shown
    return value


def _hidden(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_hidden, value))
    if isinstance(value, FrozenDict):
        return FrozenDict({key: _hidden(item) for key, item in value.items()})
    return value if value is None else MASK
