"""Metrics of storages, counted in the caches at each scrape."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import (
    CLAIM_LOST,
    FAILED,
    FOREIGN_OBJECT,
    INVALID_SPEC,
    PENDING,
    PREPARE_FAILED,
    PREPARE_OUTCOME_LOST,
    PVC_SYNC_FAILED,
    READY,
    READY_CONDITION,
)
from gpuruntime.desired.storage.locks import Lock, lock_of, mount_of
from gpuruntime.meta import ObjectKey, TypedObject, find_condition

__all__ = ["StorageFigures"]

_PHASES: Final = (PENDING, READY, FAILED)
_REASONS: Final = (
    CLAIM_LOST,
    FOREIGN_OBJECT,
    INVALID_SPEC,
    PREPARE_FAILED,
    PREPARE_OUTCOME_LOST,
    PVC_SYNC_FAILED,
)
_OTHER: Final = "other"
_PREPARE: Final = ("NotRequested", PENDING, "Running", "Succeeded", FAILED)
_ACCESSOR: Final = ("Disabled", PENDING, READY, FAILED)
_RESIZE: Final = ("Growing", "NeedsRestart", "Refused")
_LOCKS: Final = ("held", "void")


class StorageFigures:
    """Metrics of storages in one scrape.

    Guarantees:
        Every value of a label is of a fixed set; others are counted as the first, and reasons as `other`.
    """

    def __init__(self) -> None:
        self._deleting = GaugeMetricFamily(
            "gpuruntime_storages_deleting", "Storages that are being deleted.", labels=()
        )
        self._families: Final = {
            (name, values): GaugeMetricFamily(f"gpuruntime_{name}", documentation, labels=(label,))
            for name, label, values, documentation in (
                ("storages", "phase", _PHASES, "Storages in the cluster, by phase."),
                (
                    "storages_failed",
                    "reason",
                    (*_REASONS, _OTHER),
                    "Storages in phase Failed, by the reason of the Ready condition.",
                ),
                (
                    "storage_preparations",
                    "phase",
                    _PREPARE,
                    "Storages, by the phase of their preparation; NotRequested: none was asked for.",
                ),
                (
                    "storage_accessors",
                    "phase",
                    _ACCESSOR,
                    "Storages, by the phase of their accessor; Disabled: it is not enabled.",
                ),
                ("storage_resizes", "phase", _RESIZE, "Storages whose size is being changed, by phase."),
                (
                    "storage_locks",
                    "state",
                    _LOCKS,
                    "Locked storages: held by a unit or a copy, or void, because the holder is gone.",
                ),
            )
        }

    def all(self) -> Iterator[Metric]:
        """All families."""
        yield from (self._deleting, *self._families.values())

    def fill(self, storages: Iterable[GPUStorage], units: Iterable[GPUUnit]) -> None:
        """Count these storages; `units` are the possible holders of their locks."""
        found = {storage.key: storage for storage in storages}
        holders = {unit.key: unit for unit in units}
        counts: dict[str, Counter[str]] = {name: Counter() for name, _ in self._families}
        for storage in found.values():
            for name, value in _values(storage, found, holders):
                counts[name][value] += 1
        for (name, values), family in self._families.items():
            for value in values:
                family.add_metric((value,), counts[name][value])
        self._deleting.add_metric((), sum(one.metadata.deletion_timestamp is not None for one in found.values()))


def _values(
    storage: GPUStorage, storages: Mapping[ObjectKey, GPUStorage], units: Mapping[ObjectKey, GPUUnit]
) -> Iterator[tuple[str, str]]:
    """The value of the label of each family that counts a storage."""
    status = storage.status
    phase = _one_of(_PHASES, status.phase)
    yield "storages", phase
    if phase == FAILED:
        ready = find_condition(status.conditions, READY_CONDITION)
        yield "storages_failed", ready.reason if ready is not None and ready.reason in _REASONS else _OTHER
    yield "storage_preparations", _one_of(_PREPARE, None if status.prepare is None else status.prepare.phase)
    yield "storage_accessors", _one_of(_ACCESSOR, None if status.accessor is None else status.accessor.phase)
    if status.resize is not None and status.resize.phase in _RESIZE:
        yield "storage_resizes", status.resize.phase
    lock = lock_of(storage.metadata)
    if lock is not None:
        yield "storage_locks", "held" if _is_held(lock, storage, storages, units) else "void"


def _one_of(values: tuple[str, ...], found: str | None) -> str:
    return found if found in values else values[0]


def _is_held(
    lock: Lock,
    storage: GPUStorage,
    storages: Mapping[ObjectKey, GPUStorage],
    units: Mapping[ObjectKey, GPUUnit],
) -> bool:
    """Whether the holder of a lock exists and names the storage."""
    name, namespace = storage.metadata.name, storage.metadata.namespace
    unit = units.get(ObjectKey(namespace, lock.unit_name))
    if unit is not None:
        return _is(lock, unit) and mount_of(unit, name) is not None
    copy = storages.get(ObjectKey(namespace, lock.storage_name))
    prepare = None if copy is None else copy.spec.prepare
    return copy is not None and _is(lock, copy) and prepare is not None and prepare.from_storage_name == name


def _is(lock: Lock, holder: TypedObject) -> bool:
    return lock.uid in {"", holder.metadata.uid}
