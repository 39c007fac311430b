from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, event, given, settings

from gpuruntime.schema import CHECK
from gpuruntime.schema.custom_resource import definition
from gpuruntime.schema.structural import schema_of
from gpuruntime.schema.validation import violations
from gpuruntime.testing import ClusterAccess, RefusedError
from tests.schema.generated_objects import UNSHRUNK, damaged
from tests.schema.installed import Installed, installed, is_decodable, without_cel
from tests.schema.rich_kind import Widget

SCHEMA = without_cel(schema_of(Widget))


@pytest.fixture(scope="module")
def widgets(kube_cluster: ClusterAccess) -> Iterator[Installed]:
    with installed(kube_cluster, definition(Widget), "default") as kind:
        yield kind


@settings(max_examples=150, phases=UNSHRUNK)
@given(spec=damaged(SCHEMA["properties"]["spec"]))
def test_python_and_the_server_give_the_same_verdict(widgets: Installed, spec: dict[str, Any]) -> None:
    # In the one field that is scaled, the server does not take 1.0 for an integer.
    assume(not isinstance(spec.get("replicas"), float))
    wire = {"spec": spec}

    # The server does not have the rules that are in Python only.
    ours = [violation for violation in violations(wire, Widget) if violation.rule != CHECK]
    assume(ours or is_decodable(wire, Widget))
    try:
        widgets.dry_run(wire)
        theirs = ""
    except RefusedError as error:
        theirs = str(error)

    event("refused" if theirs else "accepted")
    assert bool(ours) == bool(theirs), (ours, theirs)
