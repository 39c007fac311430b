"""The source of a copy."""

import pytest

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.names import ATTACHED_TO, ATTACHED_UID
from gpuruntime.desired.storage.source import source_of
from tests.desired.storage_objects import COPY, FILL, is_ready, storage

OURS = {ATTACHED_TO: "gpustorages/data", ATTACHED_UID: "uid-of-data"}
EARLIER = {ATTACHED_TO: "gpustorages/data", ATTACHED_UID: "uid-of-an-earlier-one"}


@pytest.mark.parametrize(
    ("source", "words", "is_locked"),
    [
        (None, "does not exist", False),
        (storage(name="base"), "not reconciled yet", False),
        (is_ready(storage(name="base"), "False", "PrepareRunning"), "PrepareRunning: words", False),
        (is_ready(storage(name="base", is_going=True)), "is being deleted", False),
        (is_ready(storage(name="base")), "", False),
        (is_ready(storage(name="base", annotations={ATTACHED_TO: "gpuunits/x"})), "in use by gpuunits/x", False),
        (is_ready(storage(name="base", annotations=EARLIER)), "in use by gpustorages/data", False),
        (is_ready(storage(name="base", annotations=OURS)), "", True),
    ],
)
def test_a_source_is_copied_when_it_is_ready_and_free(source: GPUStorage | None, words: str, is_locked: bool) -> None:
    found = source_of(storage(COPY), source)

    assert words in found.blocked
    assert bool(found.blocked) == bool(words)
    assert found.is_locked == is_locked


def test_what_copies_nothing_has_nothing_to_lock() -> None:
    assert source_of(storage(FILL), None).is_locked
    assert source_of(storage(), None).blocked == ""
