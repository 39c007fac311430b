"""What is tried again, after how long, and when to give up."""

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
    """Limits of retrying; times are in seconds.

    An answer of 429, or of 5xx with Retry-After, is tried again for every verb, at most `attempts` times in all. A
    read that got no usable answer, or asked for a version that the server has not seen yet, is tried 3 times in all.
    A wait is what the server asked for; else it is random between 0 and a bound that begins with `base` and doubles up
    to `cap`. All waits of a request together last no longer than `budget`.

    Caveat: a server that timed out on its own storage may have executed the write, and still ask to try again; then
    the second try fails with a conflict.
    """

    attempts: int = field(default=10, validator=validators.ge(1))
    base: float = field(default=0.1, validator=validators.ge(0))
    cap: float = field(default=10.0, validator=validators.ge(0))
    budget: float = field(default=30.0, validator=validators.ge(0))

    @classmethod
    def none(cls) -> Self:
        """One attempt; for callers such as leader election that know better when to try again."""
        return cls(attempts=1)


class Retrier:
    """Runs attempts by a policy. An attempt gives back its error, as a value."""

    def __init__(self, policy: RetryPolicy, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._policy = policy
        self._sleep = sleep

    async def run(
        self, attempt: Callable[[float], Awaitable[T | KubeError]], method: str, seconds: float
    ) -> T | KubeError:
        """The first outcome that is not to be tried again, or the last one before time runs out.

        `attempt` is called with the seconds that are left of `seconds`. A wait that would not end in time is not
        begun.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        first = await attempt(seconds)
        # Almost every request ends here, and to set up retrying costs a tenth of it.
        if not self._is_worth_it(first, method, 1):
            return first
        made = [first]

        async def once() -> T | KubeError:
            return made.pop() if made else await attempt(deadline - loop.time())

        def is_over(state: RetryCallState) -> bool:
            wait = state.upcoming_sleep
            return state.idle_for + wait > self._policy.budget or loop.time() + wait >= deadline

        retrying = AsyncRetrying(
            sleep=self._sleep,
            retry=lambda state: self._is_worth_it(_outcome(state), method, state.attempt_number),
            wait=lambda state: self._wait(_outcome(state), state.attempt_number),
            stop=is_over,
            retry_error_callback=_outcome,
        )
        outcome: T | KubeError = await retrying(once)
        return outcome

    def _is_worth_it(self, outcome: Any, method: str, attempts: int) -> bool:
        if attempts >= self._policy.attempts:
            return False
        if isinstance(outcome, TooLargeResourceVersionError):
            # Asked for, too, but the server has waited for the version itself each time, and it may never come.
            return attempts < _READ_ATTEMPTS
        if isinstance(outcome, TooManyRequestsError) or _is_asked_for(outcome):
            return True
        return isinstance(outcome, UnavailableError) and method == "GET" and attempts < _READ_ATTEMPTS

    def _wait(self, outcome: Any, attempts: int) -> float:
        told: float | None = getattr(outcome, "retry_after", None)
        if told:
            return told
        bound = min(self._policy.cap, self._policy.base * 2.0 ** (attempts - 1))
        return random.uniform(0, bound)


def _is_asked_for(outcome: Any) -> bool:
    return (
        isinstance(outcome, StatusError | UnavailableError)
        and (outcome.code or 0) >= 500
        and outcome.retry_after is not None
    )


def _outcome(state: RetryCallState) -> Any:
    # What an attempt raises, such as its cancellation, is raised here, and ends the run.
    return None if state.outcome is None else state.outcome.result()
