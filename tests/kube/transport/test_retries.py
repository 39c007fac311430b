"""What is tried again, how often and how long, in virtual time."""

import asyncio
from collections.abc import Sequence

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kube.errors import (
    Cause,
    KubeError,
    NotFoundError,
    ServerError,
    Status,
    TooLargeResourceVersionError,
    TooManyRequestsError,
    UnavailableError,
)
from gpuruntime.kube.transport.retries import Retrier, RetryPolicy
from gpuruntime.testing.virtual_time import run_virtual

NO_ANSWER = UnavailableError("reset", outcome_unknown=True)
REFUSED = UnavailableError("refused")
BUSY = TooManyRequestsError(Status(429))
BUSY_7 = TooManyRequestsError(Status(429, retry_after=7.0))
OVERLOADED_2 = UnavailableError("503", code=503, retry_after=2.0, outcome_unknown=True)
BROKEN = ServerError(Status(500))
BROKEN_1 = ServerError(Status(500, retry_after=1.0))
AHEAD_1 = TooLargeResourceVersionError(Status(504, causes=(Cause("ResourceVersionTooLarge"),), retry_after=1.0))
MISSING = NotFoundError(Status(404))


@define
class Played:
    """What became of a script of outcomes; the last one is repeated for ever."""

    result: str | KubeError
    starts: list[float] = field(factory=list)
    left: list[float] = field(factory=list)


def play(
    outcomes: Sequence[str | KubeError],
    method: str = "GET",
    *,
    policy: RetryPolicy = RetryPolicy(),
    seconds: float = 60.0,
    lasting: float = 0.0,
) -> Played:
    played = Played("")

    async def attempt(left: float) -> str | KubeError:
        played.starts.append(asyncio.get_running_loop().time())
        played.left.append(left)
        await asyncio.sleep(lasting)
        return outcomes[min(len(played.starts), len(outcomes)) - 1]

    async def story() -> Played:
        played.result = await Retrier(policy).run(attempt, method, seconds)
        return played

    return run_virtual(story())


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("refusal", "wait"), [(BUSY_7, 7.0), (OVERLOADED_2, 2.0), (BROKEN_1, 1.0)], ids=["429", "503", "500"]
)
def test_the_wait_that_the_server_asks_for_is_kept_for_every_verb(method: str, refusal: KubeError, wait: float) -> None:
    played = play([refusal, refusal, "done"], method)

    assert played.result == "done"
    assert played.starts == [0.0, wait, 2 * wait]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_429_without_a_wait_backs_off_for_ten_attempts(method: str) -> None:
    played = play([BUSY], method)

    waits = [after - before for before, after in zip(played.starts, played.starts[1:], strict=False)]
    assert played.result is BUSY
    assert len(played.starts) == 10
    assert all(wait <= min(10.0, 0.1 * 2**index) + 1e-9 for index, wait in enumerate(waits))


@pytest.mark.parametrize(
    "error", [NO_ANSWER, REFUSED, UnavailableError("502", code=502)], ids=["reset", "refused", "502"]
)
def test_a_read_without_an_answer_is_tried_three_times(error: KubeError) -> None:
    saved, lost = play([error, error, "done"]), play([error])

    assert saved.result == "done"
    assert lost.result is error
    assert len(lost.starts) == 3


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("error", [NO_ANSWER, REFUSED, BROKEN], ids=["reset", "refused", "500"])
def test_a_write_without_an_answer_is_never_repeated(method: str, error: KubeError) -> None:
    played = play([error, "done"], method)

    assert played.result is error
    assert len(played.starts) == 1


@pytest.mark.parametrize("error", [MISSING, BROKEN], ids=["404", "500"])
def test_an_answer_is_an_answer(error: KubeError) -> None:
    assert play([error, "done"]).result is error


def test_a_version_that_never_comes_is_waited_for_three_times() -> None:
    played = play([AHEAD_1], lasting=3.0)

    assert played.result is AHEAD_1
    assert played.starts == [0.0, 4.0, 8.0]


def test_no_retries_means_one_attempt() -> None:
    for error in (BUSY, BUSY_7, NO_ANSWER, BROKEN_1):
        played = play([error, "done"], policy=RetryPolicy.none())

        assert played.result is error
        assert played.starts == [0.0]


def test_the_waits_together_stay_within_the_budget() -> None:
    played = play([BUSY_7], policy=RetryPolicy(budget=20.0))

    assert played.result is BUSY_7
    assert played.starts == [0.0, 7.0, 14.0]


def test_a_wait_that_would_outlast_the_request_is_not_begun() -> None:
    played = play([BUSY_7], seconds=21.0)

    assert played.result is BUSY_7
    assert played.starts == [0.0, 7.0, 14.0]
    assert played.left == [21.0, 14.0, 7.0]


def test_cancellation_during_an_attempt_and_during_a_wait_goes_through() -> None:
    async def attempt(_: float) -> str | KubeError:
        await asyncio.sleep(10)
        return BUSY_7

    async def story(after: float) -> bool:
        task = asyncio.create_task(Retrier(RetryPolicy()).run(attempt, "GET", 60.0))
        await asyncio.sleep(after)
        task.cancel()
        await asyncio.wait((task,))
        return task.cancelled()

    assert run_virtual(story(5.0))
    assert run_virtual(story(15.0))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([NO_ANSWER, REFUSED, BUSY, BUSY_7, OVERLOADED_2, BROKEN, AHEAD_1, MISSING]), min_size=1),
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    st.floats(0.1, 60.0),
    st.floats(0.0, 5.0),
)
def test_no_script_makes_it_wait_past_the_end_or_try_too_often(
    script: list[KubeError], method: str, seconds: float, lasting: float
) -> None:
    played = play(script, method, seconds=seconds, lasting=lasting)

    assert isinstance(played.result, KubeError)
    assert len(played.starts) <= 10
    assert all(left > 0 for left in played.left)
    assert played.starts[-1] - lasting * (len(played.starts) - 1) <= 30.0 + 1e-6
