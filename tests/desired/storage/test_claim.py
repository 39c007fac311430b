"""PersistentVolumeClaims of storages: whose they are, and what is written on them."""

import pytest
from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageStatus, PrepareStatus
from gpuruntime.api.names import ATTACHED_TO, OWNER, OWNER_UID, PREPARE_STARTED, PREPARED, STORAGE_LABEL
from gpuruntime.desired.storage.claim import (
    ClaimFate,
    adoption,
    can_clone,
    claim_fate,
    mending,
    new_claim,
    volume_state,
    wants_clone,
)
from gpuruntime.desired.storage.marks import Marks, digest_of
from gpuruntime.desired.storage.rendering import StorageClassFacts, StorageRendering
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import FrozenDict, OwnerReference
from tests.desired.storage_objects import COPY, EXPANDABLE, FILL, RENDERING, claim_of, storage

FRESH = storage()
BOUND = storage(status=GPUStorageStatus(phase="Ready", claim_name="data", capacity="1Gi"))
WAITING = storage(status=GPUStorageStatus(phase="Ready", claim_name="data", mounted_by=("demo",)))
LOCKED = storage(status=GPUStorageStatus(phase="Ready", claim_name="data"), annotations={ATTACHED_TO: "gpuunits/demo"})
FILLED = storage(FILL, GPUStorageStatus(prepare=PrepareStatus("Succeeded", observed_digest=digest_of(FILL))))
OTHERS = claim_of(storage(name="other"))
ADOPTING = storage(adopt_claim_uid="uid-of-claim")
LATE = StorageClassFacts("fast", is_late_binding=True)


@pytest.mark.parametrize(
    ("of", "claim", "fate"),
    [
        (FRESH, None, ClaimFate.CREATE),
        (BOUND, None, ClaimFate.LOST),
        (WAITING, None, ClaimFate.LOST),
        (LOCKED, None, ClaimFate.LOST),
        (FILLED, None, ClaimFate.LOST),
        (FRESH, claim_of(FRESH), ClaimFate.OWN),
        (FRESH, claim_of(FRESH, is_going=True), ClaimFate.LOST),
        (FRESH, claim_of(FRESH, phase="Pending", is_going=True), ClaimFate.GOING),
        (FRESH, OTHERS, ClaimFate.FOREIGN),
        (BOUND, OTHERS, ClaimFate.FOREIGN),
        (FRESH, claim_of(storage(name="other"), is_going=True), ClaimFate.GOING),
        (ADOPTING, OTHERS, ClaimFate.ADOPT),
        (ADOPTING, claim_of(storage(name="other"), is_going=True), ClaimFate.GOING),
        (storage(adopt_claim_uid="0"), OTHERS, ClaimFate.FOREIGN),
    ],
)
def test_a_claim_is_judged_by_the_uid_on_it_and_data_is_never_made_anew(
    of: GPUStorage, claim: PersistentVolumeClaim | None, fate: ClaimFate
) -> None:
    assert claim_fate(of, claim) is fate


def test_a_new_claim_says_whose_it_is_and_has_no_owner_reference() -> None:
    made = new_claim(storage(access_mode="ReadWriteMany", volume_attributes_class_name="gold"), RENDERING)

    assert made.metadata.annotations[OWNER] == "gpustorages.runtime.lokiwager.io/data"
    assert made.metadata.annotations[OWNER_UID] == "uid-of-data"
    assert made.metadata.labels[STORAGE_LABEL] == "data"
    assert made.metadata.owner_references == ()
    assert (made.spec.access_modes, made.spec.storage_class_name) == (("ReadWriteMany",), "fast")
    assert (made.spec.volume_attributes_class_name, made.spec.data_source) == ("gold", None)
    assert new_claim(storage(), StorageRendering()).spec.storage_class_name is None
    assert new_claim(storage(storage_class_name="slow"), RENDERING).spec.storage_class_name == "slow"


