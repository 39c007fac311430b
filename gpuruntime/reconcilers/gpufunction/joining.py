"""Writes for units that join and leave functions: the marks of a unit, and the function that is made for one.

`desired.functions.joining` decides; this reads the caches, and does it. Marks are written in the version of the unit
that was read.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction, function_name, request_id_of
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID
from gpuruntime.control import Change, Context, Store
from gpuruntime.desired.functions.joining import (
    can_join,
    function_from,
    has_joined,
    has_stale_marks,
    needs_joining,
    requested,
)
from gpuruntime.desired.functions.workers import creating_function, is_function
from gpuruntime.kube import AlreadyExistsError, MergePatch, NotFoundError
from gpuruntime.meta import ObjectKey, controller_of
from gpuruntime.service.invocations.functions import functions_with
from gpuruntime.service.objects.admission import REFUSALS, raise_if_rbac_denial
from gpuruntime.service.reads.informers import units_of_function, units_requesting

__all__ = ["Joining"]

_ACTION: Final = "Join"


@frozen
class Joining:
    """Units that join functions.

    Guarantees: an unchanged unit costs no write. A function is made only if none has the requestID. Units that a
    function made are left alone.
    """

    units: Store[GPUUnit]
    functions: Store[GPUFunction]

    def joined(self, function: GPUFunction) -> list[GPUUnit]:
        """The units that joined the function, those being deleted included."""
        return [unit for unit in units_of_function(self.units, function.key) if has_joined(unit, function)]

    def coming(self, function: GPUFunction) -> list[GPUUnit]:
        """The units that are to join the function, and have not."""
        key = ObjectKey(function.metadata.namespace, function_name(request_id_of(function)))
        return [unit for unit in units_requesting(self.units, key) if needs_joining(unit, function)]

    async def make(self, key: ObjectKey, ctx: Context) -> bool:
        """Make the functions that units want to join, and that would have this name; returns whether the API server
        refused one, which is tried again after a while.
        """
        is_refused, made = False, set[str]()
        for unit in sorted(units_requesting(self.units, key), key=_age):
            request_id = requested(unit)
            if request_id in made or not request_id or not can_join(unit, request_id):
                continue
            if functions_with(self.functions, key.namespace, request_id):
                continue
            made.add(request_id)
            is_refused |= not await self._make(unit, key, ctx.of(unit))
        return is_refused

    async def join(self, function: GPUFunction, units: Iterable[GPUUnit], ctx: Context) -> None:
        """Make units workers of the function."""
        name = function.metadata.name
        for unit in units:
            await _mark(unit, name, request_id_of(function), ctx)
            ctx.record("Normal", "UnitJoined", f"unit {unit.metadata.name} joined", action=_ACTION)

    async def leave(self, key: ObjectKey, ctx: Context) -> None:
        """Remove the marks of units that left the function of this name, which may be gone."""
        for unit in units_of_function(self.units, key):
            if has_stale_marks(unit):
                await _mark(unit, None, None, ctx)

    def concerned(self, change: Change[GPUUnit]) -> Iterable[ObjectKey]:
        """The functions to reconcile when a unit changes."""
        states = [state for state in (change.before, change.after) if state is not None]
        return dict.fromkeys(key for state in states for key in self._concerned(state))

    def siblings(self, change: Change[GPUFunction]) -> Iterable[ObjectKey]:
        """The other functions to reconcile when a function changes: those with its requestID, and the one that would be
        made for it.
        """
        states = [state for state in (change.before, change.after) if state is not None]
        request_ids = dict.fromkeys(request_id_of(state) for state in states)
        found = [key for request_id in request_ids for key in self._with(change.key.namespace, request_id)]
        return [key for key in dict.fromkeys(found) if key != change.key]

    def _concerned(self, unit: GPUUnit) -> Iterator[ObjectKey]:
        meta, owner, request_id = unit.metadata, controller_of(unit.metadata), requested(unit)
        label, maker = meta.labels.get(FUNCTION_LABEL), creating_function(meta.annotations)
        if label:
            yield ObjectKey(meta.namespace, label)
        if maker:
            yield ObjectKey(meta.namespace, maker)
        if owner is not None and is_function(owner):
            yield ObjectKey(meta.namespace, owner.name)
        if request_id:
            yield from self._with(meta.namespace, request_id)

    def _with(self, namespace: str, request_id: str) -> Iterator[ObjectKey]:
        yield ObjectKey(namespace, function_name(request_id))
        yield from (function.key for function in functions_with(self.functions, namespace, request_id))

    async def _make(self, unit: GPUUnit, key: ObjectKey, ctx: Context) -> bool:
        try:
            made = await ctx.client.create(function_from(unit, is_name_taken=self.functions.get(key) is not None))
        except AlreadyExistsError:
            return True  # the cache lags; the function brings a run of its own
        except REFUSALS as error:
            raise_if_rbac_denial(error)
            ctx.record("Warning", "FunctionRefused", error.message or str(error), action=_ACTION)
            return False
        text = f"made for requestID {requested(unit)} of unit {unit.metadata.name}"
        ctx.of(made).record("Normal", "FunctionMade", text, action=_ACTION)
        return True


async def _mark(unit: GPUUnit, function: str | None, request_id: str | None, ctx: Context) -> None:
    meta = unit.metadata
    marks = {"labels": {FUNCTION_LABEL: function}, "annotations": {FUNCTION_REQUEST_ID: request_id}}
    patch = MergePatch({"metadata": marks}).locked(meta.resource_version)
    try:
        await ctx.client.patch(GPUUnit, meta.name, meta.namespace, patch)
    except NotFoundError:
        return  # it was deleted meanwhile


def _age(unit: GPUUnit) -> tuple[str, str]:
    return unit.metadata.creation_timestamp or "", unit.metadata.name
