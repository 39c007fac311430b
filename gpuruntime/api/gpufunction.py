"""GPUFunction: a program that runs on request. It holds no GPU; its workers are GPUUnits that it owns."""

from hashlib import sha256
from typing import Annotated, ClassVar, Final

from attrs import field, frozen

from gpuruntime.api.envelope import SharedSpec
from gpuruntime.api.invocations.states import FailureClass
from gpuruntime.api.names import GROUP, VERSION
from gpuruntime.api.ready_columns import READY_MESSAGE, READY_REASON
from gpuruntime.api.security_profile import BASELINE, SecurityProfile
from gpuruntime.api.serverless import DEFAULT_IDLE_SECONDS, Concurrency, Framework, IdleTimeoutSeconds, RequestID
from gpuruntime.api.storage_mount import StorageMounts
from gpuruntime.api.worker_rules import worker_rules
from gpuruntime.meta import (
    Cel,
    Column,
    Condition,
    Definition,
    Format,
    Immutable,
    Items,
    Length,
    MapOf,
    Pattern,
    QuantityRule,
    Range,
    ResourceKind,
    Rule,
    SetOf,
    Struct,
    TypedObject,
    is_dns_label,
    wire,
)

__all__ = [
    "DEFAULT_RETRY_ON",
    "FunctionBackoff",
    "FunctionInvocation",
    "FunctionScaling",
    "FunctionWorkers",
    "GPUFunction",
    "GPUFunctionSpec",
    "GPUFunctionStatus",
    "function_name",
    "request_id_of",
]

DEFAULT_RETRY_ON: Final = (FailureClass.WORKER_LOST.value,)
"""The failure classes after which an invocation is tried again by default."""

_RETRYABLE: Final = (
    FailureClass.WORKER_LOST.value,
    FailureClass.FRAMEWORK_ERROR.value,
    FailureClass.FRAMEWORK_TIMEOUT.value,
)
_DAY: Final = 86400
_DIGEST_LENGTH: Final = 10
_KEPT: Final = 48
_Seconds = Annotated[int, Range(minimum=1, maximum=7 * _DAY)]
_Count = Annotated[int, Range(minimum=0, maximum=1000)]


@frozen
class FunctionScaling(Struct):
    """How many workers the function has: today minWorkers. Fields about load are stored and checked, and take effect
    with the scaler of a later version.
    """

    min_workers: _Count = 0
    """Number of workers that are kept ready."""
    max_workers: Annotated[int, Range(minimum=1, maximum=1000)] = 1
    """Highest number of workers."""
    concurrency: Concurrency = 1
    """Number of invocations that a worker runs at a time."""
    target_utilization: Annotated[float, Range(minimum=0.05, maximum=1.0)] = 0.8
    """Share of its slots that a worker should use. For the scaler of a later version."""
    target_queue_seconds: Annotated[int, Range(minimum=1, maximum=_DAY)] = 10
    """Seconds within which queued work should start. For the scaler of a later version."""
    idle_timeout_seconds: IdleTimeoutSeconds = DEFAULT_IDLE_SECONDS
    """Seconds without work after which the last worker above minWorkers ends. For the scaler of a later version."""
    scale_down_delay_seconds: Annotated[int, Range(minimum=0, maximum=_DAY)] = 60
    """Seconds for which the highest demand is remembered. For the scaler of a later version."""
    buffer: _Count = 0
    """Workers beyond the demand. For the scaler of a later version."""
    weight: Annotated[int, Range(minimum=1, maximum=1000)] = 1
    """Share of scarce GPUs, relative to other functions. For the scaler of a later version."""
    stock: Annotated[str, Pattern("^(prefer|only|never)$"), Length(maximum=6)] = "prefer"
    """Whether workers start on stock: prefer, only or never. For the scaler of a later version."""


@frozen
class FunctionBackoff(Struct):
    """How long a failed attempt waits for the next one."""

    initial_seconds: Annotated[int, Range(minimum=0, maximum=3600)] = 2
    """Seconds after the first attempt."""
    factor: Annotated[float, Range(minimum=1.0, maximum=10.0)] = 2.0
    """Factor by which each further wait is longer."""
    max_seconds: Annotated[int, Range(minimum=0, maximum=_DAY)] = 120
    """Longest wait."""


