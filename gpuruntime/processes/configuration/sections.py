"""Sections that the configs of all processes have."""

import logging
from collections.abc import Iterator
from enum import Enum
from typing import Final

from attrs import frozen

from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpuruntime.control import LogFormat
from gpuruntime.processes.configuration.keys import Fault, key, keys
from gpuruntime.processes.configuration.notations import NAMESPACE, choice
from gpuruntime.processes.places import Places

__all__ = ["LogLevel", "LogLook", "Logging", "Namespaces"]


class LogLevel(Enum):
    """The least important lines that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLook(Enum):
    """How lines look."""

    AUTO = "auto"
    """Text on a terminal, JSON elsewhere."""
    JSON = "json"
    TEXT = "text"


_FORMATS: Final[dict[LogLook, LogFormat]] = {LogLook.AUTO: "auto", LogLook.JSON: "json", LogLook.TEXT: "text"}


@frozen
class Logging:
    """What is logged, and how."""

    level: LogLevel = key(choice(LogLevel), LogLevel.INFO, "the least important lines that are logged")
    format: LogLook = key(choice(LogLook), LogLook.AUTO, "auto is text on a terminal and JSON elsewhere")

    @property
    def level_number(self) -> int:
        return logging.getLevelNamesMapping()[self.level.name]

    @property
    def lines(self) -> LogFormat:
        return _FORMATS[self.format]


@frozen
class Namespaces:
    """Where the product works."""

    instance: tuple[str, ...] = keys(NAMESPACE, (INSTANCE_NAMESPACE,), "where active units are; the first is the usual")
    stock: tuple[str, ...] = keys(NAMESPACE, (STOCK_NAMESPACE,), "where stock units and pools are; the first likewise")
    system: str = key(NAMESPACE, SYSTEM_NAMESPACE, "where Operations and the lease are")

    @property
    def places(self) -> Places:
        return Places(self.instance, self.stock, self.system)

    def faults(self) -> Iterator[Fault]:
        for name, namespaces in (("instance", self.instance), ("stock", self.stock)):
            if not namespaces:
                yield Fault(name, "expected at least one namespace, got none; leave the key out for the usual one")
            if len(set(namespaces)) < len(namespaces):
                yield Fault(name, f"expected each namespace once, got {', '.join(namespaces)}")
        for namespace in self.places.confused:
            yield Fault("stock", f"namespace {namespace} is for active units and for stock: expected one of the two")
