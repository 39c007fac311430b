"""Conditional writes: an object is read, a decision is made, and the write fails if the object has changed since."""

from typing import Final

from gpuruntime.kube import UnavailableError

__all__ = ["ATTEMPTS", "changed_each_time"]

ATTEMPTS: Final = 10
"""How many times a conditional write is tried, each time after a new read, before it is left to a later attempt."""


def changed_each_time(what: str) -> UnavailableError:
    """The error of a write that met a conflict in every attempt."""
    return UnavailableError(f"{what} changed during each of {ATTEMPTS} attempts; the rest is done later")
