"""Checks of requests for functions: names, requestIDs and changes."""

from typing import Any

import pytest

from gpuruntime.api.gpufunction import GPUFunction, GPUFunctionSpec, function_name
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.desired.validation import spec_violations
from gpuruntime.meta import EMPTY, FrozenDict, ObjectMeta, freeze, is_dns_label
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.functions import FUNCTION_CREATION, CreateFunction, create_function, function_patch

SPEC = GPUFunctionSpec("g1.1", image="hello:1")


def function(name: str, request_id: str | None = None) -> GPUFunction:
    spec = GPUFunctionSpec("g1.1", image="hello:1", request_id=request_id)
    return GPUFunction(ObjectMeta(name=name, namespace="n"), spec)


def change(**spec: Any) -> FrozenDict[str, Any]:
    wanted: FrozenDict[str, Any] = freeze({"spec": spec})
    return wanted


def test_a_name_the_same_request_id_and_both_are_one_request() -> None:
    named = create_function("hello", SPEC, "n")
    invoked = create_function(None, GPUFunctionSpec("g1.1", image="hello:1", request_id="hello"), "n")
    both = create_function("hello", GPUFunctionSpec("g1.1", image="hello:1", request_id="hello"), "n")

    assert named == invoked == both
    assert (named.name, named.spec.request_id) == ("hello", None)


@pytest.mark.parametrize("request_id", ["my_model", "-", "a" * 100, "_a_"])
def test_a_request_id_that_is_no_name_is_kept_beside_a_name_that_follows_from_it(request_id: str) -> None:
    spec = GPUFunctionSpec("g1.1", image="hello:1", request_id=request_id)

    request = create_function(None, spec, "n")

    assert (request.name, request.spec.request_id) == (function_name(request_id), request_id)
    assert is_dns_label(request.name)
    assert tuple(FUNCTION_CREATION.violations(request)) == ()


def test_a_name_and_another_request_id_are_both_kept() -> None:
    request = create_function("a", GPUFunctionSpec("g1.1", image="hello:1", request_id="b"), "n")

    assert (request.name, request.spec.request_id) == ("a", "b")


def test_a_request_violates_the_rules_that_the_kind_has() -> None:
    spec = GPUFunctionSpec("g1.1", storage_mounts=(StorageMount("data", "/data"),))

    found = tuple(FUNCTION_CREATION.violations(CreateFunction("a.b", spec)))

    assert [violation.path for violation in found] == ["name", "storageMounts"]
    assert [f"spec.{violation}" for violation in found[1:]] == [str(violation) for violation in spec_violations(spec)]


@pytest.mark.parametrize(
    ("stored", "asked"), [(None, "hello"), (None, None), ("my_model", "my_model"), ("hello", None)]
)
def test_the_request_id_that_a_function_has_changes_nothing(stored: str | None, asked: str | None) -> None:
    assert function_patch(function("hello", stored), change(requestID=asked)) == EMPTY


@pytest.mark.parametrize(("stored", "asked"), [(None, "other"), ("my_model", "hello"), ("my_model", None)])
def test_another_request_id_is_refused(stored: str | None, asked: str | None) -> None:
    with pytest.raises(InvalidRequestError, match=r"requestID: expected .*, which never changes; create another"):
        function_patch(function("hello", stored), change(requestID=asked))


def test_a_function_is_paused_and_the_request_id_is_not_written() -> None:
    patch = function_patch(function("hello"), change(requestID="hello", paused=True))

    assert patch == {"spec": {"paused": True}}


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({"image": None}, "image"),
        ({"scaling": {"minWorkers": 2}}, "scaling.maxWorkers"),
        ({"framework": {"socketPath": "/tmp/elsewhere.sock"}}, "framework.socketPath"),  # noqa: S108 - refused
        ({"framework": {"invokePath": "invoke"}}, "framework.invokePath"),
    ],
)
def test_a_change_that_makes_the_spec_invalid_is_refused(asked: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        function_patch(function("hello"), change(**asked))

    assert [violation.path for violation in caught.value.violations] == [path]
