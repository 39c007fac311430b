"""What holds for storages at every moment, whatever happens to the processes, and the state in which they end."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import (
    OWNER_UID,
    RECOVERY_NONCE,
    STORAGE_ACCESSOR_LABEL,
    STORAGE_PREPARE_LABEL,
    UNIT_LABEL,
)
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.desired.storage.marks import Marks
from gpuruntime.desired.storage.volume_use import uses_of_template
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.core import Service
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import find_condition, is_true
from gpuruntime.testing.crashing import Moment, Stage, World

__all__ = ["KINDS", "StoragePromises", "final_state", "storage_named"]

KINDS: Final = (GPUStorage, GPUUnit, PersistentVolumeClaim, Job, Pod, Deployment, Service)
"""The kinds that the promises are about."""
_OVER: Final = frozenset({"Succeeded", "Failed"})
_ROLE: Final = "active"


@frozen
class StoragePromises:
    """Checks every moment of any number of runs, each from its beginning to its end. All names are in one namespace.

    UIDs are unique, so what is remembered of one run does not disturb another.
    """

    _claims: dict[str, str] = field(factory=dict)
    _resumed: dict[tuple[str, str], set[str]] = field(factory=lambda: defaultdict(set))
    _nonces: dict[str, set[str]] = field(factory=lambda: defaultdict(set))

    def broken(self, moment: Moment) -> str | None:
        """The first promise that does not hold, None if all hold."""
        storages = {storage.metadata.name: storage for storage in moment.world.list(GPUStorage, _ROLE)}
        claims = {claim.metadata.name: claim for claim in moment.world.list(PersistentVolumeClaim, _ROLE)}
        checks = (
            self._data(storages, claims),
            self._programs(moment.world, storages, claims),
            _users(moment.world, storages, claims),
        )
        found = next((text for check in checks for text in check), None)
        return None if found is None else f"{found} ({moment})"

    def _data(self, storages: dict[str, GPUStorage], claims: dict[str, PersistentVolumeClaim]) -> Iterator[str]:
        for name, claim in claims.items():
            storage, owner = storages.get(name), claim.metadata.annotations.get(OWNER_UID, "")
            if self._claims.setdefault(owner, claim.metadata.uid) != claim.metadata.uid:
                yield f"storage {name} got another volume"
            if storage is None or storage.metadata.uid != owner:
                yield f"the volume of storage {name} outlived it"
            elif claim.metadata.deletion_timestamp is not None:
                if storage.metadata.deletion_timestamp is None:
                    yield f"the volume of storage {name} is being deleted, and the storage is not"
                if lock_of(storage.metadata) is not None:
                    yield f"the volume of storage {name} is being deleted, and the storage is locked"

    def _programs(
        self, world: World, storages: dict[str, GPUStorage], claims: dict[str, PersistentVolumeClaim]
    ) -> Iterator[str]:
        for storage in storages.values():
            nonce = storage.metadata.annotations.get(RECOVERY_NONCE)
            if nonce:
                self._nonces[storage.metadata.uid].add(nonce)
        for job in world.list(Job, _ROLE):
            meta = job.metadata
            owner, attempt = meta.annotations[OWNER_UID], meta.name.rpartition("-")[2]
            if job.spec.suspend or meta.uid in self._resumed[owner, attempt]:
                continue
            self._resumed[owner, attempt].add(meta.uid)
            claim = claims.get(meta.labels[STORAGE_PREPARE_LABEL])
            started = None if claim is None else Marks.of(claim.metadata.annotations).started
            if started is None or started.job_uid != meta.uid:
                yield f"Job {meta.name} runs without its mark"
            if len(self._resumed[owner, attempt]) > 1:
                yield f"two Jobs ran for attempt {attempt} of storage {meta.labels[STORAGE_PREPARE_LABEL]}"
            if int(attempt) > 1 + len(self._nonces[owner]):
                yield f"attempt {attempt} of storage {meta.labels[STORAGE_PREPARE_LABEL]} was not asked for"


def _users(world: World, storages: dict[str, GPUStorage], claims: dict[str, PersistentVolumeClaim]) -> Iterator[str]:
    users: dict[str, set[str]] = defaultdict(set)
    for pod in world.list(Pod, _ROLE):
        labels = pod.metadata.labels
        if pod.status.phase in _OVER or STORAGE_ACCESSOR_LABEL in labels:
            continue
        copies = labels.get(STORAGE_PREPARE_LABEL)
        holder = f"gpuunits/{labels.get(UNIT_LABEL)}" if copies is None else f"gpustorages/{copies}"
        for use in uses_of_template(pod.spec.volumes):
            users[use.claim].add(holder)
            storage = storages.get(use.claim)
            lock = None if storage is None else lock_of(storage.metadata)
            # A storage needs no lock on itself: it is not ready while it is prepared.
            if use.claim != copies and (lock is None or lock.holder != holder):
                yield f"a pod of {holder} mounts storage {use.claim}, which it has not locked"
    yield from (f"storage {name} is used by {' and '.join(sorted(by))}" for name, by in users.items() if len(by) > 1)
    for deployment in world.list(Deployment, _ROLE):
        for use in uses_of_template(deployment.spec.template.spec.volumes):
            storage, claim = storages.get(use.claim), claims.get(use.claim)
            if claim is None or (storage is not None and storage.spec.prepare and not _is_prepared(claim)):
                yield f"Deployment {deployment.metadata.name} mounts storage {use.claim}, which is not prepared"


def _is_prepared(claim: PersistentVolumeClaim) -> bool:
    return bool(Marks.of(claim.metadata.annotations).prepared)


def storage_named(world: World, name: str) -> GPUStorage | None:
    """The storage of this name in the namespace of active units."""
    return world.get(GPUStorage, name, _ROLE)


async def final_state(stage: Stage) -> Any:
    """What is left in the end: everything of storages and their volumes, and the units; no times and no UIDs."""
    world = stage.recorder.world
    storages = [
        {
            "name": storage.metadata.name,
            "phase": storage.status.phase,
            "reason": _reason(storage),
            "capacity": storage.status.capacity,
            "lock": storage.status.attached_to or str(lock_of(storage.metadata)),
            "units": list(storage.status.mounted_by),
            "prepare": None if storage.status.prepare is None else _prepare(storage),
            "accessor": None if storage.status.accessor is None else storage.status.accessor.phase,
            "resize": None if storage.status.resize is None else storage.status.resize.phase,
            "is current": storage.status.observed_generation == storage.metadata.generation,
        }
        for storage in world.list(GPUStorage)
    ]
    units = [[unit.metadata.name, unit.status.phase, _reason(unit)] for unit in world.list(GPUUnit)]
    jobs = [
        [job.metadata.labels.get(STORAGE_PREPARE_LABEL), is_true(job.status.conditions, "Failed")]
        for job in world.list(Job)
    ]
    others = [
        f"{obj.KIND.kind} {obj.metadata.name}"
        for kind in (PersistentVolumeClaim, Deployment, Service)
        for obj in world.list(kind)
    ]
    pods = [
        f"{'over' if pod.status.phase in _OVER else 'living'} pod of {pod.metadata.labels.get(UNIT_LABEL)}"
        for pod in world.list(Pod)
    ]
    return {
        "storages": sorted(storages, key=str),
        "units": sorted(units),
        "jobs": sorted(jobs, key=str),
        "others": sorted(others),
        "pods": sorted(pods),
    }


def _reason(obj: GPUStorage | GPUUnit) -> str | None:
    ready = find_condition(obj.status.conditions, "Ready")
    return None if ready is None else ready.reason


def _prepare(storage: GPUStorage) -> list[Any]:
    prepare = storage.status.prepare
    return [] if prepare is None else [prepare.phase, prepare.attempts, prepare.recovery_phase]