@frozen
class FunctionInvocation(Struct):
    """What holds for each invocation: times, attempts and sizes."""

    timeout_seconds: Annotated[int, Range(minimum=1, maximum=_DAY)] = 600
    """Seconds that an attempt may run. A worker that ends finishes what it runs within this time, an hour at most."""
    queue_ttl_seconds: _Seconds = field(default=_DAY, metadata=wire("queueTTLSeconds"))
    """Seconds that an invocation may wait for its start; then it is expired."""
    result_ttl_seconds: _Seconds = field(default=3600, metadata=wire("resultTTLSeconds"))
    """Seconds for which a result can be read."""
    max_attempts: Annotated[int, Range(minimum=1, maximum=100)] = 3
    """Attempts before an invocation is dead-lettered. 1 is at most once."""
    retry_on: Annotated[
        tuple[
            Annotated[str, Pattern(f"^({'|'.join(_RETRYABLE)})$"), Length(maximum=17)],
            ...,
        ],
        SetOf(),
        Items(maximum=len(_RETRYABLE)),
    ] = DEFAULT_RETRY_ON
    """Failures after which an invocation is tried again: worker_lost, framework_error, framework_timeout. Others end
    it. Today worker_lost takes effect; the other two will with retries of a later version."""
    backoff: FunctionBackoff = field(default=FunctionBackoff())
    on_lease_lost: Annotated[str, Pattern("^(finish|abort)$"), Length(maximum=6)] = "finish"
    """What a worker does with a run whose lease nothing confirms: finish, or abort after 15 seconds."""
    max_queued: Annotated[int, Range(minimum=1, maximum=10_000_000)] = 10_000
    """Most invocations in the queue. Further ones are refused."""
    max_queued_bytes: Annotated[int | str, QuantityRule(positive=True, minimum="1Mi", maximum="1Ti", example="1Gi")] = (
        "1Gi"
    )
    """Most bytes in the queue. Further invocations are refused."""
    max_request_bytes: Annotated[
        int | str, QuantityRule(positive=True, minimum="1Ki", maximum="8Mi", example="1Mi")
    ] = "1Mi"
    """Largest payload."""
    max_result_bytes: Annotated[int | str, QuantityRule(positive=True, minimum="1Ki", maximum="8Mi", example="1Mi")] = (
        "1Mi"
    )
    """Largest result. A larger one ends the invocation as failed."""
    dead_letter_ttl_seconds: Annotated[int, Range(minimum=1, maximum=90 * _DAY)] = field(
        default=7 * _DAY, metadata=wire("deadLetterTTLSeconds")
    )
    """Seconds for which the request of a failed invocation is kept."""


