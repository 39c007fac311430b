"""The lock on a storage, as annotations."""

from gpuruntime.api.names import LAST_HOLDER
from gpuruntime.desired.storage.locks import LOCK_ANNOTATIONS, Lock, lock_of, released
from gpuruntime.meta import FrozenDict, ObjectMeta
from tests.desired.pool_scenes import NOW

UNIT = Lock("gpuunits/demo", "u1")


def applied(patch: dict[str, str | None]) -> ObjectMeta:
    """The metadata after a merge patch of the annotations."""
    return ObjectMeta(name="data", annotations=FrozenDict({key: text for key, text in patch.items() if text}))


def test_a_lock_is_read_as_it_was_written() -> None:
    for lock in (UNIT, Lock("gpuunits/demo", "", "op-1", "o1"), Lock("gpustorages/copy", "s1")):
        assert lock_of(applied(lock.annotations(NOW))) == lock


def test_a_release_removes_every_annotation_of_the_lock_and_names_who_had_it() -> None:
    patch = {**UNIT.annotations(NOW), **released(UNIT)}

    assert lock_of(applied(patch)) is None
    assert {name for name, text in patch.items() if text is None} == set(LOCK_ANNOTATIONS)
    assert patch[LAST_HOLDER] == "gpuunits/demo u1"


def test_the_releases_of_two_locks_differ_so_that_none_is_taken_for_a_hot_loop() -> None:
    locks = (UNIT, Lock("gpuunits/demo", "u2"), Lock("gpuunits/demo", "", "op-1", "o1"), Lock("gpuunits/other", "u1"))

    assert len({tuple(released(lock).items()) for lock in locks}) == len(locks)
