"""Claims and provenance as annotations."""

from datetime import UTC, datetime

import pytest

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


def test_a_claim_round_trips_through_annotations() -> None:
    pooled = Claim("uid-1", "op-1", ObjectKey("tenants", "demo"), "warm")
    free = Claim("uid-2", "op-2", ObjectKey("tenants", "demo"))

    assert claim_of(annotated(pooled.annotations(NOW))) == pooled
    assert claim_of(annotated(free.annotations(NOW))) == free
    assert set(pooled.annotations(NOW)) == set(CLAIM_ANNOTATIONS)


@pytest.mark.parametrize("garbage", ["a/b/c", "demo", "/demo", "tenants/", "tenants/No Name", "../demo", ""])
def test_an_object_without_a_claim_is_free_and_an_invalid_claim_is_still_a_claim(garbage: str) -> None:
    spoilt = Claim("uid-1", "op-1", ObjectKey("tenants", "demo")).annotations(NOW) | {CLAIMED_FOR: garbage}

    assert claim_of(annotated({})) is None
    assert claim_of(annotated(spoilt)) == Claim("uid-1", "op-1", None)


def test_invalid_names_are_ignored() -> None:
    claim = Claim("uid-1", "../x", ObjectKey("tenants", "demo"), "No Pool")
    source = Provenance(ObjectKey("stock", "stock-1"), "uid-1", "No Pool")

    assert claim_of(annotated(claim.annotations(NOW))) == Claim("uid-1", "", ObjectKey("tenants", "demo"))
    assert provenance_of(annotated(source.annotations())) == Provenance(ObjectKey("stock", "stock-1"), "uid-1")
    for stock in (ObjectKey("", "stock-1"), ObjectKey("stock", ""), ObjectKey("stock", "a/b")):
        assert provenance_of(annotated(Provenance(stock, "uid-1").annotations())) is None


def test_provenance_round_trips_through_annotations() -> None:
    known = Provenance(ObjectKey("stock", "stock-1"), "uid-1", "warm")

    assert provenance_of(annotated(known.annotations())) == known
    assert provenance_of(annotated({})) is None