def test_a_clone_has_its_mark_from_the_beginning() -> None:
    made = new_claim(storage(COPY), RENDERING, is_clone=True)

    started = Marks.of(made.metadata.annotations).started
    assert made.spec.data_source is not None
    assert (made.spec.data_source.kind, made.spec.data_source.name) == ("PersistentVolumeClaim", "base")
    assert started is not None
    assert (started.job_uid, started.attempt) == ("clone", 1)


def test_only_a_listed_class_that_binds_at_once_clones_a_bound_volume_of_its_own() -> None:
    source = claim_of(storage(name="base"))
    other = evolve(source, spec=evolve(source.spec, storage_class_name="slow"))

    assert wants_clone(storage(COPY), RENDERING, EXPANDABLE)
    assert not wants_clone(storage(COPY), RENDERING, LATE)
    assert not wants_clone(storage(COPY), RENDERING, None)
    assert not wants_clone(storage(FILL), RENDERING, EXPANDABLE)
    assert not wants_clone(storage(COPY, storage_class_name="slow"), RENDERING, EXPANDABLE)
    assert can_clone(storage(COPY), RENDERING, source)
    assert not can_clone(storage(COPY), RENDERING, other)
    assert not can_clone(storage(COPY), RENDERING, claim_of(storage(name="base"), phase="Pending"))
    assert not can_clone(storage(COPY), RENDERING, None)


def test_an_adopted_claim_counts_as_prepared_unless_an_attempt_was_under_way() -> None:
    wanted = storage(FILL, adopt_claim_uid="uid-of-claim")
    owned = evolve(OTHERS, metadata=evolve(OTHERS.metadata, owner_references=(OwnerReference("v1", "Pod", "p", "u"),)))

    plain = adoption(wanted, OTHERS)
    under_way = adoption(wanted, claim_of(storage(name="other"), annotations={PREPARE_STARTED: "d/1/uid/"}))

    assert plain["annotations"][PREPARED] == digest_of(FILL)
    assert plain["annotations"][OWNER_UID] == "uid-of-data"
    assert PREPARED not in under_way["annotations"]
    assert "ownerReferences" not in plain
    assert adoption(wanted, owned)["ownerReferences"] is None


def test_what_others_changed_is_mended_and_nothing_else_is_written() -> None:
    claim = claim_of(FILLED, annotations={PREPARED: "earlier"})
    meta = claim.metadata
    unlabelled = evolve(claim, metadata=evolve(meta, labels=FrozenDict({"theirs": "x"})))
    unmarked = evolve(claim, metadata=evolve(meta, annotations=FrozenDict({OWNER_UID: "uid-of-data"})))
    owned = evolve(claim, metadata=evolve(meta, owner_references=(OwnerReference("v1", "Pod", "p", "u"),)))

    assert mending(FILLED, claim) == {}
    assert mending(FILLED, unlabelled)["labels"][STORAGE_LABEL] == "data"
    assert "theirs" not in mending(FILLED, unlabelled)["labels"]
    assert mending(FILLED, unmarked)["annotations"] == {
        OWNER: "gpustorages.runtime.lokiwager.io/data",
        PREPARED: digest_of(FILL),
    }
    assert mending(FILLED, owned) == {"ownerReferences": None}


@pytest.mark.parametrize(
    ("claim", "known", "state", "words"),
    [
        (claim_of(FRESH), EXPANDABLE, "bound", ""),
        (claim_of(FRESH, phase="Pending"), LATE, "late", "first pod"),
        (claim_of(FRESH, phase="Pending"), EXPANDABLE, "unbound", "has not made it yet"),
        (claim_of(FRESH, phase="Pending"), None, "unbound", "StorageClass fast does not exist"),
        (claim_of(FRESH, phase="Lost"), EXPANDABLE, "unbound", "is gone"),
    ],
)
def test_a_volume_that_is_not_bound_says_why(
    claim: PersistentVolumeClaim, known: StorageClassFacts | None, state: str, words: str
) -> None:
    found = volume_state(claim, known)

    assert found.volume == state
    assert words in found.message
    assert found.is_lost == (claim.status.phase == "Lost")
