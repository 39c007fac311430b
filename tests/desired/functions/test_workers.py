"""The workers of a function: spec, names and ownership."""

import pytest
from attrs import evolve

from gpuruntime.api.gpufunction import FunctionInvocation, FunctionScaling
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID, FUNCTION_REVISION
from gpuruntime.api.security_profile import RESTRICTED
from gpuruntime.api.serverless import RAW, Framework, UnitServerless
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.api.unit_template import UnitEnv, UnitTemplate
from gpuruntime.desired.functions.workers import (
    creating_function,
    has_lost_ownership,
    is_current,
    is_made_by_function,
    serial_of,
    worker_name,
    worker_spec,
    worker_unit,
)
from gpuruntime.desired.pools.units import revision_of
from gpuruntime.desired.units.names import child_name
from gpuruntime.desired.units.worker import function_of
from gpuruntime.desired.validation import spec_violations
from gpuruntime.meta import FrozenDict, is_controlled_by, is_dns_label
from tests.desired.function_scenes import function, joined, worker


def test_a_worker_has_what_the_function_says_a_worker_is_made_of() -> None:
    owner = function(
        cpu="4",
        gpu=1,
        image="model:1",
        request_id="say_hello",
        template=UnitTemplate(envs=(UnitEnv("MODE", "fast"),)),
        framework=Framework(RAW, startup_timeout_seconds=900),
        security_profile=RESTRICTED,
        storage_mounts=(StorageMount("weights", "/weights", read_only=True),),
    )
    owner = evolve(owner, spec=evolve(owner.spec, scaling=FunctionScaling(concurrency=4)))

    spec = worker_spec(owner)

    assert (spec.cpu, spec.gpu, spec.image, spec.template) == ("4", 1, "model:1", owner.spec.template)
    assert (spec.security_profile, spec.storage_mounts) == (RESTRICTED, owner.spec.storage_mounts)
    assert spec.serverless == UnitServerless("say_hello", concurrency=4, framework=owner.spec.framework)
    assert spec_violations(spec) == ()


@pytest.mark.parametrize(("timeout", "grace"), [(1, 31), (600, 630), (3570, 3600), (3571, 3600), (86400, 3600)])
def test_a_worker_can_finish_a_run_before_it_ends_within_an_hour(timeout: int, grace: int) -> None:
    owner = function(invocation=FunctionInvocation(timeout_seconds=timeout))

    spec = worker_spec(owner)

    assert spec.termination_grace_period_seconds == grace


def test_a_worker_is_known_by_its_marks_and_its_owner() -> None:
    owner = function(request_id="say_hello")

    made = worker_unit(owner, "hello-1")

    assert made.metadata.labels == FrozenDict({FUNCTION_LABEL: "hello"})
    assert made.metadata.annotations[FUNCTION_REQUEST_ID] == "say_hello"
    assert made.metadata.annotations[FUNCTION_REVISION] == revision_of(made.spec)
    assert is_controlled_by(made.metadata, owner)
    assert creating_function(made.metadata.annotations) == "hello"
    assert function_of(made) == "hello"
    assert (is_made_by_function(made), is_made_by_function(joined(1))) == (True, False)


def test_a_change_of_what_a_worker_is_made_of_is_a_new_revision_and_other_changes_are_not() -> None:
    plain = function(1)
    others = [
        evolve(plain, spec=evolve(plain.spec, **change))
        for change in (
            {"image": "other"},
            {"scaling": FunctionScaling(concurrency=2)},
            {"framework": Framework(invoke_path="/run")},
            {"invocation": FunctionInvocation(timeout_seconds=60)},
        )
    ]
    same = [
        evolve(plain, spec=evolve(plain.spec, **change))
        for change in (
            {"paused": True},
            {"scaling": FunctionScaling(min_workers=9, max_workers=9)},
            {"invocation": FunctionInvocation(max_attempts=1)},
        )
    ]

    revisions = [revision_of(worker_spec(changed)) for changed in (plain, *others)]

    assert len(set(revisions)) == len(revisions)
    assert {revision_of(worker_spec(changed)) for changed in same} == {revisions[0]}


def test_an_edited_worker_is_not_current() -> None:
    owner = function(1)
    made = worker(owner, 1)
    edited = evolve(made, spec=evolve(made.spec, image="mine"), metadata=evolve(made.metadata, generation=2))
    back = evolve(made, metadata=evolve(made.metadata, generation=3))
    revision = revision_of(worker_spec(owner))

    assert [is_current(unit, revision) for unit in (made, edited, back)] == [True, False, True]


def test_a_worker_without_its_owner_or_marks_has_lost_its_ownership() -> None:
    owner = function(1)
    made = worker(owner, 1)
    meta = made.metadata
    unmarked = FrozenDict({name: text for name, text in meta.annotations.items() if name != FUNCTION_REQUEST_ID})
    stripped = (
        evolve(meta, owner_references=()),
        evolve(meta, labels=FrozenDict()),
        evolve(meta, annotations=unmarked),
    )
    ending = [evolve(lost, deletion_timestamp="2026-01-02T03:00:00Z") for lost in stripped]

    found = [has_lost_ownership(evolve(made, metadata=lost), owner) for lost in (*stripped, *ending)]

    assert found == [True, True, True, False, False, False]
    assert not has_lost_ownership(made, owner)
    assert not has_lost_ownership(joined(1), owner)


@pytest.mark.parametrize("name", ["a", "hello", "hello-7", "x" * 47, "y" * 48, f"{'z' * 36}-{'z' * 26}"])
@pytest.mark.parametrize("serial", [1, 42, 2**31])
def test_the_name_of_a_worker_has_its_number_and_fits(name: str, serial: int) -> None:
    owner = function(name=name)

    given = worker_name(owner, serial)

    assert serial_of(owner, given) == serial
    assert is_dns_label(given)
    assert child_name(given) == f"unit-{given}"
    assert len(name) > 47 or given == f"{name}-{serial}"


@pytest.mark.parametrize("name", ["hello", "hello-", "hello-x", "hello-07", "hello-1-2", "other-1", "hello-٣"])
def test_other_names_have_no_number(name: str) -> None:
    assert serial_of(function(), name) == 0
