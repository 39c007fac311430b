"""The deletion of a storage, step by step."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.names import ATTACHED_TO
from gpuruntime.desired.storage.deletion import DeletionStep, Remains, next_deletion
from tests.desired.storage_objects import claim_of, storage

GOING = storage(is_going=True)
LOCKED = storage(is_going=True, annotations={ATTACHED_TO: "gpuunits/demo"})
OWN = claim_of(GOING)
CLAIMS = [None, OWN, claim_of(GOING, is_going=True), claim_of(storage(name="other"))]


def test_children_go_before_the_data_and_the_data_before_the_record() -> None:
    left = Remains("pod x", has_children=True, claim=OWN, has_source=True)

    steps = [next_deletion(LOCKED, left).step]
    for change in ({}, {"users": ""}, {"has_children": False}, {"claim": None}, {"has_source": False}):
        left = evolve(left, **change)
        steps.append(next_deletion(GOING, left).step)

    assert steps == [
        DeletionStep.WAIT,
        DeletionStep.WAIT,
        DeletionStep.REMOVE_CHILDREN,
        DeletionStep.DELETE_CLAIM,
        DeletionStep.RELEASE_SOURCE,
        DeletionStep.FINISH,
    ]


@given(
    of=st.sampled_from([GOING, LOCKED]),
    users=st.sampled_from(["", "pod x"]),
    children=st.booleans(),
    claim=st.sampled_from(CLAIMS),
    source=st.booleans(),
)
def test_data_in_use_and_data_of_others_is_never_deleted(
    of: object, users: str, children: bool, claim: object, source: bool
) -> None:
    left = Remains(users, children, claim, source)  # type: ignore[arg-type]  # sampled above

    step = next_deletion(of, left).step  # type: ignore[arg-type]  # sampled above

    if of is LOCKED or users:
        assert step is DeletionStep.WAIT
    if step is DeletionStep.DELETE_CLAIM:
        assert claim is OWN
    if step is DeletionStep.FINISH:
        assert claim in (None, CLAIMS[-1])
        assert not children
