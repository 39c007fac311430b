"""Invocations on the wire: their identity, states, subjects and messages. Pure values.

::

    identity   InvocationKey, and the rules of IDs
    states     queued, running, and the five ends
    subjects   the streams and subjects of NATS
    messages   what is stored: a queued request, a run, a result
    archive    what the result store answers
    access     the users of NATS, and what each may do
"""

from gpuruntime.api.invocations.access import (
    ACTIVATOR_USER,
    API_USER,
    BUS_USERS,
    MANAGER_USER,
    RESULT_STORE_USER,
    BusUser,
    authorization,
    inbox_prefix,
)
from gpuruntime.api.invocations.archive import (
    ARCHIVE_AUDIENCE,
    ARCHIVE_PREFIX,
    RESULT_EXPIRED,
    Archive,
    ArchiveCursorError,
    ArchivedInvocation,
    ArchivePage,
    ArchiveQuery,
    ArchiveUnavailableError,
    archive_body_path,
    archive_path,
)
from gpuruntime.api.invocations.identity import (
    INVOCATION_ID,
    InvocationKey,
    belongs_to,
    function_digest,
    generated_for,
    is_invocation_id,
    make_invocation_id,
)
from gpuruntime.api.invocations.messages import (
    METADATA_HEADER,
    MessageError,
    QueuedInvocation,
    ResultRecord,
    RunRecord,
    metadata_headers,
    read_queued,
    read_result,
    read_run,
    request_hash,
)
from gpuruntime.api.invocations.states import FailureClass, InvocationMode, InvocationState
from gpuruntime.api.invocations.subjects import (
    ACTIVATOR_STREAM,
    ARCHIVE_CONSUMER,
    DEAD_LETTERS_STREAM,
    LEASE_KEY_SUBJECT,
    RESULTS_STREAM,
    RUNS_STREAM,
    WORKERS_CONSUMER,
    cancel_subject,
    dead_letter_subject,
    function_stream,
    key_of_subject,
    lease_subject,
    queue_subject,
    result_subject,
    run_subject,
    wake_subject,
)

__all__ = [
    "ACTIVATOR_STREAM",
    "ACTIVATOR_USER",
    "API_USER",
    "ARCHIVE_AUDIENCE",
    "ARCHIVE_CONSUMER",
    "ARCHIVE_PREFIX",
    "BUS_USERS",
    "DEAD_LETTERS_STREAM",
    "INVOCATION_ID",
    "LEASE_KEY_SUBJECT",
    "MANAGER_USER",
    "METADATA_HEADER",
    "RESULTS_STREAM",
    "RESULT_EXPIRED",
    "RESULT_STORE_USER",
    "RUNS_STREAM",
    "WORKERS_CONSUMER",
    "Archive",
    "ArchiveCursorError",
    "ArchivePage",
    "ArchiveQuery",
    "ArchiveUnavailableError",
    "ArchivedInvocation",
    "BusUser",
    "FailureClass",
    "InvocationKey",
    "InvocationMode",
    "InvocationState",
    "MessageError",
    "QueuedInvocation",
    "ResultRecord",
    "RunRecord",
    "archive_body_path",
    "archive_path",
    "authorization",
    "belongs_to",
    "cancel_subject",
    "dead_letter_subject",
    "function_digest",
    "function_stream",
    "generated_for",
    "inbox_prefix",
    "is_invocation_id",
    "key_of_subject",
    "lease_subject",
    "make_invocation_id",
    "metadata_headers",
    "queue_subject",
    "read_queued",
    "read_result",
    "read_run",
    "request_hash",
    "result_subject",
    "run_subject",
    "wake_subject",
]