@frozen
class GPUFunctionSpec(SharedSpec):
    """Desired state of the function: what a worker is made of, how many there are, and what holds for invocations.

    A change of what a worker is made of is a new revision: workers are replaced one by one, the new one first.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        # Not a rule of `scaling`: a patch may have one of the two, and the stored spec the other.
        Cel(
            "!has(self.scaling) || !has(self.scaling.maxWorkers) || !has(self.scaling.minWorkers)"
            " || self.scaling.maxWorkers >= self.scaling.minWorkers",
            message="scaling.maxWorkers must be at least scaling.minWorkers",
            field_path=".scaling.maxWorkers",
            check=lambda spec: spec.scaling.max_workers >= spec.scaling.min_workers,
            expected=lambda spec: f"at least minWorkers, which is {spec.scaling.min_workers}",
        ),
        Cel(
            "!has(self.storageMounts) || self.storageMounts.all(mount, has(mount.readOnly) && mount.readOnly)",
            message="storageMounts must be readOnly: an exclusive mount would allow one worker only",
            field_path=".storageMounts",
            check=lambda spec: all(mount.read_only for mount in spec.storage_mounts),
            expected="readOnly mounts only; an exclusive one would allow one worker only",
        ),
        *worker_rules("false", lambda _spec: True),
        *SharedSpec.RULES,
    )

    request_id: Annotated[RequestID | None, Immutable()] = field(default=None, metadata=wire("requestID"))
    """The name under which callers invoke the function. Defaults to its name. Immutable."""
    framework: Framework = field(default=Framework())
    scaling: FunctionScaling = field(default=FunctionScaling())
    invocation: FunctionInvocation = field(default=FunctionInvocation())
    paused: bool = False
    """Whether the function accepts invocations without starting them. Workers stay."""
    security_profile: SecurityProfile = BASELINE
    """Baseline: the container runs as the user of its image, which may be root. Restricted: the pod satisfies the Pod
    Security Standard `restricted`; the image must declare a numeric user other than 0."""
    storage_mounts: StorageMounts = ()
    """Storages of the function's namespace that every worker mounts, read-only. Any number of workers can mount one of
    accessMode ReadWriteMany, and one worker any other."""


@frozen
class FunctionWorkers(Struct):
    """Numbers of workers, units that joined included."""

    desired: Annotated[int, Range(minimum=0)] | None = None
    """Workers that the function should have."""
    ready: Annotated[int, Range(minimum=0)] | None = None
    """Workers that are ready."""
    starting: Annotated[int, Range(minimum=0)] | None = None
    """Workers that are not ready yet, failed ones included."""
    draining: Annotated[int, Range(minimum=0)] | None = None
    """Workers that are being deleted, and finish what they run."""


@frozen
class GPUFunctionStatus(Struct):
    """Observed state of the function, written by the operator only. The Ready condition shows whether its workers are
    ready, and if not, why. How much work is queued is not here; the REST API shows it.
    """

    phase: str | None = None
    """Summary of the Ready condition: Ready, Progressing, Paused or Failed."""
    workers: FunctionWorkers | None = None
    revision: str | None = None
    """Revision of the spec that new workers get."""
    observed_generation: int | None = None
    """Most recent generation of the spec that the operator has applied to the workers."""
    last_sync_time: Annotated[str | None, Format("date-time")] = None
    """Time of the last status change. The status of an unchanged function is not written, so this may be long ago."""
    last_serial: int | None = None
    """Highest serial number that a worker was given. It is written before the worker is created, and never reused."""
    start_failures: int | None = None
    """Number of consecutive failures: workers that failed since the last one that stayed ready."""
    last_failure_time: Annotated[str | None, Format("date-time")] = None
    """Time of the last failure. The more consecutive failures there are, the longer the wait before a retry."""
    replaced: int | None = None
    """Number of failed workers among these failures that were replaced."""
    replaced_serial: int | None = None
    """Highest serial number of the replaced workers."""
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()
    """Conditions of the function. Ready is True while there are as many ready workers as desired, and none of an old
    revision; otherwise its reason and message explain why not."""


@frozen
class GPUFunction(TypedObject):
    """GPUFunction is a program that runs on request: callers send invocations to its requestID, and its workers execute
    them. It holds no GPU itself; its workers are GPUUnits of the same namespace.

    Its name is the requestID, unless that is not a valid name.
    """

    KIND = ResourceKind(GROUP, VERSION, "GPUFunction", "gpufunctions", namespaced=True)
    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            message="metadata.name must be a DNS label: at most 63 lower-case letters, digits and '-'",
            # The server never stores an object without a name.
            check=lambda function: not function.metadata.name or is_dns_label(function.metadata.name),
            expected="a name that is a DNS label: at most 63 lower-case letters, digits and '-'",
        ),
    )
    DEFINITION: ClassVar[Definition] = Definition(
        short_names=("gf",),
        categories=("gpuruntime",),
        columns=(
            Column("Spec", ".spec.specName", description="Flavour of the workers"),
            Column("Desired", ".status.workers.desired", type="integer", description="Workers that it should have"),
            Column("Workers", ".status.workers.ready", type="integer", description="Workers that are ready"),
            Column("Phase", ".status.phase", description="Ready, Progressing, Paused or Failed"),
            READY_REASON,
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("GPU", ".spec.gpu", type="integer", priority=1, description="Number of GPUs of each worker"),
            Column("Draining", ".status.workers.draining", type="integer", priority=1, description="Ending workers"),
            Column("Request", ".spec.requestID", priority=1, description="requestID, if it is not the name"),
            READY_MESSAGE,
        ),
    )

    spec: GPUFunctionSpec
    status: GPUFunctionStatus = field(default=GPUFunctionStatus())


def request_id_of(function: GPUFunction) -> str:
    """The name under which callers invoke the function."""
    return function.spec.request_id or function.metadata.name


def function_name(request_id: str) -> str:
    """The name of the function that is made for a requestID: the requestID itself if it is a valid name.

    Guarantees: a DNS label for every valid requestID. Different requestIDs give different names, except for collisions
    of 40 bits of SHA-256 between those that are not DNS labels.
    """
    if is_dns_label(request_id):
        return request_id
    digest = sha256(request_id.encode()).hexdigest()[:_DIGEST_LENGTH]
    beginning = request_id.replace("_", "-").strip("-")[:_KEPT].rstrip("-") or "function"
    return f"{beginning}-{digest}"
