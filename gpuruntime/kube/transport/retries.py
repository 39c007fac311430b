"""Retries of requests: which errors, after which delay, and for how long."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, Self, TypeVar

from attrs import field, frozen, validators
from tenacity import AsyncRetrying, RetryCallState

from gpuruntime.kube.errors import (
    KubeError,
    StatusError,
    TooLargeResourceVersionError,
    TooManyRequestsError,
    UnavailableError,
)

__all__ = ["Retrier", "RetryPolicy"]

T = TypeVar("T")

_READ_ATTEMPTS: Final = 3


@frozen
class RetryPolicy:
    """Limits of retries; times are in seconds.

    429, and 5xx with Retry-After, are retried for every verb, up to `attempts` attempts in all. A read without a usable
    response, or of a resource version that the server has not reached yet, has up to 3 attempts. The delay is that of
    Retry-After; else it is random between 0 and a bound that starts at `base` and doubles up to `cap`. All delays of a
    request together last no longer than `budget`.

    Caveat: a server whose storage timed out may have executed the write and still send Retry-After; the retry then
    fails with a conflict.
    """

    attempts: int = field(default=10, validator=validators.ge(1))
    base: float = field(default=0.1, validator=validators.ge(0))
    cap: float = field(default=10.0, validator=validators.ge(0))
    budget: float = field(default=30.0, validator=validators.ge(0))

    @classmethod
    def none(cls) -> Self:
        """No retries: for callers that retry by themselves, such as leader election."""
        return cls(attempts=1)


class Retrier:
    """Runs attempts by a policy. An attempt returns its error as a value."""

    def __init__(self, policy: RetryPolicy, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._policy = policy
        self._sleep = sleep

    async def run(
        self, attempt: Callable[[float], Awaitable[T | KubeError]], method: str, seconds: float
    ) -> T | KubeError:
        """The first outcome that is not retried, or the last one before the deadline.

        `attempt` is called with the seconds that remain of `seconds`. No delay begins that would end after them.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        first = await attempt(seconds)
        # Almost every request ends here, and setting up tenacity costs a tenth of it.
        if not self._is_retried(first, method, 1):
            return first
        made = [first]

        async def once() -> T | KubeError:
            return made.pop() if made else await attempt(deadline - loop.time())

        def is_over(state: RetryCallState) -> bool:
            wait = state.upcoming_sleep
            return state.idle_for + wait > self._policy.budget or loop.time() + wait >= deadline

        retrying = AsyncRetrying(
            sleep=self._sleep,
            retry=lambda state: self._is_retried(_outcome(state), method, state.attempt_number),
            wait=lambda state: self._wait(_outcome(state), state.attempt_number),
            stop=is_over,
            retry_error_callback=_outcome,
        )
        outcome: T | KubeError = await retrying(once)
        return outcome

    def _is_retried(self, outcome: Any, method: str, attempts: int) -> bool:
        if attempts >= self._policy.attempts:
            return False
        if isinstance(outcome, TooLargeResourceVersionError):
            # It has a Retry-After, too, but the server has waited for the version each time, and it may never come.
            return attempts < _READ_ATTEMPTS
        if isinstance(outcome, TooManyRequestsError) or _has_retry_after(outcome):
            return True
        return isinstance(outcome, UnavailableError) and method == "GET" and attempts < _READ_ATTEMPTS

    def _wait(self, outcome: Any, attempts: int) -> float:
        retry_after: float | None = getattr(outcome, "retry_after", None)
        if retry_after:
            return retry_after
        bound = min(self._policy.cap, self._policy.base * 2.0 ** (attempts - 1))
        return random.uniform(0, bound)


def _has_retry_after(outcome: Any) -> bool:
    return (
        isinstance(outcome, StatusError | UnavailableError)
        and (outcome.code or 0) >= 500
        and outcome.retry_after is not None
    )


def _outcome(state: RetryCallState) -> Any:
    # An exception of an attempt, such as its cancellation, is raised here and ends the run.
    return None if state.outcome is None else state.outcome.result()
