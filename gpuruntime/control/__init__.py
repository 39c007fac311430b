"""The embeddable reconciler library: controller-runtime's guarantees in asyncio Python. It knows no product.

Twelve names are enough to begin with::

    Manager, ManagerOptions     runs controllers; `manager.controller(Website).owns(Deployment).reconcile(reconcile)`
    Election, HttpAddress       which Lease decides who leads, where probes and metrics are served
    configure_logging           log lines with controller and key
    ControllerOptions           concurrency, timeout, backoff
    Context                     what a reconciler reads and writes with
    Result, TerminalError       what follows a run
    ForeignObjectError          a child's name is taken by an object of another owner
    generation_changed          a predicate: only changes of the spec
    by_field                    an index of a cache

Everything else is the lower layer: sources, triggers, informers, the work queue, the writer. It is public for programs
that need it; `manager.controller` is built from it.

The rooms, in the order in which a change travels::

    informers     a change on the server reaches a store and the event handlers
    queueing      the keys that it concerns wait for a worker, each once
    controllers   a worker reconciles a key: sources, triggers, predicates, the context, what follows each run
    writing       what a run writes: real differences only, never objects of other owners
    events        what a run records
    leadership    which replica may write
    permissions   the least that a process must be allowed
    metrics, health, debug, serving, watchdog   how a process is observed
    builder       one controller from a sentence
    manager       everything together, started and stopped in order

`gpuruntime.schema` generates CustomResourceDefinitions from types, and validates values against them.

The names listed here are the public face; import from here.
"""

from gpuruntime.control.builder import ControllerBuilder
from gpuruntime.control.controllers.context import Context
from gpuruntime.control.controllers.controller import Controller, ControllerOptions, ReconcileTimeoutError
from gpuruntime.control.controllers.freshness import StaleCacheError
from gpuruntime.control.controllers.log_context import ReconcileFields, add_log_fields
from gpuruntime.control.controllers.predicates import (
    Predicate,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    matching,
    negated,
    resource_version_changed,
)
from gpuruntime.control.controllers.reconcile import (
    Cause,
    ObjectReconciler,
    Reconciler,
    Result,
    RunInfo,
    TerminalError,
    UndeclaredError,
)
from gpuruntime.control.controllers.sources import Channel, Source, Timer, Watch
from gpuruntime.control.controllers.triggers import Trigger, enqueue_mapped, enqueue_object, enqueue_owner
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.health.checks import NotHealthyError, caches_fresh, caches_synced
from gpuruntime.control.informers.cache import Cache, CacheError, NotSyncedError
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.consistent_read import has_reached
from gpuruntime.control.informers.indexes import Index, by_controller, by_field, by_label, by_owner
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import Storage, compact, eager, projected, trim_metadata
from gpuruntime.control.informers.store import Listing, QuarantinedError, Store
from gpuruntime.control.informers.waiting import WaitCondition, WaitTimeoutError, condition_true, deleted, wait_for
from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import ElectionTiming
from gpuruntime.control.leadership.fence import NotLeaderError
from gpuruntime.control.log_format import LogFormat, configure_logging
from gpuruntime.control.manager import Election, Manager, ManagerOptions
from gpuruntime.control.permissions.declarations import (
    Declaration,
    allow,
    allow_children,
    allow_events,
    allow_finalizers,
    allow_rule,
    allow_status,
)
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.control.permissions.permission import Permission
from gpuruntime.control.permissions.resolving import PermissionsError, required_permissions
from gpuruntime.control.permissions.roles import roles_for, roles_of
from gpuruntime.control.queueing.priorities import LOW_PRIORITY
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.control.queueing.workqueue import QueueClosedError, WorkQueue
from gpuruntime.control.serving.http_site import HttpAddress, ListenError
from gpuruntime.control.serving.limits import HttpLimits
from gpuruntime.control.writing.desired_state import OwnershipAnnotations
from gpuruntime.control.writing.finalizers import add_finalizer, remove_finalizer, with_finalizer
from gpuruntime.control.writing.hot_loops import HotLoopError
from gpuruntime.control.writing.status import write_status
from gpuruntime.control.writing.write_errors import (
    BeingDeletedError,
    ForeignObjectError,
    ImmutableDifferenceError,
    StaleOwnerError,
    WriteRefusedError,
)
from gpuruntime.control.writing.writer import Outcome, Writer

__all__ = [
    "LOW_PRIORITY",
    "OFFLINE_CREDENTIALS",
    "BeingDeletedError",
    "Cache",
    "CacheError",
    "Cause",
    "Change",
    "Channel",
    "Context",
    "Controller",
    "ControllerBuilder",
    "ControllerOptions",
    "Declaration",
    "Election",
    "ElectionTiming",
    "ForeignObjectError",
    "HotLoopError",
    "HttpAddress",
    "HttpLimits",
    "ImmutableDifferenceError",
    "Index",
    "Informer",
    "LeaseElection",
    "ListenError",
    "Listing",
    "LogFormat",
    "Manager",
    "ManagerOptions",
    "NotHealthyError",
    "NotLeaderError",
    "NotSyncedError",
    "ObjectReconciler",
    "Outcome",
    "OwnershipAnnotations",
    "Permission",
    "PermissionsError",
    "Predicate",
    "QuarantinedError",
    "QueueClosedError",
    "RateLimiter",
    "ReconcileFields",
    "ReconcileTimeoutError",
    "Reconciler",
    "Recorder",
    "Result",
    "RunInfo",
    "Source",
    "StaleCacheError",
    "StaleOwnerError",
    "Storage",
    "Store",
    "TerminalError",
    "Timer",
    "Trigger",
    "UndeclaredError",
    "WaitCondition",
    "WaitTimeoutError",
    "Watch",
    "WorkQueue",
    "WriteRefusedError",
    "Writer",
    "add_finalizer",
    "add_log_fields",
    "all_of",
    "allow",
    "allow_children",
    "allow_events",
    "allow_finalizers",
    "allow_rule",
    "allow_status",
    "annotations_changed",
    "any_of",
    "by_controller",
    "by_field",
    "by_label",
    "by_owner",
    "caches_fresh",
    "caches_synced",
    "compact",
    "condition_true",
    "configure_logging",
    "deleted",
    "eager",
    "enqueue_mapped",
    "enqueue_object",
    "enqueue_owner",
    "generation_changed",
    "has_reached",
    "labels_changed",
    "matching",
    "negated",
    "projected",
    "remove_finalizer",
    "required_permissions",
    "resource_version_changed",
    "roles_for",
    "roles_of",
    "trim_metadata",
    "wait_for",
    "with_finalizer",
    "write_status",
]
