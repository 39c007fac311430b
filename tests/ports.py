"""Ports for processes that a test starts."""

from typing import Final

from gpuruntime.testing.processes.free_port import free_port

__all__ = ["free_address", "free_port"]

_HOST: Final = "127.0.0.1"


def free_address() -> str:
    """An address on this machine with a free port."""
    return f"{_HOST}:{free_port()}"
