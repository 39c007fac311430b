"""Which units join a function, and the function that is made from one."""

import pytest
from attrs import evolve
from hypothesis import assume, given

from gpuruntime.api.gpufunction import GPUFunction, function_name, request_id_of
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import FUNCTION_LABEL
from gpuruntime.api.security_profile import RESTRICTED
from gpuruntime.api.serverless import RAW, Framework, UnitServerless
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.api.unit_template import UnitEnv, UnitTemplate
from gpuruntime.desired.functions.joining import (
    can_join,
    function_from,
    has_joined,
    has_stale_marks,
    holder,
    needs_joining,
    requested,
)
from gpuruntime.desired.validation import spec_violations
from gpuruntime.meta import FrozenDict, ObjectMeta, is_dns_label
from tests.desired.function_scenes import function, joined, worker
from tests.desired.valid_units import valid_units

READ_ONLY = StorageMount("weights", "/weights", read_only=True)
EXCLUSIVE = StorageMount("data", "/data")


def unit(name: str = "mine", **spec: object) -> GPUUnit:
    return GPUUnit(ObjectMeta(name=name, namespace="active"), GPUUnitSpec("g1.1", **spec))  # type: ignore[arg-type]  # any field


def test_a_unit_with_a_request_id_wants_to_join_unless_it_is_not_enabled_or_a_function_made_it() -> None:
    wanting = unit(serverless=UnitServerless("hello"))
    off = unit(serverless=UnitServerless("hello", enabled=False))
    ending = evolve(wanting, metadata=evolve(wanting.metadata, deletion_timestamp="2026-01-02T03:00:00Z"))

    assert [requested(one) for one in (wanting, off, unit(), worker(function(), 1))] == ["hello", "", "", ""]
    assert [can_join(one, "hello") for one in (wanting, ending, off)] == [True, False, False]


def test_a_unit_needs_joining_until_its_marks_name_the_function_that_has_its_request_id() -> None:
    owner, other = function(), function(name="other", request_id="hello")
    fresh, member = unit(serverless=UnitServerless("hello")), joined(1)

    assert [needs_joining(one, owner) for one in (fresh, member)] == [True, False]
    assert [has_joined(one, owner) for one in (fresh, member)] == [False, True]
    assert needs_joining(member, other)
    assert not needs_joining(member, function(name="third"))


def test_marks_are_stale_when_the_spec_names_another_function_or_none() -> None:
    member = joined(1)
    moved = evolve(member, spec=evolve(member.spec, serverless=UnitServerless("other")))
    off = evolve(member, spec=evolve(member.spec, serverless=UnitServerless("hello", enabled=False)))
    forged = evolve(unit(), metadata=evolve(unit().metadata, labels=FrozenDict({FUNCTION_LABEL: "hello"})))

    found = [has_stale_marks(one) for one in (member, moved, off, forged, unit(), worker(function(), 1))]

    assert found == [False, True, True, True, False, False]


def test_of_functions_with_one_request_id_the_oldest_has_it() -> None:
    def aged(name: str, time: str) -> GPUFunction:
        made = function(name=name, request_id="same")
        return evolve(made, metadata=evolve(made.metadata, creation_timestamp=time))

    young, old = aged("a", "2026-01-02T00:00:02Z"), aged("b", "2026-01-02T00:00:01Z")
    twin = aged("c", "2026-01-02T00:00:01Z")

    assert (holder([young, old, twin]), holder([twin, old]), holder([])) == (old, old, None)


def test_a_function_is_made_from_what_the_unit_is_made_of() -> None:
    serverless = UnitServerless(
        "hello", min_available_count=3, idle_timeout_seconds=0, concurrency=2, framework=Framework(RAW)
    )
    template = UnitTemplate(envs=(UnitEnv("MODE", "fast"),))
    source = unit(
        cpu="2",
        gpu=1,
        image="model:1",
        template=template,
        security_profile=RESTRICTED,
        serverless=serverless,
        storage_mounts=(READ_ONLY,),
    )

    made = function_from(source, is_name_taken=False)

    spec, scaling = made.spec, made.spec.scaling
    assert (made.metadata.name, made.metadata.namespace, spec.request_id) == ("hello", "active", None)
    assert (spec.cpu, spec.gpu, spec.image, spec.template) == ("2", 1, "model:1", template)
    assert (spec.security_profile, spec.storage_mounts, spec.framework) == (RESTRICTED, (READ_ONLY,), Framework(RAW))
    assert (scaling.min_workers, scaling.max_workers, scaling.concurrency) == (3, 3, 2)
    assert scaling.idle_timeout_seconds == 300


def test_a_function_from_a_unit_with_exclusive_storages_is_content_with_the_unit() -> None:
    source = unit(storage_mounts=(READ_ONLY, EXCLUSIVE), serverless=UnitServerless("hello", min_available_count=3))

    made = function_from(source, is_name_taken=False)

    assert made.spec.storage_mounts == (READ_ONLY,)
    assert (made.spec.scaling.min_workers, made.spec.scaling.max_workers) == (1, 1)


@pytest.mark.parametrize("request_id", ["hello", "say_hello", "-", "a" * 128])
def test_a_function_has_a_valid_name_of_its_own_whatever_the_request_id(request_id: str) -> None:
    source = unit(serverless=UnitServerless(request_id))

    made, other = (function_from(source, is_name_taken=taken) for taken in (False, True))

    assert (made.metadata.name, request_id_of(made)) == (function_name(request_id), request_id)
    assert request_id_of(other) == request_id
    assert other.metadata.name != made.metadata.name
    assert is_dns_label(made.metadata.name)
    assert is_dns_label(other.metadata.name)


@given(source=valid_units())
def test_every_valid_unit_makes_a_valid_function(source: GPUUnit) -> None:
    wanting = evolve(source, spec=evolve(source.spec, serverless=UnitServerless("hello")))
    assume(not spec_violations(wanting.spec))

    made = function_from(wanting, is_name_taken=False)

    assert spec_violations(made.spec) == ()
