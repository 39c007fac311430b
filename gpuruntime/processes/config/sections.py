"""The sections that configs share, and the base class of all configs. Nothing here needs the API or the reconcilers."""

import logging
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Election, ElectionTiming, HttpAddress, LogFormat
from gpuruntime.desired.storage.rendering import GPU_NODES, StorageRendering
from gpuruntime.kube.builtin.pods import Toleration
from gpuruntime.meta import FrozenDict
from gpuruntime.processes.config.keys import Fault, KeyText, key, keys, section
from gpuruntime.processes.config.notations import (
    ADDRESS,
    BOOLEAN,
    FILE,
    IMAGE,
    LABEL,
    LABEL_NAME,
    NAMESPACE,
    OBJECT_NAME,
    choice,
    count,
    duration,
    show_seconds,
)

__all__ = [
    "LEASE",
    "LeaderElection",
    "LogLevel",
    "LogLook",
    "Logging",
    "ProcessConfig",
    "StorageSection",
    "metrics_bind_address_key",
    "min_ready_seconds_key",
    "workers_key",
]

LEASE: Final = "gpuruntime-controller-manager"
"""The Lease of the process that reconciles. `manager` and `controller-manager` share it, so that one of them leads."""
_MOST_WORKERS: Final = 1000
_LONGEST_MIN_READY: Final = 3600
_SECONDS: Final = duration(least=0.1)


class LogLevel(Enum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLook(Enum):
    """The format of log lines."""

    AUTO = "auto"
    """Text on a terminal, JSON otherwise."""
    JSON = "json"
    TEXT = "text"


_FORMATS: Final[dict[LogLook, LogFormat]] = {LogLook.AUTO: "auto", LogLook.JSON: "json", LogLook.TEXT: "text"}


@frozen
class Logging:
    """Level and format of the log."""

    level: LogLevel = key(choice(LogLevel), LogLevel.INFO, "lowest level that is logged", flag="--log-level")
    format: LogLook = key(
        choice(LogLook), LogLook.AUTO, "format of log lines; auto is text on a terminal, else JSON", flag="--log-format"
    )

    @property
    def level_number(self) -> int:
        return logging.getLevelNamesMapping()[self.level.name]

    @property
    def lines(self) -> LogFormat:
        return _FORMATS[self.format]


@frozen
class LeaderElection:
    """The election of the replica that reconciles."""

    enabled: bool = key(
        BOOLEAN, True, "elect a leader among replicas; false where there is only ever one", flag="--leader-elect"
    )
    lease_name: str = key(OBJECT_NAME, LEASE, "name of the Lease in the system namespace; all processes must share it")
    lease_duration: float = key(
        _SECONDS, 15.0, "time after the last renewal before another replica takes over; whole seconds"
    )
    renew_deadline: float = key(_SECONDS, 10.0, "time that a leader retries a renewal before it stops leading")
    retry_period: float = key(_SECONDS, 2.0, "time between two attempts to acquire or renew the lease")

    def election(self, namespaces: Namespaces) -> Election | None:
        """The election for a manager; None if it is not enabled."""
        timing = ElectionTiming(int(self.lease_duration), self.renew_deadline, self.retry_period)
        return Election(namespaces.system, self.lease_name, timing=timing) if self.enabled else None

    def faults(self) -> Iterator[Fault]:
        lease, renew, retry = map(show_seconds, (self.lease_duration, self.renew_deadline, self.retry_period))
        if self.lease_duration != int(self.lease_duration):
            yield Fault("leaseDuration", f"expected whole seconds, got {lease}")
        if self.renew_deadline >= self.lease_duration:
            yield Fault("renewDeadline", f"expected less than leaseDuration ({lease}), got {renew}")
        if 1.2 * self.retry_period >= self.renew_deadline:
            yield Fault("retryPeriod", f"expected less than renewDeadline ({renew}) / 1.2, got {retry}")


@frozen
class StorageSection:
    """What the operator decides about storages."""

    default_class: str | None = key(
        OBJECT_NAME, None, "StorageClass of storages that name none; without it that of the cluster"
    )
    clone_classes: tuple[str, ...] = keys(
        OBJECT_NAME, (), "StorageClass that clones volumes by dataSource; others are copied by a Job"
    )
    copy_image: str = key(IMAGE, StorageRendering().copy_image, "image that copies and wipes volumes, with a shell")
    node_selector: tuple[str, ...] = keys(
        LABEL, (), "label of the nodes on which a preparation may be the first consumer of its volume"
    )
    tolerations: tuple[str, ...] = keys(
        LABEL_NAME,
        tuple(each.key or "" for each in GPU_NODES),
        "name of a taint that preparations and accessors tolerate",
    )

    @property
    def rendering(self) -> StorageRendering:
        """The settings for the children of storages."""
        labels = (text.partition("=") for text in self.node_selector)
        return StorageRendering(
            self.default_class,
            frozenset(self.clone_classes),
            self.copy_image,
            FrozenDict({name: value for name, _, value in labels}),
            tuple(Toleration(key=name, operator="Exists") for name in self.tolerations),
        )


_NAMESPACES: Final = {
    "instance": KeyText(
        NAMESPACE,
        "namespace of active units; the first is that of requests that name none",
        is_list=True,
        flag="--instance-namespace",
    ),
    "stock": KeyText(
        NAMESPACE,
        "namespace of stock units and pools; the first is that of requests that name none",
        is_list=True,
        flag="--stock-namespace",
    ),
    "system": KeyText(NAMESPACE, "namespace of Operations and of the lease", flag="--system-namespace"),
}


def _namespace_faults(namespaces: Namespaces) -> Iterator[Fault]:
    for name, found in (("instance", namespaces.instance), ("stock", namespaces.stock)):
        if not found:
            yield Fault(name, "expected at least one namespace, got none; leave the key out for the default")
        if len(set(found)) < len(found):
            yield Fault(name, f"expected each namespace once, got {', '.join(found)}")
    for namespace in sorted({*namespaces.instance} & {*namespaces.stock}):
        yield Fault("stock", f"namespace {namespace} is in namespaces.instance too: expected it in one of the two")


@frozen(kw_only=True)
class ProcessConfig:
    """The keys of every process."""

    kubeconfig: Path | None = key(
        FILE,
        None,
        "kubeconfig of the cluster; without it KUBECONFIG, then ~/.kube/config, then the service account of the pod",
    )
    namespaces: Namespaces = section(Namespaces, described=_NAMESPACES, faults=_namespace_faults)
    shutdown_grace: float = key(
        duration(least=1.0), 30.0, "time that everything together gets to stop, a drain delay included"
    )
    logging: Logging = section(Logging)


def workers_key(default: int) -> Any:
    """The key of the number of workers."""
    return key(count(1, _MOST_WORKERS), default, "maximum concurrent reconciles of GPUUnits")


def min_ready_seconds_key(default: int) -> Any:
    """The key of the time for which a unit without a readiness probe has to stay up before it is Ready."""
    return key(
        count(0, _LONGEST_MIN_READY),
        default,
        "minReadySeconds of units that set none and have no readiness probe",
    )


def metrics_bind_address_key(port: int) -> Any:
    """The key of the address of the observability server."""
    return key(
        ADDRESS,
        HttpAddress("127.0.0.1", port),
        "address of /livez, /readyz, /metrics and /debug, which need no credentials",
    )
