from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from gpuruntime.meta import decode, encode
from gpuruntime.schema.custom_resource import definition
from gpuruntime.schema.defaulting import completed
from gpuruntime.schema.structural import schema_of
from gpuruntime.testing import ClusterAccess
from tests.schema.generated_objects import UNSHRUNK, valid
from tests.schema.installed import Installed, installed, same, without_cel
from tests.schema.rich_kind import Widget

SCHEMA = without_cel(schema_of(Widget))
PARTS = SCHEMA["properties"]


@pytest.fixture(scope="module")
def widgets(kube_cluster: ClusterAccess) -> Iterator[Installed]:
    with installed(kube_cluster, without_cel(definition(Widget)), "default") as kind:
        yield kind


@settings(max_examples=100, phases=UNSHRUNK)
@given(spec=valid(PARTS["spec"]), status=valid(PARTS["status"]))
def test_the_server_stores_objects_as_the_types_describe_them(widgets: Installed, spec: Any, status: Any) -> None:
    widget = decode(Widget, {"metadata": {}, "spec": spec, "status": status})

    stored = widgets.store(encode(widget) | {"status": status})

    assert same(completed(spec, PARTS["spec"]), stored["spec"])
    assert same(completed(status, PARTS["status"]), stored["status"])
    read = decode(Widget, stored | {"apiVersion": Widget.KIND.api_version})
    assert same(stored["spec"], encode(read.spec))
