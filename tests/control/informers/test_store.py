"""A store and its writer against a model that is too simple to be wrong."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexes import Index, by_controller, by_field, by_label
from gpuruntime.control.informers.storage import Compact, Eager, Projected, Storage
from gpuruntime.control.informers.store import QuarantinedError, Store, StoreWriter
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.forms import typed
from gpuruntime.meta.identity import ObjectKey

INDEXES = (by_label("app"), by_field("data.node"), by_controller())


def config_map(
    name: str,
    version: int,
    *,
    namespace: str = "a",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    data: Any = None,
    owner: str = "",
) -> dict[str, Any]:
    owners = [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": owner, "controller": True}] if owner else []
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-of-{name}",
            "resourceVersion": str(version),
            "labels": dict(labels or {}),
            "ownerReferences": owners,
            "managedFields": [{"manager": "kubectl"}],
        },
        "data": data if data is not None else {},
    }


def new_store(
    storage: Storage[Any] = Eager(typed(ConfigMap)), indexes: tuple[Index, ...] = INDEXES
) -> tuple[Store[Any], StoreWriter[Any]]:
    store = Store(storage, indexes)
    return store, StoreWriter(store)


def fill(writer: StoreWriter[Any], version: int, *objects: dict[str, Any]) -> list[Change[Any]]:
    listed = writer.new_indexer()
    for raw in objects:
        listed.put(listed.entry(raw, 100))
    return list(writer.swap(None, listed, str(version)))


def summary(changes: list[Change[Any]]) -> list[tuple[str, str]]:
    return [(change.type, change.key.name) for change in changes]


def test_a_relist_changes_deletions_first_and_leaves_out_what_is_unchanged() -> None:
    _, writer = new_store()
    fill(writer, 5, config_map("gone", 1), config_map("same", 2), config_map("newer", 3))

    changes = fill(writer, 9, config_map("same", 2), config_map("newer", 8), config_map("fresh", 9))

    assert summary(changes) == [("deleted", "gone"), ("modified", "newer"), ("added", "fresh")]
    assert not any(change.initial for change in changes)


def test_an_object_created_again_under_its_name_is_deleted_and_added() -> None:
    store, writer = new_store()
    fill(writer, 1, config_map("x", 1, uid="first"))

    changes = writer.upsert(None, config_map("x", 7, uid="second"), 100)

    assert [(change.type, change.uid) for change in changes] == [("deleted", "first"), ("added", "second")]
    assert store.version_of(ObjectKey("a", "x")) == ("second", "7")


def test_indexes_intersect_with_each_other_with_a_namespace_and_with_labels() -> None:
    store, writer = new_store()
    fill(
        writer,
        9,
        config_map("one", 1, labels={"app": "x"}, data={"node": "n1"}),
        config_map("two", 2, labels={"app": "x", "tier": "web"}, data={"node": "n2"}),
        config_map("three", 3, labels={"app": "x", "tier": "web"}, data={"node": "n1"}, namespace="b", owner="u"),
    )

    def names(**query: Any) -> list[str]:
        return [item.metadata.name for item in store.list(**query).items]

    assert names(where={"label:app": "x", "data.node": "n1"}) == ["one", "three"]
    assert names(where={"label:app": "x", "data.node": "n1"}, namespace="b") == ["three"]
    assert names(where={"label:app": "x"}, labels="tier=web") == ["two", "three"]
    assert names(where={"controller": "u"}) == ["three"]
    assert names(where={"controller": "absent"}) == []


def test_an_index_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    store, _ = new_store()

    with pytest.raises(LookupError, match=r"'zone' of v1 ConfigMap.* controller, data.node, label:app"):
        store.list(where={"zone": "x"})


def test_pages_follow_each_other_without_gaps_while_objects_come_and_go() -> None:
    store, writer = new_store(Compact(typed(ConfigMap)))
    fill(writer, 10, *(config_map(f"{number:03}", number + 1) for number in range(10)))

    first = store.list(limit=4)
    writer.remove(None, config_map("003", 11))
    writer.upsert(None, config_map("003x", 12), 100)
    second = store.list(limit=4, after=first.next)
    third = store.list(limit=4, after=second.next)

    pages = [[item.metadata.name for item in page.items] for page in (first, second, third)]
    assert pages == [["000", "001", "002", "003"], ["003x", "004", "005", "006"], ["007", "008", "009"]]
    assert third.next is None


@pytest.mark.parametrize("storage", [Eager(typed(ConfigMap)), Compact(typed(ConfigMap))], ids=["eager", "compact"])
def test_an_object_that_does_not_fit_its_type_is_quarantined_and_never_taken_for_deleted(storage: Storage[Any]) -> None:
    store, writer = new_store(storage, ())
    fill(writer, 1, config_map("good", 1), config_map("bad", 2, data="not a map"))

    listing = store.list()

    assert [item.metadata.name for item in listing.items] == ["good"]
    assert (listing.quarantined, store.quarantined) == (1, 1)
    with pytest.raises(QuarantinedError, match=r"v1 ConfigMap a/bad: .*\$\.data"):
        store.get(ObjectKey("a", "bad"))
    assert ObjectKey("a", "bad") in store
    assert len(store) == 2


def test_some_of_the_objects_in_quarantine_are_named_with_their_faults() -> None:
    store, writer = new_store(indexes=())
    bad = [config_map(f"bad-{number}", 2, data="not a map") for number in range(5)]
    fill(writer, 1, config_map("good", 1), *bad)

    named = store.faults(3)

    assert len(named) == 3
    assert {key.name for key, _ in named} < {f"bad-{number}" for number in range(5)}
    assert all("$.data" in fault for _, fault in named)
    for number in range(5):
        writer.upsert(None, config_map(f"bad-{number}", 3), 100)
    assert store.faults(3) == ()


def test_an_object_that_leaves_quarantine_is_a_change_from_its_last_readable_state() -> None:
    store, writer = new_store(indexes=())
    fill(writer, 1, config_map("x", 1, data={"a": "1"}))

    silent = writer.upsert(None, config_map("x", 2, data="broken"), 100)
    (change,) = writer.upsert(None, config_map("x", 3, data={"a": "3"}), 100)

    assert silent == []
    states = [change.before, change.after]
    assert (change.type, [state and state.data for state in states]) == ("modified", [{"a": "1"}, {"a": "3"}])
    assert store.quarantined == 0


def test_an_index_that_raises_quarantines_the_object_instead_of_missing_it() -> None:
    store, writer = new_store(indexes=(Index("broken", lambda raw: [raw["spec"]["absent"]]),))

    fill(writer, 1, config_map("x", 1))

    with pytest.raises(QuarantinedError, match="KeyError: 'spec'"):
        store.get(ObjectKey("a", "x"))


def test_a_projection_keeps_what_it_picks_and_managed_fields_are_gone() -> None:
    store, writer = new_store(Projected(ConfigMap.KIND, lambda raw: tuple(raw["metadata"])), ())

    fill(writer, 1, config_map("x", 1))

    assert store.get(ObjectKey("a", "x")) == (
        "name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences"
    )  # fmt: skip


def test_a_store_of_several_namespaces_has_reached_the_oldest_version_and_replaces_each_alone() -> None:
    store: Store[Any] = Store(Eager(typed(ConfigMap)), (), ("a", "b"))
    writer: StoreWriter[Any] = StoreWriter(store)

    def put(namespace: str, version: str, *names: str) -> list[Change[Any]]:
        listed = writer.new_indexer()
        for name in names:
            listed.put(listed.entry(config_map(name, 1, namespace=namespace), 10))
        return list(writer.swap(namespace, listed, version))

    put("a", "100", "x")
    unfilled = store.resource_version
    put("b", "99", "y")
    changes = put("a", "101")

    assert (unfilled, store.resource_version) == ("", "99")
    assert [store.version_in(namespace) for namespace in ("a", "b", "c", None)] == ["101", "99", "99", "99"]
    assert summary(changes) == [("deleted", "x")]
    assert [str(key) for key in store] == ["b/y"]


NAMES = st.sampled_from(["x", "y", "z"])
NAMESPACES = st.sampled_from(["a", "b"])
UIDS = st.sampled_from(["u1", "u2"])
APPS = st.sampled_from(["web", "db", ""])


class StoreModel(RuleBasedStateMachine):
    """Random histories: the store equals a dict, indexes equal a scan, a handler's copy equals the store."""

    @initialize(storage=st.sampled_from([Eager(typed(ConfigMap)), Compact(typed(ConfigMap))]))
    def start(self, storage: Storage[Any]) -> None:
        self.store, self.writer = new_store(storage)
        self.model: dict[ObjectKey, dict[str, Any]] = {}
        self.copy: dict[ObjectKey, tuple[str, str]] = {}
        self.version = 0

    def _object(self, name: str, namespace: str, uid: str, app: str) -> dict[str, Any]:
        self.version += 1
        labels = {"app": app} if app else {}
        return config_map(name, self.version, namespace=namespace, uid=uid, labels=labels, owner=uid)

    def _check(self, changes: list[Change[Any]]) -> None:
        for change in changes:
            known = self.copy.get(change.key)
            assert (known is None) == (change.type == "added"), "an object is added once, before all else"
            if change.type == "deleted":
                assert known is not None
                assert known[0] == change.uid
                del self.copy[change.key]
            else:
                assert known is None or (known[0] == change.uid and int(known[1]) < int(change.resource_version))
                self.copy[change.key] = (change.uid, change.resource_version)

    @rule(name=NAMES, namespace=NAMESPACES, uid=UIDS, app=APPS)
    def change(self, name: str, namespace: str, uid: str, app: str) -> None:
        raw = self._object(name, namespace, uid, app)
        self.model[ObjectKey(namespace, name)] = raw
        self._check(self.writer.upsert(None, config_copy(raw), 10))

    @rule(name=NAMES, namespace=NAMESPACES)
    def delete(self, name: str, namespace: str) -> None:
        self.version += 1
        raw = self.model.pop(ObjectKey(namespace, name), None) or config_map(name, self.version, namespace=namespace)
        raw["metadata"]["resourceVersion"] = str(self.version)
        self._check(self.writer.remove(None, raw))

    @rule(survivors=st.sets(st.tuples(NAMESPACES, NAMES)), uid=UIDS, app=APPS)
    def relist(self, survivors: set[tuple[str, str]], uid: str, app: str) -> None:
        kept = {key: raw for key, raw in self.model.items() if key in survivors}
        newcomer = self._object("w", "a", uid, app)
        self.model = {**kept, ObjectKey("a", "w"): newcomer}
        self._check(fill(self.writer, self.version, *(config_copy(raw) for raw in self.model.values())))

    @invariant()
    def everything_agrees(self) -> None:
        expected = {
            key: (raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]) for key, raw in self.model.items()
        }
        assert {key: self.store.version_of(key) for key in self.store} == expected
        assert self.copy == expected
        assert list(self.store) == sorted(expected)
        assert self.store.resource_version == (str(self.version) if self.version else "")
        for app in ("web", "db"):
            scan = sorted(key for key, raw in self.model.items() if raw["metadata"]["labels"].get("app") == app)
            assert [item.key for item in self.store.list(where={"label:app": app}).items] == scan
            assert [item.key for item in self.store.list(labels=f"app={app}").items] == scan
        for namespace in ("a", "b"):
            scan = sorted(key for key in self.model if key.namespace == namespace)
            assert [item.key for item in self.store.list(namespace).items] == scan


def config_copy(raw: dict[str, Any]) -> dict[str, Any]:
    return {**raw, "metadata": dict(raw["metadata"])}


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
