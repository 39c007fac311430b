"""What is noted of which write: in virtual time, on a wire that gives one answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.controllers.journal import Journal, JournalingTransport, Written
from gpuruntime.kube.errors import ConflictError, KubeError, ServerError, Status, UnavailableError
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import answer

PODS = "/api/v1/namespaces/a/pods"
UNKNOWN = Written(PODS, "unknown")


@define
class OneAnswer:
    """Answers every request with the same after a second, and ignores options."""

    outcome: Response | Exception
    requests: list[Request] = field(factory=list)

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(1)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def stream(self, request: Request, *, idle_timeout: float) -> Any:
        return (request, idle_timeout)


def stored(version: str = "5", **metadata: Any) -> Response:
    return answer({"metadata": {"name": "x", "namespace": "a", "uid": "u", "resourceVersion": version, **metadata}})


def noted(method: str, path: str, outcome: Response | Exception, **options: Any) -> list[Written]:
    """The traces that one write leaves, whether it fails or not."""

    async def story() -> list[Written]:
        journal, transport = Journal(), JournalingTransport(OneAnswer(outcome))
        with journal.recording("key"):
            if isinstance(outcome, Exception):
                with pytest.raises(type(outcome)):
                    await transport.send(Request(method, path, **options))
            else:
                assert await transport.send(Request(method, path, **options)) is outcome
        return list(journal.traces("key"))

    return run_virtual(story())


def present(version: str = "5", collection: str = PODS) -> Written:
    return Written(collection, "present", ObjectKey("a", "x"), "u", version, labels={})


GONE = Written(PODS, "gone", ObjectKey("a", "x"), "u", "5", labels={})
DELETED = answer({"kind": "Status", "status": "Success", "details": {"name": "x", "uid": "u"}})
ENDING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("method", "path", "outcome", "expected"),
    [
        ("POST", PODS, stored(), present()),
        ("PUT", f"{PODS}/x", stored(), present()),
        ("PATCH", f"{PODS}/x/status", stored(), present()),
        ("PATCH", f"{PODS}/x/status", stored(labels={"app": "x"}), evolve(present(), labels={"app": "x"})),
        ("PUT", f"{PODS}/x/scale", stored(), evolve(present(), labels=None)),
        ("PUT", f"{PODS}/x", stored(**ENDING, finalizers=["f"]), present()),
        ("PUT", f"{PODS}/x", stored(**ENDING, deletionGracePeriodSeconds=30), present()),
        ("PUT", f"{PODS}/x", stored(**ENDING, deletionGracePeriodSeconds=0), evolve(GONE, labels=None)),
        ("DELETE", f"{PODS}/x", stored(**ENDING, finalizers=["f"]), present()),
        ("DELETE", f"{PODS}/x", stored(**ENDING, deletionGracePeriodSeconds=30), present()),
        ("DELETE", f"{PODS}/x", stored(**ENDING, deletionGracePeriodSeconds=0), GONE),
        ("DELETE", f"{PODS}/x", DELETED, Written(PODS, "gone", ObjectKey("a", "x"), "u")),
        ("DELETE", PODS, answer({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []}), UNKNOWN),
        ("POST", f"{PODS}/x/eviction", answer({"kind": "Status", "status": "Success"}), UNKNOWN),
        ("POST", PODS, answer([]), UNKNOWN),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", answer({"status": {"allowed": True}}), None),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/x/token", stored(""), None),
        ("GET", f"{PODS}/x", stored(), None),
        ("HEAD", f"{PODS}/x", stored(), None),
    ],
)
def test_a_response_says_what_a_write_left_behind(
    method: str, path: str, outcome: Response, expected: Written | None
) -> None:
    assert noted(method, path, outcome) == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnavailableError("lost", outcome_unknown=True), [UNKNOWN]),
        (ServerError(Status(500)), [UNKNOWN]),
        (UnavailableError("refused", outcome_unknown=False), []),
        (ConflictError(Status(409)), []),
    ],
    ids=["lost", "500", "not sent", "409"],
)
def test_an_error_leaves_a_trace_if_the_write_may_have_been_executed(error: KubeError, expected: list[Written]) -> None:
    assert noted("PUT", f"{PODS}/x", error) == expected


def test_the_outcome_of_a_write_that_was_cancelled_is_unknown() -> None:
    async def story() -> list[Written]:
        journal, transport = Journal(), JournalingTransport(OneAnswer(stored()))
        with pytest.raises(TimeoutError), journal.recording("key"):
            async with asyncio.timeout(0.5):
                await transport.send(Request("POST", PODS))
        return list(journal.traces("key"))

    assert run_virtual(story()) == [UNKNOWN]


KINDS = st.builds(
    ResourceKind,
    st.sampled_from(["", "apps", "example.org"]),
    st.just("v1"),
    st.just("Widget"),
    st.sampled_from(["widgets", "namespaces"]),
    st.booleans(),
).filter(lambda kind: not (kind.namespaced and kind.plural == "namespaces"))
NAMES = st.from_regex(r"[a-z][a-z0-9:.-]{0,10}", fullmatch=True).filter(lambda name: name not in {"status", "finalize"})


@given(kind=KINDS, name=NAMES, subresource=st.sampled_from([None, "status", "finalize"]))
def test_every_path_that_a_client_makes_is_taken_apart(kind: ResourceKind, name: str, subresource: str | None) -> None:
    namespace = "somewhere" if kind.namespaced else ""
    deleted = answer({"kind": "Status", "details": {"uid": "u"}})

    (written,) = noted("DELETE", kind.path(namespace, name, subresource), deleted)

    assert written == Written(kind.path(namespace), "gone", ObjectKey(namespace, name), "u")
    assert written.namespace == namespace


@pytest.mark.parametrize(
    ("method", "options", "dry"),
    [
        ("POST", {"params": {"dryRun": "All"}}, True),
        ("POST", {"params": [("fieldManager", "m"), ("dryRun", "All")]}, True),
        ("POST", {"params": {"fieldManager": "m"}, "body": orjson.dumps({"dryRun": ["All"]})}, False),
        ("DELETE", {"body": orjson.dumps({"dryRun": ["All"]})}, True),
        ("DELETE", {"params": {"dryRun": "All"}}, True),
        ("DELETE", {"params": {"dryRun": "All"}, "body": orjson.dumps({"kind": "DeleteOptions"})}, False),
        ("DELETE", {"body": b"kind: DeleteOptions"}, False),
        ("DELETE", {}, False),
    ],
)
def test_dry_runs_leave_no_trace(method: str, options: dict[str, Any], dry: bool) -> None:
    assert Request(method, f"{PODS}/x", **options).is_dry_run is dry
    assert noted(method, f"{PODS}/x", stored(finalizers=["f"]), **options) == ([] if dry else [present()])


def test_requests_and_streams_are_passed_on_as_they_are() -> None:
    async def story() -> None:
        wire = OneAnswer(stored())
        transport = JournalingTransport(wire)
        request = Request("PUT", f"{PODS}/x", params={"a": "b"}, body=b"{}", accept="x", timeout=3.0)
        watch = Request("GET", PODS, params={"watch": "true"})

        await transport.send(request)
        with Journal().recording("key"):
            await transport.send(request)
        stream: Any = transport.stream(watch, idle_timeout=1.0)

        assert wire.requests == [request] * 2
        assert stream == (watch, 1.0)

    run_virtual(story())


Writing = Callable[[str, str], Coroutine[Any, Any, None]]


def recorded(run: Callable[[Writing], Coroutine[Any, Any, None]]) -> list[Written]:
    """The traces of a run that writes an object at a version by calling with (method, version)."""

    async def story() -> list[Written]:
        journal = Journal()

        async def write(method: str, version: str) -> None:
            outcome = stored(version) if method != "DELETE" else DELETED
            await JournalingTransport(OneAnswer(outcome)).send(Request(method, f"{PODS}/x"))

        with journal.recording("key"):
            await run(write)
        return list(journal.traces("key"))

    return run_virtual(story())


def test_only_the_newest_state_of_an_object_is_kept() -> None:
    async def update_twice(write: Writing) -> None:
        await write("PUT", "5")
        await write("PUT", "10")

    async def update_and_delete(write: Writing) -> None:
        await write("PUT", "5")
        await write("DELETE", "")

    async def replace(write: Writing) -> None:
        await write("DELETE", "")
        await write("PUT", "10")

    assert recorded(update_twice) == [present("10")]
    assert recorded(update_and_delete) == [
        Written(PODS, "gone", ObjectKey("a", "x"), "u", "5", earlier=(("5", {}),)),
    ]
    assert recorded(replace) == [evolve(present("10"), earlier=(("", None),))]


def test_answers_that_come_in_the_wrong_order_do_not_turn_the_journal_back() -> None:
    async def side_by_side(write: Writing) -> None:
        async def late() -> None:
            await asyncio.sleep(1)
            await write("PUT", "5")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(late())
            tasks.create_task(write("PUT", "10"))

    assert recorded(side_by_side) == [present("10")]


def test_writes_of_tasks_that_the_run_started_belong_to_it_and_those_of_others_do_not() -> None:
    async def story() -> tuple[list[Written], list[Written], int]:
        journal = Journal()
        elsewhere = asyncio.create_task(write("3"))

        async def run(key: str, version: str) -> None:
            with journal.recording(key):
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(write(version))

        async with asyncio.TaskGroup() as runs:
            runs.create_task(run("one", "1"))
            runs.create_task(run("two", "2"))
        await elsewhere
        await write("4")
        return list(journal.traces("one")), list(journal.traces("two")), len(journal)

    async def write(version: str) -> None:
        await JournalingTransport(OneAnswer(stored(version))).send(Request("PUT", f"{PODS}/x"))

    assert run_virtual(story()) == ([present("1")], [present("2")], 2)


def test_a_run_that_fails_leaves_its_traces() -> None:
    async def story() -> list[Written]:
        journal = Journal()

        async def run() -> None:
            with journal.recording("key"):
                await JournalingTransport(OneAnswer(stored())).send(Request("PUT", f"{PODS}/x"))
                raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"):
            await run()
        return list(journal.traces("key"))

    assert run_virtual(story()) == [present()]


def test_traces_stay_until_they_are_settled_and_a_run_without_writes_leaves_none() -> None:
    async def story() -> None:
        journal, transport = Journal(), JournalingTransport(OneAnswer(stored()))
        with journal.recording("key"):
            await transport.send(Request("PUT", f"{PODS}/x"))
        with journal.recording("idle"):
            await transport.send(Request("GET", f"{PODS}/x"))

        assert (len(journal), list(journal.traces("key")), list(journal.traces("idle"))) == (1, [present()], [])
        journal.settled("key")
        journal.settled("never seen")
        assert (len(journal), list(journal.traces("key"))) == (0, [])

    run_virtual(story())


def test_keys_without_further_runs_are_forgotten_after_half_an_hour_and_failing_ones_are_not() -> None:
    async def story() -> None:
        journal, transport = Journal(), JournalingTransport(OneAnswer(stored()))

        async def run(key: str) -> None:
            with journal.recording(key):
                await transport.send(Request("PUT", f"{PODS}/x"))

        await run("deleted")
        await run("failing")
        for _ in range(3):
            await asyncio.sleep(1000)
            assert journal.traces("failing")
            await run("busy")

        assert (len(journal), list(journal.traces("deleted"))) == (2, [])

    run_virtual(story())
