"""Patches are values that say what they are."""

import pytest

from gpuruntime.kube import JsonPatch, MergePatch, StrategicPatch


def test_a_patch_cannot_be_changed_after_it_was_made() -> None:
    body = {"metadata": {"labels": {"a": "b"}}}
    operations = [{"op": "replace", "path": "/spec/replicas", "value": [1]}]

    merge, listed = MergePatch(body), JsonPatch(operations)
    body["metadata"]["labels"]["a"] = "changed"
    operations.clear()

    assert merge == MergePatch({"metadata": {"labels": {"a": "b"}}})
    assert listed.body == ({"op": "replace", "path": "/spec/replicas", "value": (1,)},)
    assert len({merge, MergePatch(merge.body)}) == 1


@pytest.mark.parametrize("patch", [MergePatch({"spec": None}), StrategicPatch({"spec": None})])
def test_a_locked_patch_says_which_version_it_is_for(patch: MergePatch | StrategicPatch) -> None:
    locked = patch.locked("7")
    with_labels = type(patch)({"metadata": {"labels": {"a": "b"}}}).locked("7")

    assert type(locked) is type(patch)
    assert locked.body == {"spec": None, "metadata": {"resourceVersion": "7"}}
    assert with_labels.body == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}}


def test_a_lock_needs_a_version() -> None:
    with pytest.raises(ValueError, match="resource version"):
        MergePatch({}).locked("")
