"""Things that belong to one event loop, and what to do where there is none or another one."""

import asyncio

__all__ = ["require_loop", "require_same_loop"]


def require_loop(what: str) -> asyncio.AbstractEventLoop:
    """The running loop.

    Raises:
        RuntimeError: there is none; the message says what to do.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"{what} needs a running event loop: make it inside of the coroutine that asyncio.run is given"
        ) from None


def require_same_loop(what: str, made_in: asyncio.AbstractEventLoop) -> None:
    """Refuse to run something in another loop than the one that it was made in.

    Raises:
        RuntimeError: it is another one; the message says what to do.
    """
    if asyncio.get_running_loop() is not made_in:
        raise RuntimeError(f"{what} was made in another event loop: make it in the coroutine that runs it")
