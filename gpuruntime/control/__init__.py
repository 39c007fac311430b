"""The embeddable reconciler library: controller-runtime's guarantees in asyncio Python. It knows no product.

The rooms, in the order in which a change travels::

    informers     a change on the server reaches a store, and those who asked to be told
    queueing      the keys that it concerns wait for a worker, each once
    controllers   a worker reconciles a key: sources, triggers, predicates, what follows from each run
    writing       what a run writes: real differences only, and nothing that belongs to others
    events        what a run has to say
    leadership    who may write
    permissions   what a process may do at all: the least that its controllers declare
    operations    what people see of all this: log lines, probes, metrics, debug pages
    manager       everything together, started and stopped in order

Beside them, `gpuruntime.control.definitions` makes CustomResourceDefinitions of types. No controller needs it while it
runs, so it has a public face of its own.

What is listed here is the public face; import from here.
"""

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
    Context,
    ObjectReconciler,
    Reconciler,
    Result,
    TerminalError,
)
from gpuruntime.control.controllers.sources import Channel, Source, Timer, Watch
from gpuruntime.control.controllers.triggers import Trigger, itself, mapped, owner
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.health.checks import NotHealthyError, caches_fresh, caches_synced
from gpuruntime.control.informers.cache import Cache, CacheError, NotSyncedError
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexes import Index, by_controller, by_field, by_label, by_owner
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import Storage, compact, eager, projected
from gpuruntime.control.informers.store import Listing, QuarantinedError, Store
from gpuruntime.control.informers.waiting import WaitTimeoutError, condition_true, deleted, wait_for
from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import ElectionTiming
from gpuruntime.control.leadership.fence import NotLeaderError
from gpuruntime.control.log_format import LogFormat, configure_logging
from gpuruntime.control.manager import Election, Manager, ManagerOptions
from gpuruntime.control.permissions.declarations import (
    Declaration,
    finalizes,
    owns,
    records_events,
    rule,
    uses,
    writes_status,
)
from gpuruntime.control.permissions.nowhere import NOWHERE
from gpuruntime.control.permissions.resolving import PermissionsError
from gpuruntime.control.permissions.rights import Right
from gpuruntime.control.permissions.roles import permissions_of
from gpuruntime.control.queueing.priorities import LOW_PRIORITY
from gpuruntime.control.queueing.rate_limits import RateLimits
from gpuruntime.control.queueing.workqueue import QueueClosedError, WorkQueue
from gpuruntime.control.serving.limits import HttpLimits
from gpuruntime.control.serving.site import HttpAddress, ListenError
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
    "NOWHERE",
    "BeingDeletedError",
    "Cache",
    "CacheError",
    "Cause",
    "Change",
    "Channel",
    "Context",
    "Controller",
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
    "PermissionsError",
    "Predicate",
    "QuarantinedError",
    "QueueClosedError",
    "RateLimits",
    "ReconcileFields",
    "ReconcileTimeoutError",
    "Reconciler",
    "Recorder",
    "Result",
    "Right",
    "Source",
    "StaleCacheError",
    "StaleOwnerError",
    "Storage",
    "Store",
    "TerminalError",
    "Timer",
    "Trigger",
    "WaitTimeoutError",
    "Watch",
    "WorkQueue",
    "WriteRefusedError",
    "Writer",
    "add_finalizer",
    "add_log_fields",
    "all_of",
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
    "finalizes",
    "generation_changed",
    "itself",
    "labels_changed",
    "mapped",
    "matching",
    "negated",
    "owner",
    "owns",
    "permissions_of",
    "projected",
    "records_events",
    "remove_finalizer",
    "resource_version_changed",
    "rule",
    "uses",
    "wait_for",
    "with_finalizer",
    "write_status",
    "writes_status",
]
