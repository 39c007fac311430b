"""Invalid faults are rejected before they are injected."""

from collections.abc import Callable

import pytest

from gpuruntime.testing.faults.definitions import (
    CutAfterBytes,
    CutAfterEvents,
    DelayEvents,
    DelayRequests,
    DieAfterWrites,
    DropRequests,
    FailRequests,
    Fault,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CutAfterBytes(-1),
        lambda: CutAfterEvents(-1),
        lambda: DelayEvents(0),
        lambda: DelayRequests(-1),
        lambda: DieAfterWrites(0),
        lambda: DropRequests(times=0),
        lambda: FailRequests(200),
    ],
)
def test_invalid_numbers_are_rejected(make: Callable[[], Fault]) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()
