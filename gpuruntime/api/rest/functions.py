"""Bodies and views of /serverless/functions. Bodies have the validation rules of the custom resource."""

from typing import Annotated, ClassVar

from attrs import field, frozen

from gpuruntime.api.envelope import IMAGE_LENGTH, IMAGE_PATTERN
from gpuruntime.api.gpufunction import FunctionWorkers, GPUFunctionSpec
from gpuruntime.api.projection import patch_of, view_of
from gpuruntime.api.rest.objects import Namespace, ObjectView
from gpuruntime.api.rest.queries import FlavourQuery
from gpuruntime.meta import Check, Condition, Length, Pattern, Rule, Struct, wire

__all__ = [
    "CreateFunctionBody",
    "FunctionName",
    "FunctionQuery",
    "FunctionView",
    "QueueLimits",
    "QueueView",
    "UpdateFunctionBody",
]

FunctionName = Annotated[
    str,
    Length(minimum=1, maximum=63),
    Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="a name of lower-case letters, digits and '-'"),
]
"""The name of a function, which is a token of subjects: without dots."""


@frozen
class FunctionQuery(FlavourQuery):
    """Which functions, and whether to watch them."""

    request_id: Annotated[str | None, Length(minimum=1, maximum=128)] = field(default=None, metadata=wire("requestID"))
    """Only the function with this requestID."""


@frozen
class CreateFunctionBody(GPUFunctionSpec):
    """A function: a program that runs on request, and what its workers are made of."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Check(
            lambda body: body.name is not None or body.request_id is not None,
            expected="a name; or a requestID, from which it is derived",
            field_path=".name",
        ),
        *GPUFunctionSpec.RULES,
    )

    image: Annotated[str, IMAGE_LENGTH, IMAGE_PATTERN] = field(kw_only=True)
    """Container image of the workers."""
    name: FunctionName | None = None
    """Name of the function. Defaults to the requestID; one that is no valid name is shortened, with a digest of it."""
    namespace: Namespace | None = None
    """Namespace of the function and its workers. Defaults to the first namespace of active units."""


@frozen(field_transformer=patch_of(GPUFunctionSpec))
class UpdateFunctionBody(Struct):
    """The fields to change, as a merge patch: omitted fields keep their values, inside scaling, invocation and others
    too; null removes a value; lists are replaced as a whole. requestID is accepted only with the value that it has.
    """


@frozen(field_transformer=view_of(GPUFunctionSpec))
class FunctionView(ObjectView, GPUFunctionSpec):
    """Spec and status of a function. requestID is always shown. Fields without a value are omitted."""

    workers: FunctionWorkers | None = None
    """Numbers of workers, units that joined included."""
    revision: str | None = None
    """Revision of the spec that new workers get."""
    start_failures: int | None = None
    """Workers that failed since the last one that stayed ready."""
    conditions: tuple[Condition, ...] = ()
    """Conditions of the function; reason and message above are those of Ready."""
    deleting: bool | None = None
    """True while the function is being deleted: until its queue is empty and its workers are gone."""


@frozen
class QueueLimits(Struct):
    """What the queue holds at most, those that run included. Further invocations are refused with 429."""

    max_queued: int
    """Most invocations."""
    max_queued_bytes: int
    """Most bytes."""


@frozen
class QueueView(Struct):
    """The queue of a function now, as the leader of its stream knows it. Fields without a value are omitted."""

    name: str
    """Name of the function."""
    namespace: str
    """Its namespace."""
    request_id: str = field(metadata=wire("requestID"))
    """The name under which callers invoke it."""
    queued: int
    """Invocations that no worker has got yet."""
    running: int
    """Invocations that a worker has got; those that wait for another attempt are among them."""
    bytes: int
    """Bytes of both."""
    limits: QueueLimits
    """What the queue holds at most."""
    workers: FunctionWorkers
    """Numbers of workers, units that joined included."""
    oldest_age_seconds: float | None = None
    """For how long the first queued invocation has waited; none if nothing is queued."""
    waiting_for: str | None = None
    """What queued invocations wait for, other than for those before them; none if nothing is queued, or if there is a
    ready worker."""
