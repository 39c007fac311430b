"""Masking: callers with scope read see a mask in place of values that may be secrets.

Fields that may hold secrets are declared with `wire(sensitive=True)`. A masked view has as many environment variables
and arguments as the object, each with the mask as its value.
"""

from typing import Any, Final, TypeVar

from attrs import evolve, fields

from gpuruntime.api.rest.objects import ObjectView
from gpuruntime.endpoints.server.route import Caller
from gpuruntime.meta import EMPTY, MASK, FrozenDict, Struct, is_sensitive
from gpuruntime.schema import Violation
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.objects.redaction import redacted, secret_texts

__all__ = ["masked", "redacted_for", "reject_masks", "view_for"]

S = TypeVar("S", bound=Struct)
V = TypeVar("V", bound=ObjectView)
_MESSAGE: Final = "message"


def view_for(caller: Caller, view: V) -> V:
    """The view as this caller may see it."""
    return view if caller.may_see_secrets else masked(view)


def masked(view: V) -> V:
    """The view with the mask in place of every value that may be a secret.

    Guarantees: no message in it quotes such a value either, see `redacted`.
    """
    return _with_redacted_messages(_without_secrets(view), view)


def redacted_for(caller: Caller, message: str | None, view: ObjectView) -> str | None:
    """A message about an object, as this caller may see it; `view` is that of the object, unmasked."""
    return message if caller.may_see_secrets else redacted(message, view, is_current=_is_current(view))


def reject_masks(body: Struct) -> None:
    """Check that no value that may be a secret is the mask: the caller would write back a masked view.

    Raises:
        InvalidRequestError: names every such field.
    """
    found = [path for path, text in secret_texts(body) if text == MASK]
    if found:
        expected = "the value, which is shown to callers with scope write"
        raise InvalidRequestError(tuple(Violation(path, expected, f"the mask {MASK!r}") for path in found))


def _is_current(view: ObjectView) -> bool:
    return view.observed_generation == view.generation


def _with_redacted_messages(struct: S, view: ObjectView) -> S:
    """The part of a view in which every field `message`, of the status too, is redacted."""
    changes: dict[str, Any] = {}
    for attribute in fields(type(struct)):
        value = getattr(struct, attribute.name)
        if attribute.name == _MESSAGE:
            changes[_MESSAGE] = redacted(value, view, is_current=_is_current(view))
        elif isinstance(value, Struct):
            changes[attribute.name] = _with_redacted_messages(value, view)
        elif isinstance(value, tuple) and any(isinstance(item, Struct) for item in value):
            changes[attribute.name] = tuple(_with_redacted_messages(item, view) for item in value)
    return evolve(struct, **changes) if changes else struct


def _without_secrets(struct: S) -> S:
    changes: dict[str, Any] = {}
    for attribute in fields(type(struct)):
        value = getattr(struct, attribute.name)
        shown = _mask(value) if is_sensitive(attribute) else _inside(value)
        if shown is not value:
            changes[attribute.name] = shown
    # Unknown fields come from a newer version, and may be secrets.
    return evolve(struct, **changes, extra=EMPTY) if changes or struct.extra else struct


def _inside(value: Any) -> Any:
    if isinstance(value, Struct):
        return _without_secrets(value)
    if isinstance(value, tuple):
        shown = tuple(map(_inside, value))
        return value if all(one is other for one, other in zip(shown, value, strict=True)) else shown
    return value


def _mask(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_mask, value))
    if isinstance(value, FrozenDict):
        return FrozenDict({key: _mask(item) for key, item in value.items()})
    return value if value is None else MASK
