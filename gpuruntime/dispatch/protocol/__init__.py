"""The protocol between a worker's sidecar and an activator: frames on one WebSocket. Pure values.

::

    sidecar                                   activator
      │  GET /v1/worker, bearer token of the pod  │   401 without a valid token, 403 if the pod is no worker
      │  Hello: slots, revision, leases ────────> │
      │ <──────────────────────────────── Welcome │
      │ <──────────────────────────────────── Run │   takes a slot
      │  Heartbeat every few seconds ───────────> │   the activator extends the leases of this worker
      │ <────────────────────────────── Confirmed │   these leases were extended, or are lost
      │  RunResult ─────────────────────────────> │   frees the slot; the sidecar keeps a copy
      │ <────────────────────────────── Committed │   the sidecar forgets lease and copy
      │ <─────────────────────────────────  Cancel │   ends a run; a RunResult follows as ever
      │  Release ───────────────────────────────> │   a run that was not started goes back to the queue
      │  Draining ──────────────────────────────> │   no further Run is sent
      │ <─────────────────────────────────── Drain │   the activator stops: connect to another one when idle

Guarantees:
    - A lease is valid at every activator. A sidecar that lost its connection brings its leases and results to any other
      one in `Hello` and in repeated `RunResult`s.
    - A sidecar sends a `RunResult` again after each reconnect, until it is `Committed`.
    - All times are durations, measured by the monotonic clock of each side.
"""

from gpuruntime.dispatch.protocol.frames import FRAME_LIMIT, PROTOCOL_VERSION, ProtocolError, decode_frame, encode_frame
from gpuruntime.dispatch.protocol.from_activator import (
    ActivatorFrame,
    Cancel,
    Committed,
    Confirmed,
    Drain,
    Run,
    Welcome,
    decode_from_activator,
)
from gpuruntime.dispatch.protocol.from_worker import (
    Draining,
    Heartbeat,
    HeldLease,
    Hello,
    Release,
    RunResult,
    WorkerFrame,
    decode_from_worker,
)

__all__ = [
    "FRAME_LIMIT",
    "PROTOCOL_VERSION",
    "ActivatorFrame",
    "Cancel",
    "Committed",
    "Confirmed",
    "Drain",
    "Draining",
    "Heartbeat",
    "HeldLease",
    "Hello",
    "ProtocolError",
    "Release",
    "Run",
    "RunResult",
    "Welcome",
    "WorkerFrame",
    "decode_frame",
    "decode_from_activator",
    "decode_from_worker",
    "encode_frame",
]
