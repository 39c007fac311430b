"""What becomes of a lock: a table of cases, and properties of all of them."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.gpustorage import READ_WRITE_MANY, READ_WRITE_ONCE, GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import CLAIM_ID
from gpuruntime.desired.storage.lock_verdict import LockVerdict, Sight, judge_lock
from gpuruntime.desired.storage.locks import Lock
from gpuruntime.meta import decode

KEEP, COMPLETE, RELEASE = LockVerdict.KEEP, LockVerdict.COMPLETE, LockVerdict.RELEASE


def storage(mode: str = READ_WRITE_ONCE) -> GPUStorage:
    return decode(GPUStorage, {"metadata": {"name": "data"}, "spec": {"size": "1Gi", "accessMode": mode}})


def unit(uid: str = "u1", made_by: str = "o1", *mounts: dict[str, Any]) -> GPUUnit:
    metadata = {"name": "demo", "uid": uid, "annotations": {CLAIM_ID: made_by}}
    return decode(GPUUnit, {"metadata": metadata, "spec": {"specName": "g1.1", "storageMounts": list(mounts)}})


def copy(phase: str | None, uid: str = "s2", source: str = "data") -> GPUStorage:
    spec = {"size": "1Gi", "prepare": {"fromStorageName": source}}
    status = {} if phase is None else {"prepare": {"phase": phase}}
    return decode(GPUStorage, {"metadata": {"name": "copy", "uid": uid}, "spec": spec, "status": status})


MOUNT = {"name": "data", "mountPath": "/data"}
READING = MOUNT | {"readOnly": True}
PENDING = Lock("gpuunits/demo", "", "op", "o1")
UPDATING = Lock("gpuunits/demo", "u1", "op", "o2")
WHOLE = Lock("gpuunits/demo", "u1")
COPYING = Lock("gpustorages/copy", "s2")


@pytest.mark.parametrize(
    ("lock", "sight", "expected"),
    [
        (WHOLE, Sight(unit("u1", "", MOUNT)), KEEP),
        (WHOLE, Sight(unit("u1", "", READING)), KEEP),
        (PENDING, Sight(unit("u1", "o1", MOUNT)), COMPLETE),
        (UPDATING, Sight(unit("u1", "o1", MOUNT)), COMPLETE),
        (PENDING, Sight(None, can_operation_act=True), KEEP),
        (PENDING, Sight(unit("u1", "o9", MOUNT), can_operation_act=True), KEEP),
        (PENDING, Sight(unit("u1", "o9", MOUNT)), RELEASE),
        (PENDING, Sight(None), RELEASE),
        (UPDATING, Sight(unit("u1", "o1"), can_operation_act=True), KEEP),
        (UPDATING, Sight(unit("u1", "o1")), RELEASE),
        (WHOLE, Sight(None), RELEASE),
        (WHOLE, Sight(None, users=("pod a",)), KEEP),
        (WHOLE, Sight(unit("u2", "", MOUNT)), RELEASE),
        (WHOLE, Sight(unit("u2", "", MOUNT), users=("pod a",)), KEEP),
        (WHOLE, Sight(unit("u1", ""), users=("Deployment a",)), KEEP),
        (WHOLE, Sight(unit("u1", "")), RELEASE),
        (COPYING, Sight(copy(None)), KEEP),
        (COPYING, Sight(copy("Running")), KEEP),
        (COPYING, Sight(copy("Failed")), KEEP),
        (COPYING, Sight(copy("Succeeded")), RELEASE),
        (COPYING, Sight(copy("Succeeded"), users=("pod a",)), KEEP),
        (COPYING, Sight(copy("Running", "s3")), RELEASE),
        (COPYING, Sight(copy("Running", source="other")), RELEASE),
        (COPYING, Sight(None), RELEASE),
        (Lock("nonsense"), Sight(None), RELEASE),
        (Lock("nonsense"), Sight(None, users=("pod a",)), KEEP),
    ],
)
def test_a_lock_is_kept_completed_or_released(lock: Lock, sight: Sight, expected: LockVerdict) -> None:
    assert judge_lock(storage(), lock, sight) is expected


def test_a_unit_that_only_reads_a_storage_of_many_nodes_needs_no_lock() -> None:
    assert judge_lock(storage(READ_WRITE_MANY), WHOLE, Sight(unit("u1", "", READING))) is RELEASE
    assert judge_lock(storage(READ_WRITE_MANY), WHOLE, Sight(unit("u1", "", MOUNT))) is KEEP


UIDS = st.sampled_from(["u1", "u2"])
LOCKS = st.builds(
    Lock,
    st.sampled_from(["gpuunits/demo", "gpustorages/copy", "else/demo"]),
    UIDS | st.just(""),
    st.sampled_from(["", "op"]),
    st.sampled_from(["", "o1", "o2"]),
)
HOLDERS = st.one_of(
    st.none(),
    st.builds(
        lambda uid, by, mounts: unit(uid, by, *mounts),
        UIDS,
        st.sampled_from(["", "o1"]),
        st.sampled_from([(), (MOUNT,), (READING,)]),
    ),
    st.builds(copy, st.sampled_from([None, "Running", "Failed", "Succeeded"]), UIDS),
)
SIGHTS = st.builds(Sight, HOLDERS, st.booleans(), st.sampled_from([(), ("pod a",)]))


@given(lock=LOCKS, sight=SIGHTS, mode=st.sampled_from([READ_WRITE_ONCE, READ_WRITE_MANY]))
def test_nothing_in_use_or_about_to_be_used_is_released_and_a_second_look_changes_nothing(
    lock: Lock, sight: Sight, mode: str
) -> None:
    verdict = judge_lock(storage(mode), lock, sight)

    if verdict is RELEASE:
        assert not sight.users
        assert not sight.can_operation_act
    if verdict is COMPLETE:
        assert isinstance(sight.holder, GPUUnit)
        assert lock.is_held_by(sight.holder)
        assert judge_lock(storage(mode), Lock.of(sight.holder), sight) is KEEP
    if verdict is KEEP and lock.is_held_by(sight.holder or storage()):
        assert judge_lock(storage(mode), lock, evolve(sight, users=("pod b",))) is KEEP
