from datetime import UTC, datetime, timedelta

import pytest

from gpuruntime.bus import ConsumerInfo
from gpuruntime.service.invocations.pace import place_in_queue, seconds_until_room

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def info(delivered: int, pending: int = 0, after: float = 0.0) -> ConsumerInfo:
    return ConsumerInfo("FN", "workers", 0, pending, 0, 0, delivered, 0, {}, NOON + timedelta(seconds=after))


@pytest.mark.parametrize(("sequence", "place"), [(11, 1), (12, 2), (110, 100), (10, 1), (3, 1)])
def test_the_place_counts_from_what_was_delivered(sequence: int, place: int) -> None:
    assert place_in_queue(info(10), sequence) == place


@pytest.mark.parametrize(
    ("before", "now", "seconds"),
    [
        (None, info(10), 30),
        (info(10), info(10, after=1), 30),
        (info(0), info(10, after=1), 10),
        (info(0), info(1000, after=1), 1),
        (info(0), info(1, after=60), 60),
        (info(10, pending=5), info(15, pending=10, after=1), 30),
    ],
    ids=["no sample before", "standstill", "ten a second", "fast", "slow", "delivered and not ended"],
)
def test_the_time_until_there_is_room_follows_the_pace(
    before: ConsumerInfo | None, now: ConsumerInfo, seconds: float
) -> None:
    assert seconds_until_room(now, before, 10_000) == seconds
