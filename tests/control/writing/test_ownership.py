"""Which objects may be written, and the errors for all others."""

from typing import Any

import pytest

from gpuruntime.control.writing.desired_state import OwnershipAnnotations
from gpuruntime.control.writing.ownership import check_ours, check_writable
from gpuruntime.control.writing.write_errors import (
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


OWNERSHIP = OwnershipAnnotations("tests.example.org")
OWNER = config("owner", uid="u1")


def owned_by(**changes: Any) -> ConfigMap:
    return config(ownerReferences=[{**REFERENCE, **changes}])


def made_for(uid: str, owner: str = "configmaps/owner", **metadata: Any) -> ConfigMap:
    marks = {OWNERSHIP.owner_uid_name: uid, OWNERSHIP.owner_name: owner}
    return config(annotations={name: value for name, value in marks.items() if value}, **metadata)


@pytest.mark.parametrize(
    "live",
    [
        pytest.param(made_for("u1", ownerReferences=[REFERENCE]), id="as we left it"),
        pytest.param(made_for("u1"), id="without the owner reference"),
        pytest.param(made_for("u1", ""), id="without the name of the owner"),
        pytest.param(made_for("u1", ownerReferences=[{**REFERENCE, "uid": "u0"}]), id="with that of a namesake"),
        pytest.param(made_for("u1", ownerReferences=[{**REFERENCE, "controller": False}]), id="as a mere owner"),
    ],
)
@pytest.mark.parametrize("adopt", [True, False])
def test_an_object_written_for_the_owner_is_ours_whatever_it_lost(live: ConfigMap, adopt: bool) -> None:
    check_ours(live, OWNER, OWNERSHIP, adopt=adopt)


def test_an_object_without_another_controller_may_be_adopted() -> None:
    for live in (config(), owned_by(), owned_by(apiVersion="v2"), owned_by(controller=False)):
        check_ours(live, OWNER, OWNERSHIP, adopt=True)


def test_without_an_owner_an_object_without_a_controller_may_be_written() -> None:
    for live in (config(), owned_by(controller=False)):
        check_ours(live, None, OWNERSHIP)


@pytest.mark.parametrize(
    ("live", "found"),
    [
        (config(), None),
        (owned_by(controller=False), None),
        (owned_by(), "u1"),
        (config("x", labels={"app": "owner"}), None),
    ],
)
def test_an_object_without_the_annotation_is_not_ours(live: ConfigMap, found: str | None) -> None:
    quoted = "ConfigMap a/x .*tests.example.org/owner-uid .*u1 of ConfigMap a/owner.* adopt"

    with pytest.raises(ForeignObjectError, match=quoted) as caught:
        check_ours(live, OWNER, OWNERSHIP)

    assert (caught.value.found and caught.value.found.uid) == found


@pytest.mark.parametrize("live", [made_for("u2", "configmaps/other"), made_for("u2", ""), made_for("u2", "pods/owner")])
@pytest.mark.parametrize("adopt", [True, False])
def test_an_object_with_the_annotation_of_another_owner_is_not_ours(live: ConfigMap, adopt: bool) -> None:
    with pytest.raises(ForeignObjectError, match=r"tests.example.org/owner-uid .*u2") as caught:
        check_ours(live, OWNER, OWNERSHIP, adopt=adopt)

    assert "adopt" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [{"uid": "u2", "name": "other"}, {"uid": "u2", "kind": "Widget"}, {"uid": "u2", "apiVersion": "example.org/v1"}],
)
@pytest.mark.parametrize("adopt", [True, False])
def test_an_object_of_another_controller_is_not_ours(changes: dict[str, str], adopt: bool) -> None:
    annotated = made_for("u1", ownerReferences=[{**REFERENCE, **changes}])

    for live in (owned_by(**changes), annotated):
        with pytest.raises(ForeignObjectError, match=r"uid u2.* ConfigMap a/owner"):
            check_ours(live, OWNER, OWNERSHIP, adopt=adopt)


def test_an_object_with_an_owner_is_not_ours_where_we_expect_none() -> None:
    with pytest.raises(ForeignObjectError, match="ConfigMap owner") as caught:
        check_ours(owned_by(), None, OWNERSHIP)

    assert caught.value.found is not None
    assert isinstance(caught.value, WriteRefusedError)


@pytest.mark.parametrize("live", [owned_by(uid="u0"), made_for("u0")])
@pytest.mark.parametrize("adopt", [True, False])
def test_an_object_of_an_earlier_owner_of_the_name_is_stale(live: ConfigMap, adopt: bool) -> None:
    with pytest.raises(StaleOwnerError) as caught:
        check_ours(live, OWNER, OWNERSHIP, adopt=adopt)

    assert caught.value.uid == "u0"
    assert all(part in str(caught.value) for part in ("ConfigMap a/x", "ConfigMap owner", "u0", "u1"))


def test_an_object_that_is_being_deleted_is_not_written() -> None:
    check_writable(config(finalizers=["f"]))
    with pytest.raises(BeingDeletedError) as held:
        check_writable(config(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["f", "g"]))
    with pytest.raises(BeingDeletedError) as free:
        check_writable(config(deletionTimestamp="2026-01-01T00:00:00Z"))

    assert all(
        "ConfigMap a/x" in str(error.value) and "2026-01-01T00:00:00Z" in str(error.value) for error in (held, free)
    )
    assert "finalizers f, g" in str(held.value)
    assert "finalizers" not in str(free.value)
