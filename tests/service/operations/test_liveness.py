"""Waiting for an API server that may be down, in virtual time."""

import asyncio
from collections.abc import Sequence

import pytest

from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.service.operations.liveness import Liveness
from gpuruntime.testing.virtual_time import run_virtual


def after(seconds: float) -> "asyncio.Future[None]":
    """Work of this duration."""
    return asyncio.ensure_future(asyncio.sleep(seconds))


async def answering(transport: Transport, codes: Sequence[str]) -> None:
    """A server that answers other requests with these codes, one a second."""
    for code in codes:
        await asyncio.sleep(1)
        transport._counts[code, "GET"] += 1


async def waited(work: float, codes: Sequence[str] = (), within: float = 60.0) -> tuple[bool | str, float]:
    """The result of waiting for some work, and when it came."""
    transport = Transport(OFFLINE_CREDENTIALS, user_agent="tests")
    server, future = asyncio.create_task(answering(transport, codes)), after(work)
    try:
        outcome: bool | str = await Liveness(transport).wait(future, within)
    except UnavailableError as error:
        outcome = str(error)
    at = asyncio.get_running_loop().time()
    for task in (server, future):
        task.cancel()
    return outcome, round(at, 3)


@pytest.mark.parametrize(
    ("work", "codes", "expected"),
    [
        pytest.param(2.0, [], (True, 2.0), id="done early"),
        pytest.param(9.0, [], ("the API server has answered no request for 3 s", 3.0), id="a server that is down"),
        pytest.param(9.0, ["200", "409", "404"] * 3, (True, 9.0), id="a server that answers other requests"),
        pytest.param(99.0, ["200"] * 99, (False, 60.0), id="work that takes too long"),
        pytest.param(
            9.0, ["200", "201"], ("the API server has answered no request for 3 s", 5.0), id="a server that dies"
        ),
        pytest.param(
            9.0,
            ["429", "503", "<error>"] * 3,
            ("the API server has answered no request for 3 s", 3.0),
            id="errors are no answers",
        ),
    ],
)
def test_a_caller_waits_as_long_as_the_server_answers_any_request(
    work: float, codes: list[str], expected: tuple[bool | str, float]
) -> None:
    assert run_virtual(waited(work, codes)) == expected


def test_a_timeout_does_not_cancel_the_work() -> None:
    async def story() -> tuple[bool, bool]:
        future = after(5.0)
        is_done = await Liveness(Transport(OFFLINE_CREDENTIALS, user_agent="tests")).wait(future, 0.5)
        is_cancelled = future.cancelled()
        future.cancel()
        return is_done, is_cancelled

    assert run_virtual(story()) == (False, False)
