"""Who may do what in NATS: one user for each process, with the subjects that it needs and no others.

Tests, `./hack/up` and the manifests all render these values. A process has inboxes of its own, so no other user reads
its answers. Names of streams cannot have wildcards in permissions: "every stream but these" is an allowed pattern and
denied names.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.invocations.subjects import (
    ACTIVATOR_STREAM,
    ARCHIVE_CONSUMER,
    DEAD_LETTERS_STREAM,
    RESULTS_STREAM,
    RUNS_STREAM,
    WORKERS_CONSUMER,
)

__all__ = [
    "ACTIVATOR_USER",
    "API_USER",
    "BUS_USERS",
    "MANAGER_USER",
    "RESULT_STORE_USER",
    "BusUser",
    "authorization",
    "inbox_prefix",
]

_API: Final = "$JS.API"
_STATE_STREAMS: Final = (ACTIVATOR_STREAM, RESULTS_STREAM, DEAD_LETTERS_STREAM, RUNS_STREAM)


def inbox_prefix(user: str) -> str:
    """What all inboxes of a user begin with."""
    return f"_INBOX.{user}"


@frozen
class BusUser:
    """A user of NATS: the subjects that it may publish and subscribe to, and exceptions from these."""

    name: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    deny_publish: tuple[str, ...] = ()

    def permissions(self) -> dict[str, Any]:
        """The permissions as the server's configuration has them."""
        publish: dict[str, Any] = {"allow": sorted(self.publish)}
        if self.deny_publish:
            publish["deny"] = sorted(self.deny_publish)
        return {"publish": publish, "subscribe": {"allow": sorted(self.subscribe)}}


API_USER: Final = BusUser(
    "runtime-api",
    publish=(
        "inv.>",  # accept
        "res.>",  # cancel, and expire on read
        "dlq.>",
        "cancel.>",
        "wake.>",
        f"{inbox_prefix('runtime-api')}.>",  # a cancelled call that another replica waits for
        f"{_API}.INFO",
        f"{_API}.STREAM.INFO.*",
        f"{_API}.STREAM.MSG.GET.*",
        f"{_API}.STREAM.MSG.DELETE.*",
        f"{_API}.STREAM.PURGE.*",
        f"{_API}.DIRECT.GET.>",
        f"{_API}.CONSUMER.INFO.*.{WORKERS_CONSUMER}",
    ),
    deny_publish=(
        f"{_API}.STREAM.MSG.GET.{ACTIVATOR_STREAM}",
        f"{_API}.DIRECT.GET.{ACTIVATOR_STREAM}",
        f"{_API}.DIRECT.GET.{ACTIVATOR_STREAM}.>",
        *(f"{_API}.STREAM.MSG.DELETE.{name}" for name in _STATE_STREAMS),
        *(f"{_API}.STREAM.PURGE.{name}" for name in _STATE_STREAMS),
    ),
    subscribe=(f"{inbox_prefix('runtime-api')}.>", "res.>"),
)
"""Accepts, reads and cancels invocations. It never sees the key of leases, and deletes queued requests only."""

ACTIVATOR_USER: Final = BusUser(
    "activator",
    publish=(
        "res.>",
        "dlq.>",
        "run.>",
        "lease.>",
        "cancel.>",
        "wake.>",
        "activator.>",
        f"{inbox_prefix('activator')}.>",
        f"{inbox_prefix('runtime-api')}.>",  # answers to synchronous calls
        f"{_API}.INFO",
        f"{_API}.STREAM.NAMES",
        *(f"{_API}.STREAM.{act}.*" for act in ("CREATE", "UPDATE", "DELETE", "INFO", "PURGE")),
        f"{_API}.STREAM.MSG.GET.*",
        f"{_API}.STREAM.MSG.DELETE.*",
        f"{_API}.DIRECT.GET.>",
        *(f"{_API}.CONSUMER.{act}.>" for act in ("CREATE", "DELETE", "INFO")),
        f"{_API}.CONSUMER.MSG.NEXT.*.{WORKERS_CONSUMER}",
        f"$JS.ACK.*.{WORKERS_CONSUMER}.>",
    ),
    deny_publish=tuple(
        f"{_API}.STREAM.{act}.{name}"
        for act in ("DELETE", "PURGE", "MSG.DELETE")
        for name in (ACTIVATOR_STREAM, RESULTS_STREAM, DEAD_LETTERS_STREAM)
    ),
    subscribe=(f"{inbox_prefix('activator')}.>", "lease.>", "cancel.>", "wake.>"),
)
"""Makes streams and consumers, runs invocations and ends them. It never deletes a result."""

RESULT_STORE_USER: Final = BusUser(
    "result-store",
    publish=(
        f"{inbox_prefix('result-store')}.>",
        f"{_API}.INFO",
        f"{_API}.STREAM.INFO.{RESULTS_STREAM}",
        f"{_API}.STREAM.MSG.GET.{RESULTS_STREAM}",
        f"{_API}.DIRECT.GET.{RESULTS_STREAM}",
        f"{_API}.DIRECT.GET.{RESULTS_STREAM}.>",
        f"{_API}.CONSUMER.INFO.{RESULTS_STREAM}.{ARCHIVE_CONSUMER}",
        f"{_API}.CONSUMER.MSG.NEXT.{RESULTS_STREAM}.{ARCHIVE_CONSUMER}",
        f"$JS.ACK.{RESULTS_STREAM}.{ARCHIVE_CONSUMER}.>",
    ),
    subscribe=(f"{inbox_prefix('result-store')}.>",),
)
"""Reads results, and nothing else."""


def _union(name: str, users: Iterable[BusUser]) -> BusUser:
    """One process that does the work of several. Exceptions of one are rights of another, so it has none."""
    users = tuple(users)
    inbox = f"{inbox_prefix(name)}.>"
    return BusUser(
        name,
        publish=(inbox, *sorted({subject for user in users for subject in user.publish})),
        subscribe=(inbox, *sorted({subject for user in users for subject in user.subscribe})),
    )


MANAGER_USER: Final = _union("manager", (API_USER, ACTIVATOR_USER, RESULT_STORE_USER))
"""The process `manager`, which runs all of them."""

BUS_USERS: Final = (API_USER, ACTIVATOR_USER, RESULT_STORE_USER, MANAGER_USER)


def authorization(passwords: Mapping[str, str], users: Iterable[BusUser] = BUS_USERS) -> dict[str, Any]:
    """The section `authorization` of the server's configuration, with these passwords by the names of users."""
    return {
        "users": [
            {"user": user.name, "password": passwords[user.name], "permissions": user.permissions()} for user in users
        ]
    }
