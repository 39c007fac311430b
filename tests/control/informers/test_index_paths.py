import pytest

from gpuruntime.control.informers.cache import Cache, CacheError
from gpuruntime.control.informers.index_paths import path_fault
from gpuruntime.control.informers.indexes import Index, by_field
from gpuruntime.control.informers.storage import compact, projected
from gpuruntime.kube.builtin.core import Service
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.forms import dynamic
from tests.control.map_server import MapServer


@pytest.mark.parametrize(
    "path",
    [
        "spec.nodeName",
        "metadata.generateName",
        "metadata.labels.node_name",
        "metadata.annotations.a.b",
        "status.hostIP",
        "spec.somethingThatTheTypeDoesNotKnow",
        "spec.some_thing.deeper",
        "apiVersion",
    ],
)
def test_paths_of_the_wire_are_right_known_or_not(path: str) -> None:
    assert path_fault(Pod, path) == ""


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("spec.node_name", "expected the JSON name nodeName, not node_name, in"),
        ("metadata.deletion_timestamp", "deletionTimestamp, not deletion_timestamp"),
        ("spec.containers.name", "spec.containers is a list: use an Index with a function of the object"),
        ("metadata.ownerReferences", "metadata.ownerReferences is a list"),
        ("spec", "spec is an object: expected a string, a number or a boolean"),
        ("metadata.labels", "metadata.labels is an object"),
    ],
)
def test_paths_that_find_nothing_are_wrong(path: str, fault: str) -> None:
    assert fault in path_fault(Pod, path)


def test_wire_names_that_follow_no_rule_are_known() -> None:
    assert path_fault(Service, "spec.clusterIP") == ""
    assert "clusterIP, not cluster_ip" in path_fault(Service, "spec.cluster_ip")


def test_an_informer_of_a_typed_kind_refuses_an_index_that_would_find_nothing() -> None:
    cache = Cache(MapServer())
    wrong = by_field("spec.node_name")

    for what in (Pod, compact(Pod)):
        with pytest.raises(CacheError, match=r"'spec.node_name' of v1 Pod.* nodeName"):
            cache.informer(what, indexes=[wrong])
    assert cache.informers == ()


def test_what_has_no_type_is_indexed_as_it_is() -> None:
    cache = Cache(MapServer())

    cache.informer(dynamic(Pod.KIND), indexes=[by_field("spec.node_name")])
    cache.informer(projected(Pod.KIND, len), indexes=[by_field("spec.node_name")])
    cache.informer(Pod, indexes=[Index("spec.node_name", lambda _: ())])

    assert len(cache.informers) == 3
