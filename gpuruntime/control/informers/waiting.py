"""Waiting until a predicate on an object holds, by its informer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from attrs import frozen

from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.informer import Informer
from gpuruntime.meta.conditions import Condition, find_condition
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.objects import KubeObject

__all__ = ["WaitCondition", "WaitTimeoutError", "condition_true", "deleted", "wait_for"]

K = TypeVar("K", bound=KubeObject)


class WaitTimeoutError(TimeoutError):
    """The predicate did not hold in time; the message has the predicate and the last state seen."""


@frozen
class WaitCondition(Generic[K]):
    """A condition on an object, or on None if there is none; `text` is for messages."""

    text: str
    holds: Callable[[K | None], bool]

    def and_(self, other: "WaitCondition[K]") -> "WaitCondition[K]":
        return WaitCondition(f"({self} and {other})", lambda obj: self.holds(obj) and other.holds(obj))

    def or_(self, other: "WaitCondition[K]") -> "WaitCondition[K]":
        return WaitCondition(f"({self} or {other})", lambda obj: self.holds(obj) or other.holds(obj))

    def not_(self) -> "WaitCondition[K]":
        return WaitCondition(f"not {self}", lambda obj: not self.holds(obj))

    def __str__(self) -> str:
        return self.text


def condition_true(type_: str) -> WaitCondition[Any]:
    """The object exists and has a condition of this type that is "True" and not of an older generation."""

    def holds(obj: KubeObject | None) -> bool:
        found = None if obj is None else find_condition(_conditions(obj), type_)
        if obj is None or found is None or found.status != "True":
            return False
        return found.observed_generation is None or found.observed_generation >= obj.metadata.generation

    return WaitCondition(f"condition {type_} is True", holds)


def deleted(uid: str) -> WaitCondition[Any]:
    """The object with this UID is gone; a new object of the same name does not count."""
    return WaitCondition(f"the object with uid {uid} is gone", lambda obj: obj is None or obj.metadata.uid != uid)


async def wait_for(
    informer: Informer[K], key: ObjectKey, predicate: WaitCondition[K] | Callable[[K], object], *, within: float
) -> K | None:
    """The object in the first state for which the predicate holds, None if that is its absence.

    A plain function is called with the object if there is one, and holds if it returns true.

    Guarantees: every state that the informer sees from now on is checked, even one that lasts only until the next
    event; a store that has not synced is not taken for empty; there is no polling, and no request. The cost does not
    depend on the number of objects, and is zero while others change.

    Raises:
        WaitTimeoutError: the predicate did not hold within `within` seconds.
        QuarantinedError: the object exists but cannot be read.
        Exception: what the predicate raises.
    """
    outcome: asyncio.Future[K | None] = asyncio.get_running_loop().create_future()
    question = predicate if isinstance(predicate, WaitCondition) else _question(predicate)

    def handle(change: Change[K]) -> None:
        if outcome.done():
            return
        try:
            obj = change.after
            if question.holds(obj):
                outcome.set_result(obj)
        except Exception as error:  # noqa: BLE001 - the caller's error, not the informer's
            outcome.set_exception(error)

    limit = asyncio.timeout(within)
    try:
        async with limit:
            await informer.subscribe(handle, key)
            try:
                await informer.store_synced()
                present = informer.store.get(key)
                if not outcome.done() and question.holds(present):
                    return present
                return await outcome
            finally:
                informer.unsubscribe(handle, key)
    except TimeoutError:
        if not limit.expired():
            raise
        raise WaitTimeoutError(_late(informer, key, question, within)) from None


def _question(function: Callable[[K], object]) -> WaitCondition[K]:
    name = getattr(function, "__qualname__", repr(function))
    return WaitCondition(f"{name} holds", lambda obj: obj is not None and bool(function(obj)))


def _late(informer: Informer[K], key: ObjectKey, predicate: WaitCondition[K], within: float) -> str:
    kind = informer.scope.storage.kind.kind
    if not informer.has_synced:
        seen = "the informer has not synced yet"
    else:
        obj = informer.store.get(key)
        seen = "last seen: " + ("no such object" if obj is None else _state(obj))
    return f"{kind} {key}: expected within {within:g} s that {predicate}; {seen}"


def _state(obj: KubeObject) -> str:
    meta = obj.metadata
    conditions = [f"{item.type}={item.status} {item.reason}".rstrip() for item in _conditions(obj)]
    deleting = f", being deleted since {meta.deletion_timestamp}" if meta.deletion_timestamp is not None else ""
    shown = f", {', '.join(conditions)}" if conditions else ", no conditions"
    return f"uid {meta.uid} at version {meta.resource_version}{deleting}{shown}"


def _conditions(obj: KubeObject) -> tuple[Condition, ...]:
    if isinstance(obj, DynamicObject):
        status = obj.body.get("status")
        found = status.get("conditions") if isinstance(status, Mapping) else None
        return tuple(_condition(item) for item in found or () if isinstance(item, Mapping))
    conditions: tuple[Condition, ...] = getattr(getattr(obj, "status", None), "conditions", ())
    return conditions


def _condition(value: Mapping[str, Any]) -> Condition:
    generation = value.get("observedGeneration")
    return Condition(
        type=str(value.get("type", "")),
        status="True" if value.get("status") == "True" else "False" if value.get("status") == "False" else "Unknown",
        reason=str(value.get("reason", "")),
        observed_generation=generation if isinstance(generation, int) else None,
    )
