"""The time by the API server's clock."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.server_time import ServerTime
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing import ClusterAccess

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def test_between_two_responses_the_time_advances_by_a_monotonic_clock() -> None:
    seconds, wrong = 100.0, NOON + timedelta(hours=25)
    clock = ServerTime(monotonic=lambda: seconds, local=lambda: wrong)

    before = clock.known, clock.now()
    clock.note(format_datetime(NOON, usegmt=True))
    seconds += 30.0
    clock.note("")

    assert before == (None, wrong)
    assert (clock.known, clock.now()) == (NOON + timedelta(seconds=30), NOON + timedelta(seconds=30))


@pytest.mark.parametrize("date", ["yesterday", "Tue, 99 Nov 2026 12:00:00 GMT"])
def test_an_invalid_date_is_ignored(date: str) -> None:
    clock = ServerTime(local=lambda: NOON)

    clock.note(date)

    assert (clock.known, clock.now()) == (None, NOON)


async def test_a_transport_learns_the_time_from_the_answers_of_its_server(kube_cluster: ClusterAccess) -> None:
    async with Transport(from_kubeconfig(kube_cluster.kubeconfig), user_agent="tests") as transport:
        before = transport.server_time.known
        await transport.send(Request("GET", "/version"))

        known = transport.server_time.known

    assert before is None
    assert known is not None
    assert abs(known - datetime.now(UTC)) < timedelta(minutes=1)
