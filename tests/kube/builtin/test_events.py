from gpuruntime.kube.builtin.events import Event, EventSeries, ObjectReference
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.objects import ObjectMeta


def test_an_event_is_encoded_as_the_events_api_expects() -> None:
    event = Event(
        ObjectMeta(name="x.1", namespace="ns"),
        event_time="2026-01-02T03:04:05.000000Z",
        series=EventSeries(2, "2026-01-02T03:04:06.000000Z"),
        reporting_controller="example.org/widgets",
        reporting_instance="widgets-0",
        action="Create",
        reason="Created",
        type="Normal",
        note="created Deployment ns/x",
        regarding=ObjectReference("example.org/v1", "Widget", "ns", "x", "u"),
    )

    encoded = encode(event)

    assert encoded["eventTime"] == "2026-01-02T03:04:05.000000Z"
    assert encoded["series"] == {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}
    assert encoded["reportingController"] == "example.org/widgets"
    assert encoded["regarding"]["apiVersion"] == "example.org/v1"
    assert decode(Event, encoded) == event


def test_an_event_of_the_core_api_round_trips() -> None:
    wire = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "x.1", "namespace": "ns"},
        "eventTime": None,
        "reason": "Pulled",
        "regarding": {"kind": "Pod", "fieldPath": "spec.containers{main}"},
        "deprecatedCount": 1,
        "deprecatedSource": {"component": "kubelet"},
    }

    event = decode(Event, wire)

    assert event.event_time is None
    assert encode(event) == wire
