"""The request log of a proxy: every request with the status of its response, and a stable name for each request."""

import asyncio
import json
from typing import Self

from attrs import evolve, frozen

from gpuruntime.testing.change_signal import ChangeSignal

__all__ = ["Call", "Exchange", "ExchangeLog", "is_write", "name_in"]

_WRITING_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Created by POST, but never stored.
_REVIEWS = frozenset(
    {
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
)


@frozen
class Call:
    """The name of a request: the `number`th of its method and resource since the proxy started, from 1.

    The method of a watch is `WATCH`. A program that does the same work twice makes the same calls, even if its tasks
    interleave differently.
    """

    method: str
    resource: str
    number: int

    def __str__(self) -> str:
        return f"{self.method} {self.resource} #{self.number}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`.

        Raises:
            ValueError: the text has another form.
        """
        match text.split(" "):
            case [method, resource, number] if number.startswith("#") and number[1:].isdecimal():
                return cls(method, resource, int(number[1:]))
        raise ValueError(f"expected a call such as 'POST configmaps #2', got {text!r}")


@frozen
class Exchange:
    """A request, the name of its object if there is one, and the status of the response.

    `status` is None until the server has answered, and stays None if the request never reached it or it never answered.
    `at` is the loop time of the request.
    """

    call: Call
    name: str
    write: bool
    at: float
    status: int | None = None

    @property
    def accepted(self) -> bool:
        return self.status is not None and self.status < 400

    def __str__(self) -> str:
        return f"{self.call.method} {self.call.resource} {self.name}".rstrip()


class ExchangeLog:
    """The exchanges of one proxy; each request and each response is announced on `changes`."""

    def __init__(self, changes: ChangeSignal) -> None:
        self._changes = changes
        self._exchanges: list[Exchange] = []
        self._writes: list[Exchange] = []

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All exchanges, in the order of their requests."""
        return tuple(self._exchanges)

    @property
    def writes(self) -> tuple[Exchange, ...]:
        """The writes that the server accepted, in the order of its responses."""
        return tuple(self._writes)

    def begin(self, call: Call, name: str, *, write: bool) -> int:
        """Log a request; returns the number to log its response with."""
        self._exchanges.append(Exchange(call, name, write, asyncio.get_running_loop().time()))
        self._changes.announce()
        return len(self._exchanges) - 1

    def answered(self, number: int, status: int) -> None:
        done = evolve(self._exchanges[number], status=status)
        self._exchanges[number] = done
        if done.write and done.accepted:
            self._writes.append(done)
        self._changes.announce()


def is_write(method: str, resource: str, *, dry_run: bool) -> bool:
    """Whether such a request changes the cluster if it is accepted."""
    return method in _WRITING_METHODS and not dry_run and resource not in _REVIEWS


def name_in(path: str, resource: str, body: bytes) -> str:
    """The name of the object in a request, from the path or the body of a creation; "" if there is none."""
    plural = resource.partition("/")[0]
    before, found, after = path.rpartition(f"/{plural}/")
    if found and before:
        return after.partition("/")[0]
    try:
        metadata = json.loads(body)["metadata"]
        return str(metadata.get("name") or f"{metadata['generateName']}*")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""  # no object, or one in protobuf
