"""What a change says of an object, whatever the store keeps of it."""

from typing import Any

import pytest

from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexer import Entry, Indexer
from gpuruntime.control.informers.storage import Storage, compact, eager, projected
from gpuruntime.control.informers.store import QuarantinedError, Store, StoreWriter
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.identity import ObjectKey

STORAGES = pytest.mark.parametrize(
    "storage",
    [eager(ConfigMap), compact(ConfigMap), projected(ConfigMap.KIND, lambda raw: raw["data"]["a"])],
    ids=["eager", "compact", "projected"],
)


def raw(version: int, *, uid: str = "u", data: Any = None) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "n", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "data": {"a": str(version)} if data is None else data}


def entry(storage: Storage[Any], version: int, **fields: Any) -> Entry:
    return Indexer(storage, ()).entry(raw(version, **fields), 100)


def seen(state: Any) -> Any:
    return state.data["a"] if isinstance(state, ConfigMap) else state


@STORAGES
def test_an_addition_has_only_an_after(storage: Storage[Any]) -> None:
    change = Change(storage, None, entry(storage, 7), initial=True)

    assert (change.type, change.key, change.uid, change.resource_version) == ("added", ("n", "x"), "u", "7")
    assert (change.before, seen(change.after), change.initial) == (None, "7", True)


@STORAGES
def test_a_modification_has_both_and_speaks_of_the_new_state(storage: Storage[Any]) -> None:
    change = Change(storage, entry(storage, 7), entry(storage, 8))

    assert (change.type, change.key, change.uid, change.resource_version) == ("modified", ("n", "x"), "u", "8")
    assert (seen(change.before), seen(change.after), change.initial) == ("7", "8", False)


@STORAGES
def test_a_deletion_has_only_the_last_state_that_was_seen(storage: Storage[Any]) -> None:
    change = Change(storage, entry(storage, 7), None)

    assert (change.type, change.key, change.uid, change.resource_version) == ("deleted", ("n", "x"), "u", "7")
    assert (seen(change.before), change.after) == ("7", None)


def test_states_are_decoded_only_when_they_are_asked_for() -> None:
    storage = compact(ConfigMap)
    change = Change(storage, None, entry(storage, 7, data=5))

    assert change.type == "added"
    assert repr(change) == "<added ConfigMap n/x at 7>"
    with pytest.raises(DecodeError, match=r"\$\.data"):
        _ = change.after


def test_a_change_from_an_unreadable_state_has_the_new_state() -> None:
    storage = compact(ConfigMap)
    store = Store(storage)
    writer = StoreWriter(store)
    writer.upsert(None, raw(7, data=5), 100)
    with pytest.raises(QuarantinedError):
        store.get(ObjectKey("n", "x"))

    (change,) = writer.upsert(None, raw(8), 100)

    assert (change.before, seen(change.after)) == (None, "8")


def test_a_quarantined_state_is_no_change_and_the_next_one_follows_the_last_readable_state() -> None:
    writer: StoreWriter[ConfigMap] = StoreWriter(Store(eager(ConfigMap)))
    writer.upsert(None, raw(7), 100)

    assert writer.upsert(None, raw(8, data=5), 100) == []
    (change,) = writer.upsert(None, raw(9), 100)

    assert (change.type, seen(change.before), seen(change.after)) == ("modified", "7", "9")


def test_an_object_made_again_under_its_name_is_two_changes() -> None:
    writer: StoreWriter[ConfigMap] = StoreWriter(Store(eager(ConfigMap)))
    writer.upsert(None, raw(7, uid="first"), 100)

    changes = writer.upsert(None, raw(9, uid="second"), 100)

    assert [(change.type, change.uid) for change in changes] == [("deleted", "first"), ("added", "second")]
