from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve

from gpuruntime.control.events.series import QUIET_SECONDS, REFRESH_SECONDS, Occurrence, Series
from gpuruntime.kube.builtin.events import EventSeries, ObjectReference
from gpuruntime.meta import encode

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WEB = ObjectReference(api_version="v1", kind="Pod", namespace="shop", name="web", uid="u-1")
NODE = ObjectReference(api_version="v1", kind="Node", name="n1")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def begun(regarding: ObjectReference = WEB, related: ObjectReference | None = None) -> Series:
    first = Occurrence.of(regarding, "Warning", "NoSpace", "Schedule", "no room", related, START)
    return Series(first.key, "web.1", first)


def is_due(series: Series, seconds: float) -> bool:
    return series.is_due(at(seconds).timestamp())


def accept(series: Series, seconds: float) -> None:
    series.accepted(series.tally, at(seconds).timestamp())


def test_the_first_two_occurrences_are_due_at_once_and_the_third_is_not() -> None:
    series = begun()
    due = [is_due(series, 0)]

    for seconds in (0, 1, 2):
        accept(series, seconds)
        due.append(is_due(series, seconds))
        series.observe("no room", at(seconds + 1))
        due.append(is_due(series, seconds + 1))

    assert due == [True, False, True, False, False, False, False]


def test_later_occurrences_are_due_half_an_hour_after_the_last_delivery() -> None:
    series = begun()
    series.observe("no room", at(1))
    accept(series, 1)
    series.observe("no room", at(REFRESH_SECONDS))

    assert not is_due(series, REFRESH_SECONDS)
    assert is_due(series, REFRESH_SECONDS + 1)


def test_later_occurrences_are_due_once_the_series_is_quiet() -> None:
    series = begun()
    series.observe("no room", at(1))
    accept(series, 1)
    series.observe("no room", at(10))

    assert not is_due(series, 10 + QUIET_SECONDS - 1)
    assert is_due(series, 10 + QUIET_SECONDS)


def test_a_series_is_over_when_it_is_quiet_and_delivered() -> None:
    series = begun()
    undelivered = series.is_over(at(QUIET_SECONDS).timestamp())

    accept(series, 0)

    assert not undelivered
    assert not series.is_over(at(QUIET_SECONDS - 1).timestamp())
    assert series.is_over(at(QUIET_SECONDS).timestamp())


def test_a_refused_state_is_not_delivered_again_but_later_occurrences_are() -> None:
    series = begun()
    series.refused(series.tally, at(0).timestamp())
    alone = is_due(series, QUIET_SECONDS)

    series.observe("no room", at(1))

    assert not alone
    assert not is_due(series, 1)
    assert is_due(series, 1 + QUIET_SECONDS)


def test_a_single_event_has_no_series_on_the_wire() -> None:
    series = begun(related=NODE)

    event = series.event(series.tally, "example.org/scheduler", "scheduler-0")

    assert encode(event) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "shop"},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "example.org/scheduler",
        "reportingInstance": "scheduler-0",
        "action": "Schedule",
        "reason": "NoSpace",
        "type": "Warning",
        "note": "no room",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "u-1"},
        "related": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_an_event_that_recurs_before_its_delivery_is_created_with_its_count() -> None:
    series = begun()
    series.observe("still no room", at(7))

    event = series.event(series.tally, "scheduler", "scheduler-0")

    assert event.series == EventSeries(2, "2026-01-02T03:04:12.000000Z")
    assert (event.note, event.event_time) == ("still no room", "2026-01-02T03:04:05.000000Z")


def test_an_aggregated_series_has_no_related_object() -> None:
    first = Occurrence.of(WEB, "Normal", "Bound", "Bind", "bound", NODE, START)
    series = Series(evolve(first.key, related=None), "web.1", first)

    assert series.event(series.tally, "scheduler", "scheduler-0").related is None


@pytest.mark.parametrize(("regarding", "namespace"), [(WEB, "shop"), (NODE, "default")])
def test_an_event_is_in_the_namespace_of_its_object_or_in_default(regarding: ObjectReference, namespace: str) -> None:
    assert begun(regarding).namespace == namespace


def test_a_note_counts_as_changed_unless_the_server_has_it() -> None:
    series = begun()
    unknown = series.note_changed(series.tally)
    accept(series, 0)
    same = series.note_changed(series.tally)

    series.observe("another", at(1))

    assert (unknown, same, series.note_changed(series.tally)) == (True, False, True)
    assert series.patch(series.tally) == {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}}
