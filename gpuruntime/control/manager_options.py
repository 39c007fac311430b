"""Options of a manager, validated where they are given."""

import socket
import uuid

from attrs import Attribute, field, frozen

from gpuruntime.control.leadership.election_terms import ElectionTiming
from gpuruntime.control.option_checks import above_zero, not_negative
from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.meta.names import LABEL_LIMIT, SUBDOMAIN_LIMIT, is_dns_label, is_dns_subdomain

__all__ = ["Election", "ManagerOptions"]


def _namespace(_election: object, attribute: "Attribute[str]", value: str) -> None:
    if not is_dns_label(value):
        raise ValueError(
            f"Election.{attribute.name}: expected the name of a namespace, lower-case letters, digits and '-',"
            f" {LABEL_LIMIT} characters at most, such as 'widgets-system', got {value!r}"
        )


def _lease_name(_election: object, attribute: "Attribute[str]", value: str) -> None:
    if not is_dns_subdomain(value):
        raise ValueError(
            f"Election.{attribute.name}: expected the name of a Lease, lower-case letters, digits, '-' and '.',"
            f" {SUBDOMAIN_LIMIT} characters at most, such as 'widget-operator', got {value!r}"
        )


def _identity(_election: object, attribute: "Attribute[str]", value: str) -> None:
    if not value:
        raise ValueError(f"Election.{attribute.name}: expected a name that is unique to this process, got an empty one")


@frozen
class Election:
    """The Lease that decides which replica leads. The identity is unique to this process."""

    namespace: str = field(validator=_namespace)
    name: str = field(validator=_lease_name)
    identity: str = field(factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}", validator=_identity)
    timing: ElectionTiming = field(factory=ElectionTiming)


@frozen
class ManagerOptions:
    """Options of a manager.

    Args:
        name: the field manager, the user agent and the name in events: a word such as "widget-operator".
        http: where probes, metrics and debug pages are served; None serves none.
        election: without it, the process leads as soon as it runs.
        grace: seconds for the whole shutdown.
        drain: seconds of the grace for which a stopping manager is not ready, and serves on: load balancers need time
            to notice.
        signals: stop on SIGTERM and SIGINT, and exit at once on a second one. Off, because the loop may belong to an
            application.
        stall: seconds after which a blocked loop is reported.
        stream_lists: informers request streamed lists (WatchList) instead of pages. It takes longer, but puts less load
            on the etcd of servers before 1.34.
    """

    name: str
    http: HttpAddress | None = None
    election: Election | None = None
    grace: float = field(default=30.0, validator=not_negative)
    drain: float = field(default=0.0, validator=not_negative)
    signals: bool = False
    stall: float = field(default=0.25, validator=above_zero)
    stream_lists: bool = False
