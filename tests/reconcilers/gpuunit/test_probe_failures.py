"""What an event of a kubelet says about a probe."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import pytest

from gpuruntime.kube import Client, Form, ObjectList, UnavailableError
from gpuruntime.kube.builtin.events import Event
from gpuruntime.meta import DynamicObject
from gpuruntime.reconcilers.gpuunit.probe_failures import (
    LIST_SECONDS,
    ProbeAnswers,
    ProbeFailure,
    ProbeFailures,
    latest_answer,
    summarize_event,
)
from gpuruntime.reconcilers.pod_summary import ContainerSummary, PodSummary
from gpuruntime.testing.virtual_time import run_virtual

T = TypeVar("T")
REFUSED = "connect: connection refused"
NOT_FOUND = "HTTP probe failed with statuscode: 404"


def event(note: str, **times: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "unit-a-1-x.17",
            "namespace": "apps",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reason": "Unhealthy",
        "note": note,
        "regarding": {"kind": "Pod", "name": "unit-a-1-x"},
        **times,
    }


@pytest.mark.parametrize(
    ("note", "answer"),
    [
        (f"Readiness probe failed: {NOT_FOUND}", NOT_FOUND),
        ("Readiness probe failed: \n", ""),
        ("Readiness probe errored and resulted in unknown state: no such command", "no such command"),
        ("Readiness probe warning: x", "warning: x"),
        ("Liveness probe failed: HTTP probe failed with statuscode: 500", ""),
        ("", ""),
    ],
)
def test_the_answer_of_a_readiness_probe_is_kept(note: str, answer: str) -> None:
    assert summarize_event(event(note)) == ProbeFailure("unit-a-1-x", answer, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({"deprecatedLastTimestamp": "2026-01-01T00:02:00Z", "eventTime": None}, "2026-01-01T00:02:00Z"),
        ({"eventTime": "2026-01-01T00:01:00.000000Z"}, "2026-01-01T00:01:00.000000Z"),
        (
            {"eventTime": "2026-01-01T00:01:00.000000Z", "series": {"lastObservedTime": "2026-01-01T00:03:00.000000Z"}},
            "2026-01-01T00:03:00.000000Z",
        ),
    ],
)
def test_the_last_time_of_a_repeated_event_counts(times: dict[str, object], at: str) -> None:
    assert summarize_event(event(f"Readiness probe failed: {REFUSED}", **times)).at == at


def test_the_latest_answer_since_the_start_of_the_container_counts() -> None:
    failures = [
        ProbeFailure("a", "of an earlier container", "2026-01-01T00:00:09Z"),
        ProbeFailure("a", NOT_FOUND, "2026-01-01T00:00:30.500000Z"),
        ProbeFailure("a", REFUSED, "2026-01-01T00:00:20Z"),
        ProbeFailure("a", "", "2026-01-01T00:00:40Z"),
    ]

    assert latest_answer(failures, since="2026-01-01T00:00:10Z") == NOT_FOUND
    assert latest_answer(failures[:1], since="2026-01-01T00:00:10Z") == ""


class Lists:
    """A client that lists these events, and notes when it is asked; None is refused."""

    def __init__(self, *events: dict[str, Any] | None) -> None:
        self.events = events
        self.asked: list[tuple[str, float]] = []

    async def pages(self, form: Form[DynamicObject], namespace: str, *, fields: str) -> AsyncIterator[Any]:
        assert (form.kind, "reason=Unhealthy" in fields) == (Event.KIND, True)
        self.asked.append((namespace, asyncio.get_running_loop().time()))
        await asyncio.sleep(0.1)
        if None in self.events:
            raise UnavailableError("refused")
        yield ObjectList(tuple(DynamicObject.decode(Event.KIND, raw) for raw in self.events), "7")


def running(name: str, **fields: Any) -> PodSummary:
    container = ContainerSummary("runtime-worker", started_at="2026-01-01T00:00:00Z")
    return PodSummary(name, containers=(container,), **fields)


def asked(lists: Lists, story: Callable[[ProbeFailures], Coroutine[Any, Any, T]]) -> T:
    """The outcome of a story in virtual time."""

    async def played() -> T:
        return await story(ProbeFailures(cast("Client", lists), asyncio.get_running_loop().time))

    return run_virtual(played())


def after(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "pod",
    [
        PodSummary("unit-a-1-x"),
        running("unit-a-1-x", is_ready=True, ready_at="2026-01-01T00:00:01Z"),
        running("unit-a-1-x", is_ending=True),
    ],
)
def test_a_pod_that_does_not_wait_for_its_probe_costs_nothing(pod: PodSummary) -> None:
    lists = Lists()

    found = asked(lists, lambda probes: probes.answers("apps", [pod], after(60)))

    assert (found, lists.asked) == (ProbeAnswers(), [])


def test_a_pod_gets_three_seconds_to_become_ready() -> None:
    lists = Lists(event(f"Readiness probe failed: {REFUSED}"))

    early = asked(lists, lambda probes: probes.answers("apps", [running("unit-a-1-x")], after(1)))
    in_time = asked(lists, lambda probes: probes.answers("apps", [running("unit-a-1-x")], after(3)))

    assert early == ProbeAnswers(recheck_seconds=2.0)
    assert in_time == ProbeAnswers({"unit-a-1-x": REFUSED}, recheck_seconds=60.0)


def test_all_pods_of_a_namespace_share_a_list_in_fifteen_seconds() -> None:
    lists = Lists(event(f"Readiness probe failed: {REFUSED}"))

    async def story(probes: ProbeFailures) -> list[ProbeAnswers]:
        pods = [running("unit-a-1-x"), running("unit-b-1-x")]
        found: list[ProbeAnswers] = []
        for _ in range(20):
            found += await asyncio.gather(*(probes.answers("apps", [pod], after(60)) for pod in pods))
            await probes.answers("stock", pods, after(60))
            await asyncio.sleep(1)
        return found

    found = asked(lists, story)

    assert found[:2] == [ProbeAnswers({"unit-a-1-x": REFUSED}, 60.0), ProbeAnswers({}, LIST_SECONDS)]
    assert [namespace for namespace, _ in lists.asked] == ["apps", "stock"] * 2


def test_a_server_that_refuses_is_asked_again_after_a_minute_and_breaks_nothing() -> None:
    lists = Lists(None)

    async def story(probes: ProbeFailures) -> list[ProbeAnswers]:
        found = []
        for _ in range(70):
            found.append(await probes.answers("apps", [running("unit-a-1-x")], after(60)))
            await asyncio.sleep(1)
        return found

    found = asked(lists, story)

    assert set(map(repr, found)) == {repr(ProbeAnswers({}, LIST_SECONDS))}
    assert len(lists.asked) == 2
