"""Whose objects may be touched, and the words with which others are refused."""

from typing import Any

import pytest

from gpuruntime.control.writing.ownership import check_ours, check_writable
from gpuruntime.control.writing.refusals import (
    BeingDeletedError,
    ForeignObjectError,
    StaleOwnerError,
    WriteRefusedError,
)
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.codec import decode

REFERENCE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u1", "controller": True}


def config(name: str = "x", **metadata: Any) -> ConfigMap:
    return decode(ConfigMap, {"metadata": {"name": name, "namespace": "a", **metadata}})


def owned_by(**changes: Any) -> ConfigMap:
    return config(ownerReferences=[{**REFERENCE, **changes}])


OWNER = config("owner", uid="u1")


def test_our_own_objects_may_be_touched() -> None:
    check_ours(owned_by(), OWNER)
    check_ours(owned_by(), OWNER, adopt=True)
    check_ours(owned_by(apiVersion="v2"), OWNER)
    check_ours(config(), OWNER, adopt=True)
    check_ours(config(), None)
    check_ours(owned_by(controller=False), None)
    check_ours(owned_by(controller=False), OWNER, adopt=True)


@pytest.mark.parametrize("live", [config(), owned_by(controller=False)])
def test_an_object_of_nobody_is_not_ours(live: ConfigMap) -> None:
    with pytest.raises(ForeignObjectError) as caught:
        check_ours(live, OWNER)

    assert caught.value.found is None
    assert str(caught.value) == (
        "ConfigMap a/x is controlled by nobody, expected ConfigMap a/owner; it is left alone: adopt it, delete it, or "
        "use another name"
    )


@pytest.mark.parametrize(
    "changes",
    [{"uid": "u2", "name": "other"}, {"uid": "u2", "kind": "Widget"}, {"uid": "u2", "apiVersion": "example.org/v1"}],
)
@pytest.mark.parametrize("adopt", [True, False])
def test_an_object_of_another_owner_is_not_ours(changes: dict[str, str], adopt: bool) -> None:
    with pytest.raises(ForeignObjectError, match=r"\(uid u2\), expected ConfigMap a/owner; it is left alone"):
        check_ours(owned_by(**changes), OWNER, adopt=adopt)


def test_an_object_with_an_owner_is_not_ours_where_we_expect_none() -> None:
    with pytest.raises(ForeignObjectError, match=r"controlled by ConfigMap owner .* expected nobody") as caught:
        check_ours(owned_by(), None)

    assert caught.value.found is not None
    assert isinstance(caught.value, WriteRefusedError)


@pytest.mark.parametrize("adopt", [True, False])
def test_an_object_of_an_earlier_owner_of_the_name_is_stale(adopt: bool) -> None:
    with pytest.raises(StaleOwnerError) as caught:
        check_ours(owned_by(uid="u0"), OWNER, adopt=adopt)

    assert str(caught.value) == (
        "ConfigMap a/x is controlled by an earlier ConfigMap owner (uid u0), expected the one with uid u1; the garbage "
        "collector is going to remove it: try again when it is gone"
    )


def test_an_object_that_is_going_is_left_alone() -> None:
    check_writable(config(finalizers=["f"]))
    with pytest.raises(BeingDeletedError) as held:
        check_writable(config(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["f", "g"]))
    with pytest.raises(BeingDeletedError) as free:
        check_writable(config(deletionTimestamp="2026-01-01T00:00:00Z"))

    since = "ConfigMap a/x is being deleted since 2026-01-01T00:00:00Z"
    assert str(held.value) == f"{since}, which waits for f, g; it is left alone: try again when it is gone"
    assert str(free.value) == f"{since}; it is left alone: try again when it is gone"
