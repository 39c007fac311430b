import gc
from collections.abc import Iterator

import pytest

from gpuruntime.aio.collector import collect_rarely, relaxed_collector


@pytest.fixture(autouse=True)
def restored_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_inside_and_as_before_outside() -> None:
    gc.set_threshold(700, 10, 10)

    with relaxed_collector():
        inside = gc.get_threshold()

    assert inside == (50_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_of_overlapping_blocks_restores() -> None:
    gc.set_threshold(700, 10, 10)
    first, second = relaxed_collector(), relaxed_collector()

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    between = gc.get_threshold()
    second.__exit__(None, None, None)

    assert between == (50_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [0, 100_000])
def test_custom_thresholds_are_not_changed(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)

    with relaxed_collector():
        assert gc.get_threshold() == (chosen, 10, 10)


def test_a_controller_process_collects_rarely() -> None:
    gc.set_threshold(700, 10, 10)

    collect_rarely()

    assert gc.get_threshold() == (50_000, 20, 50)


@pytest.mark.parametrize("chosen", [0, 100_000])
def test_custom_thresholds_are_not_changed_for_good(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)

    collect_rarely()

    assert gc.get_threshold() == (chosen, 10, 10)
