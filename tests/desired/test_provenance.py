"""Claims and provenance as annotations."""

from datetime import UTC, datetime

from gpuruntime.desired.provenance import (
    CLAIM_ANNOTATIONS,
    CLAIMED_FOR,
    Claim,
    Provenance,
    claim_of,
    provenance_of,
)
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def annotated(annotations: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(name="a", annotations=FrozenDict(annotations))


def test_a_claim_is_read_as_it_was_written() -> None:
    pooled = Claim("uid-1", "op-1", ObjectKey("tenants", "demo"), "warm")
    free = Claim("uid-2", "op-2", ObjectKey("tenants", "demo"))

    assert claim_of(annotated(pooled.annotations(NOW))) == pooled
    assert claim_of(annotated(free.annotations(NOW))) == free
    assert set(pooled.annotations(NOW)) == set(CLAIM_ANNOTATIONS)


def test_an_object_without_a_claim_is_free_and_a_spoilt_claim_is_still_one() -> None:
    spoilt = Claim("uid-1", "op-1", ObjectKey("tenants", "demo")).annotations(NOW) | {CLAIMED_FOR: "a/b/c"}

    assert claim_of(annotated({})) is None
    assert claim_of(annotated(spoilt)) == Claim("uid-1", "op-1", None)


def test_provenance_is_read_as_it_was_written() -> None:
    known = Provenance(ObjectKey("stock", "stock-1"), "uid-1", "warm")

    assert provenance_of(annotated(known.annotations())) == known
    assert provenance_of(annotated({})) is None
