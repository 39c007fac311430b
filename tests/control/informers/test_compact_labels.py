"""Objects that are kept as bytes are selected by their labels without being decoded."""

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.informers.storage import compact
from gpuruntime.control.informers.store import Store, StoreWriter
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.forms import Form, typed
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import parse_selector

SELECTORS = (
    "app=web",
    "app!=web",
    "app",
    "!app",
    "app in (web,db)",
    "app notin (web,db)",
    "app=web,tier",
    "tier=",
    "example.org/app=web",
    "ap=web",
    "pp=web",
)


@frozen
class Counting:
    """A form that counts what it decodes."""

    inner: Form[ConfigMap] = field(factory=lambda: typed(ConfigMap))
    decoded: list[str] = field(factory=list, eq=False)

    @property
    def kind(self) -> ResourceKind:
        return self.inner.kind

    @property
    def accept(self) -> str:
        return self.inner.accept

    @property
    def list_accept(self) -> str:
        return self.inner.list_accept

    def decode(self, raw: Any) -> ConfigMap:
        self.decoded.append(raw["metadata"]["name"])
        return self.inner.decode(raw)


def store_of(form: Any, objects: list[dict[str, Any]]) -> Store[ConfigMap]:
    store = Store(compact(form))
    writer = StoreWriter(store)
    listed = writer.new_indexer()
    for raw in objects:
        listed.put(listed.entry(raw, 100))
    list(writer.swap(None, listed, "9"))
    return store


def config_map(name: str, labels: Mapping[str, Any] | None, data: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "a", "uid": name, "resourceVersion": "5"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata | {"labels": labels}, "data": data or {}}


def test_only_what_is_selected_is_decoded() -> None:
    form = Counting()
    many = [config_map(f"map-{number:03}", {"app": f"app-{number}", "tier": "web"}) for number in range(500)]
    store = store_of(form, many)

    found = store.list(labels="app in (app-7,app-400),tier=web").items

    assert [obj.metadata.name for obj in found] == ["map-007", "map-400"]
    assert form.decoded == ["map-007", "map-400"]


TEXTS = st.sampled_from(["web", "db", "", "app", "a.b-c_d"])
LABELS = st.none() | st.dictionaries(st.sampled_from(["app", "tier", "example.org/app", "x"]), TEXTS, max_size=4)


@given(labels=LABELS, others=st.dictionaries(st.sampled_from(["app", "labels"]), TEXTS))
@pytest.mark.parametrize("selector", SELECTORS)
def test_bytes_are_selected_as_the_labels_are(
    selector: str, labels: dict[str, str] | None, others: dict[str, str]
) -> None:
    store = store_of(ConfigMap, [config_map("one", labels, others)])

    found = store.list(labels=selector).items

    assert bool(found) == parse_selector(selector).matches(labels or {})


@pytest.mark.parametrize("odd", ['we}b,"app":"web', "}", 'a"b', "naïve"])
def test_labels_that_kubernetes_would_refuse_are_taken_as_they_are(odd: str) -> None:
    labels = {"a-first": odd, "tier": "x"}
    store = store_of(ConfigMap, [config_map("one", labels)])

    assert store.list(labels="tier=x").items
    assert not store.list(labels="app=web").items


def test_what_is_kept_reads_as_it_was() -> None:
    raw = config_map("one", {"app": "web"}, {"text": "a"})
    (obj,) = store_of(ConfigMap, [raw]).list().items

    assert obj == typed(ConfigMap).decode(raw)


def test_an_object_that_cannot_be_decoded_counts_only_if_it_is_selected() -> None:
    odd = config_map("odd", {"app": "web"})
    odd["data"] = 7
    store = store_of(ConfigMap, [odd, config_map("sound", {"app": "db"})])

    assert store.list(labels="app=db").quarantined == 0
    assert store.list(labels="app=web").quarantined == 1
