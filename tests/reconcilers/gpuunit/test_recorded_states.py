"""The verdict on units, by states of pods that were recorded on a real node: see `hack/record_pod_states.py`."""

from itertools import groupby

import pytest

from gpuruntime.api import reasons
from tests.reconcilers.gpuunit.recorded_states import Moment, played, recordings

CRASHES = ["answer-then-crash", "crash-after-four-seconds", "crash-at-once", "end-without-error", "out-of-memory"]


def reasons_of(name: str) -> list[str]:
    """The reasons of a unit, one after another."""
    return [reason for reason, _ in groupby(moment.ready.reason for moment in played(name))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("healthy", [reasons.UNIT_PROGRESSING, reasons.UNIT_READY]),
        ("crash-at-once", [reasons.UNIT_PROGRESSING, reasons.CRASH_LOOPING]),
        ("end-without-error", [reasons.UNIT_PROGRESSING, reasons.CRASH_LOOPING]),
        (
            "crash-after-four-seconds",
            [reasons.UNIT_PROGRESSING, reasons.UNIT_READY, reasons.UNIT_PROGRESSING, reasons.CRASH_LOOPING],
        ),
        (
            "answer-then-crash",
            [reasons.UNIT_PROGRESSING, reasons.UNIT_READY, reasons.UNIT_PROGRESSING, reasons.CRASH_LOOPING],
        ),
        ("recover-at-the-third-start", [reasons.UNIT_PROGRESSING, reasons.CRASH_LOOPING, reasons.UNIT_READY]),
        ("command-missing", [reasons.UNIT_PROGRESSING, reasons.POD_STARTUP_FAILED]),
        ("out-of-memory", [reasons.UNIT_PROGRESSING, reasons.OUT_OF_MEMORY]),
        ("probe-not-found", [reasons.UNIT_PROGRESSING]),
        ("probe-refused-then-ready", [reasons.UNIT_PROGRESSING, reasons.UNIT_READY]),
        (
            "image-missing-then-published",
            [reasons.UNIT_PROGRESSING, reasons.IMAGE_PULL_FAILED, reasons.UNIT_PROGRESSING, reasons.UNIT_READY],
        ),
    ],
)
def test_one_trouble_has_one_reason(name: str, expected: list[str]) -> None:
    assert reasons_of(name) == expected


def test_every_recording_is_played() -> None:
    assert len(recordings()) == 11


@pytest.mark.parametrize("name", CRASHES)
def test_a_unit_that_ended_is_never_ready_again_while_it_goes_on_ending(name: str) -> None:
    after = [moment for moment in played(name) if moment.ends]

    recorded = [moment for moment in after if moment.ends < after[-1].ends]

    assert after[-1].ends >= 4
    assert {moment.ready.status for moment in recorded} == {"False"}


@pytest.mark.parametrize("name", CRASHES)
def test_each_end_is_one_write(name: str) -> None:
    after = [moment for moment in played(name) if moment.ends]

    writes = [len([moment for moment in group if moment.is_written]) for _, group in groupby(after, key=ends)]

    assert max(writes) == 1


def test_a_missing_command_is_written_once() -> None:
    failed = [moment for moment in played("command-missing") if moment.ready.reason == reasons.POD_STARTUP_FAILED]

    assert failed[-1].ends >= 4
    assert [moment.is_written for moment in failed].count(True) == 1
    assert 'exec: "nosuch": executable file not found' in (failed[0].ready.message or "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crash-at-once", "exit code 7: starting no model at /models"),
        ("crash-after-four-seconds", "exit code 1: lost the database"),
        ("answer-then-crash", "exit code 1: worker died"),
        ("out-of-memory", "more memory than it has: loading"),
        ("probe-not-found", "its readiness probe fails: HTTP probe failed with statuscode: 404"),
        ("probe-refused-then-ready", "connect: connection refused"),
        ("image-missing-then-published", "not found"),
    ],
)
def test_the_words_of_the_program_and_of_the_probe_are_quoted(name: str, words: str) -> None:
    assert any(words in (moment.ready.message or "") for moment in played(name))


def ends(moment: Moment) -> int:
    return moment.ends
