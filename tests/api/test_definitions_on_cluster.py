"""Generated objects of the product's kinds on a real API server."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import Operation
from gpuruntime.api.stockpool import StockPool
from gpuruntime.meta import TypedObject, decode, encode
from gpuruntime.schema import CHECK, unchecked_rules
from gpuruntime.schema.custom_resource import definition
from gpuruntime.schema.defaulting import completed
from gpuruntime.schema.structural import schema_of
from gpuruntime.schema.validation import violations
from gpuruntime.testing import ClusterAccess, RefusedError
from tests.schema.generated_objects import UNSHRUNK, damaged, valid
from tests.schema.installed import Installed, installed, is_decodable, same, without_cel

KINDS: tuple[type[TypedObject], ...] = (GPUUnit, GPUStorage, StockPool, Operation)
PARTS = {kind: without_cel(schema_of(kind))["properties"] for kind in KINDS}


SOUND = {(kind, name): valid(PARTS[kind][name]) for kind in KINDS for name in ("spec", "status")}
DAMAGED = {kind: damaged(PARTS[kind]["spec"]) for kind in KINDS}


@pytest.fixture(scope="module")
def servers(kube_cluster: ClusterAccess) -> Iterator[dict[type[TypedObject], Installed]]:
    with ExitStack() as stack:
        yield {
            kind: stack.enter_context(installed(kube_cluster, without_cel(definition(kind)), "default"))
            for kind in KINDS
        }


@pytest.fixture(scope="module")
def strict_servers(kube_cluster: ClusterAccess) -> Iterator[dict[type[TypedObject], Installed]]:
    """The kinds with their CEL rules, which `violations` evaluates by the checks beside them."""
    with ExitStack() as stack:
        yield {kind: stack.enter_context(installed(kube_cluster, definition(kind), "default")) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=40, phases=UNSHRUNK)
@given(data=st.data())
def test_what_the_server_stores_is_what_the_types_say(
    servers: dict[type[TypedObject], Installed], kind: type[TypedObject], data: st.DataObject
) -> None:
    wire = {name: data.draw(SOUND[kind, name]) for name in ("spec", "status")}
    written = decode(kind, {"metadata": {}, **wire})

    stored = servers[kind].store(encode(written) | wire)

    assert all(same(completed(wire[name], PARTS[kind][name]), stored[name]) for name in wire)
    read = encode(decode(kind, stored | {"apiVersion": kind.KIND.api_version}))
    assert all(same(stored[name], read[name]) for name in wire)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=120, phases=UNSHRUNK)
@given(data=st.data())
def test_python_and_the_server_agree_on_validity(
    strict_servers: dict[type[TypedObject], Installed], kind: type[TypedObject], data: st.DataObject
) -> None:
    wire: dict[str, Any] = {"spec": data.draw(DAMAGED[kind])}
    # In the replicas field of the scale subresource, the server does not accept 1.0 as an integer.
    assume(not isinstance(wire["spec"].get("replicas"), float))

    # The server does not have the rules that are in Python only.
    ours = [violation for violation in violations(wire, kind) if violation.rule != CHECK]
    assume(ours or is_decodable(wire, kind))
    try:
        strict_servers[kind].dry_run(wire)
        theirs = ""
    except RefusedError as error:
        theirs = str(error)

    assert bool(ours) == bool(theirs), (ours, theirs)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_rules_about_updates_are_left_to_the_server(kind: type[TypedObject]) -> None:
    left = unchecked_rules(kind)

    assert [unchecked for unchecked in left if "oldSelf" not in unchecked.rule] == []
