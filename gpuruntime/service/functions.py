"""Functions on request: create, update, delete. Their workers are made by the GPUFunction reconciler.

A requestID names one function of a namespace. A second one is refused here, when it is requested; two that are
requested at once are both stored, and the younger has the reason RequestIDTaken.
"""

from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction, GPUFunctionSpec, function_name, request_id_of
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE
from gpuruntime.api.operation import CREATE_GPU_FUNCTION, DELETE_GPU_FUNCTION, UPDATE_GPU_FUNCTION
from gpuruntime.api.projection import project
from gpuruntime.kube import Client
from gpuruntime.meta import EMPTY, FrozenDict, ObjectMeta, Struct, is_dns_label
from gpuruntime.schema import Violation, violations
from gpuruntime.service.errors import NameTakenError
from gpuruntime.service.invocations.functions import watch_functions
from gpuruntime.service.objects.admission import raise_if_any
from gpuruntime.service.objects.create import CreateObjectHandler
from gpuruntime.service.objects.delete import DeleteObjectHandler
from gpuruntime.service.objects.served_kind import ServedKind
from gpuruntime.service.objects.update import UpdateObjectHandler, spec_patch

__all__ = ["FUNCTIONS", "FUNCTION_CREATION", "CreateFunction", "create_function", "function_patch"]

_REQUEST_ID: Final = "requestID"


@frozen
class CreateFunction(Struct):
    """Create a function. Its spec has a requestID only if that is not the name: see `create_function`."""

    name: str
    spec: GPUFunctionSpec
    namespace: str = INSTANCE_NAMESPACE


def create_function(name: str | None, spec: GPUFunctionSpec, namespace: str) -> CreateFunction:
    """The request for a function with this name, or else with the name for its requestID; it needs one of the two.

    A name, the same requestID, and both are the same request.
    """
    chosen = name or function_name(spec.request_id or "")
    request_id = None if spec.request_id == chosen else spec.request_id
    return CreateFunction(chosen, project(spec, GPUFunctionSpec, request_id=request_id), namespace)


def function_patch(function: GPUFunction, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The merge patch for a change of the spec; EMPTY if nothing would differ.

    Raises:
        InvalidRequestError: the spec would become invalid, lose its image, or get another requestID.
    """
    asked = change.get("spec", EMPTY)
    found = [*_identity_violations(function, asked)]
    if "image" in asked and asked["image"] is None:
        found.append(Violation("image", "an image", "null"))
    raise_if_any(found)
    # It has this value: a patch must not write it where it follows from the name.
    rest = FrozenDict({key: value for key, value in asked.items() if key != _REQUEST_ID})
    return spec_patch(function.spec, change | {"spec": rest})


def _identity_violations(function: GPUFunction, asked: FrozenDict[str, Any]) -> Iterator[Violation]:
    present = request_id_of(function)
    if _REQUEST_ID not in asked or asked[_REQUEST_ID] == present:
        return
    # null asks for the default, which is the name.
    if asked[_REQUEST_ID] is not None or present != function.metadata.name:
        advice = "which never changes; create another function"
        yield Violation.of(_REQUEST_ID, f"{present}, {advice}", asked[_REQUEST_ID])


def _creation_violations(request: CreateFunction) -> Iterator[Violation]:
    if not is_dns_label(request.name):
        yield Violation.of("name", "at most 63 lower-case letters, digits and '-'", request.name)
    yield from violations(request.spec, GPUFunctionSpec)


async def _ensure_request_id_is_free(client: Client, request: CreateFunction) -> None:
    wanted = request_id_of(_function(request))
    for found in (await client.list(GPUFunction, request.namespace)).items:
        if request_id_of(found) == wanted and found.metadata.name != request.name:
            raise NameTakenError(
                f"function {found.key} has requestID {wanted} already; choose another requestID, or update that one"
            )


def _function(request: CreateFunction) -> GPUFunction:
    return GPUFunction(ObjectMeta(name=request.name, namespace=request.namespace), request.spec)


FUNCTION_CREATION: Final = CreateObjectHandler(
    CREATE_GPU_FUNCTION, CreateFunction, _function, _creation_violations, _ensure_request_id_is_free
)
"""Executes create_gpu_function operations."""
FUNCTIONS: Final = ServedKind(
    GPUFunction,
    lambda namespaces: namespaces.instance,
    watch=watch_functions,
    creation=FUNCTION_CREATION,
    update=UpdateObjectHandler(UPDATE_GPU_FUNCTION, GPUFunction, function_patch),
    # Workers are deleted with it. An activator cancels what is queued, and keeps the function until that is done.
    deletion=DeleteObjectHandler(DELETE_GPU_FUNCTION, GPUFunction),
)
"""Functions in the API."""
