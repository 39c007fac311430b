"""The content of the debug pages of queues and informers, as JSON values."""

import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.reflector import ReflectorHealth
from gpuruntime.control.metrics.informers import InformerLabels
from gpuruntime.control.queueing.key_sample import KeySample
from gpuruntime.control.queueing.work_item import KeyView
from gpuruntime.control.queueing.workqueue import WorkQueue

__all__ = ["InspectedController", "informer_page", "key_page", "queue_page"]

_FAULTS_SHOWN = 10
_MAX_FAULT_LENGTH = 300


class InspectedController(Protocol):
    """What the debug pages need of a controller."""

    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> WorkQueue[Any]: ...

    @property
    def counters(self) -> ReconcileCounters: ...

    @property
    def parse_key(self) -> Callable[[str], Any]:
        """Parses the text of a key, the inverse of `str`; raises ValueError if it is not a key."""


def queue_page(controller: InspectedController, sample: KeySample[Any]) -> dict[str, Any]:
    """A controller and the first of its `total` keys: running ones, then by due time, idle ones last."""
    counters = controller.counters
    return {
        "controller": controller.name,
        "workers": counters.max_concurrent,
        "active_workers": counters.active_workers,
        "results": dict(counters.results),
        "total": sample.total,
        "keys": [key_page(view) for view in sorted(sample.first, key=_position)],
    }


def key_page(view: KeyView[Hashable]) -> dict[str, Any]:
    """One key. Times are relative to now; `due_in_seconds` is null without a requested run, negative if overdue."""
    return {
        "key": str(view.key),
        "state": view.state.value,
        "paused": view.paused,
        "priority": view.priority,
        "failures": view.failures,
        "age_seconds": _rounded(view.age),
        "due_in_seconds": _rounded(view.due_in),
        "running_seconds": _rounded(view.running_for),
    }


def informer_page(informer: Informer[Any], now: float) -> dict[str, Any]:
    """One informer; `now` is loop time. Ages are null before the first contact.

    Up to 10 of the quarantined objects are listed.
    """
    store = informer.store
    return {
        **InformerLabels.of(informer.scope)._asdict(),
        "form": type(informer.scope.storage).__name__.lower(),
        "synced": informer.has_synced,
        "objects": len(store),
        "bytes": store.size,
        "quarantined": store.quarantined,
        "quarantined_objects": [
            {"key": str(key), "error": fault[:_MAX_FAULT_LENGTH]} for key, fault in store.faults(_FAULTS_SHOWN)
        ],
        "resource_version": store.resource_version,
        "age_seconds": _rounded(informer.age(now)),
        "events": informer.events,
        "handler_failures": informer.handler_failures,
        "index_failures": informer.index_failures,
        "retrying": informer.retrying,
        "failing": list(informer.failing),
        "watches": [
            _watch_page(part, health, now) for part, health in zip(informer.scope.parts, informer.health, strict=True)
        ],
    }


def _watch_page(namespace: str | None, health: ReflectorHealth, now: float) -> dict[str, Any]:
    return {
        "namespace": namespace or "",
        "age_seconds": _rounded(now - health.last_contact),
        "requests": health.requests,
        "relists": dict(health.relists),
        "last_error": health.trouble or None,
    }


def _position(view: KeyView[Any]) -> tuple[bool, float, str]:
    due_in = math.inf if view.due_in is None else view.due_in
    return view.running_for is None, due_in, str(view.key)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else round(seconds, 3)
