"""Checks that an object is created and used in one running event loop."""

import asyncio

__all__ = ["require_loop", "require_same_loop"]


def require_loop(what: str) -> asyncio.AbstractEventLoop:
    """Return the running loop; `what` is the object that needs it, for the message.

    Raises:
        RuntimeError: no loop is running; the message says what to do.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"{what} needs a running event loop: create it inside the coroutine passed to asyncio.run"
        ) from None


def require_same_loop(what: str, created_in: asyncio.AbstractEventLoop) -> None:
    """Check that the running loop is the one that `what` was created in.

    Raises:
        RuntimeError: it is another one; the message says what to do.
    """
    if asyncio.get_running_loop() is not created_in:
        raise RuntimeError(f"{what} was created in another event loop: create it in the coroutine that runs it")
