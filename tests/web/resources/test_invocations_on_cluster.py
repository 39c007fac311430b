"""Invocations over HTTP, as callers of upstream's API send them, and what is refused."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.api.invocations import InvocationState
from gpuruntime.processes.config.result_store_section import ResultStoreSection
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.nats import NatsServer
from tests.ports import free_port
from tests.product_scenes import kube_namespace, product
from tests.web.invocation_scenes import INVOCATIONS, invoking, store_of

__all__ = ["kube_namespace", "product"]

RAW = f"{INVOCATIONS}?serverlessRequestID=echo"


async def test_an_async_invocation_has_the_fields_of_upstream_and_is_idempotent_by_its_id(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer
) -> None:
    fields: dict[str, Any] = {"invocationID": "order-1", "payload": {"name": "you"}, "attributes": {"tier": "gold"}}
    async with invoking(product, kube_namespace, nats_server) as api:
        accepted = await api.invoke(**fields)
        again = await api.invoke(**fields)
        other = await api.invoke(**{**fields, "payload": {"name": "me"}})
        hidden, status = await api.get("/order-1"), await api.get("/order-1?serverlessRequestID=echo")
        early = await api.get("/order-1/result?serverlessRequestID=echo")
        waiting = asyncio.create_task(api.get("/order-1?serverlessRequestID=echo&wait=60"))
        await api.ended(b'{"hello": 12345678901234567890123}')
        ended, result = await waiting, await api.get("/order-1/result?serverlessRequestID=echo")
        late = await api.invoke(**fields)
        called = await api.invoke(**fields, mode="sync")

    assert accepted.status == 202
    assert accepted.data.pop("acceptedAt").endswith("Z")
    assert {**accepted.data, "acceptedAt": ""} == {
        "invocationID": "order-1",
        "serverlessRequestID": "echo",
        "mode": "async",
        "subject": f"inv.{kube_namespace}.echo.order-1",
        "resultSubject": f"res.{kube_namespace}.echo.order-1",
        "stream": f"FN_{kube_namespace}_echo",
        "sequence": 1,
        "duplicate": False,
        "acceptedAt": "",
        "state": "queued",
        "queuePosition": 1,
    }
    assert (again.status, again.data["duplicate"], again.data["sequence"]) == (200, True, 1)
    assert (other.status, other.code) == (409, "invocation_conflict")
    assert (hidden.status, hidden.code) == (404, "invocation_not_found")
    assert "?serverlessRequestID=" in hidden.json["error"]["message"]
    assert (status.data["state"], status.data["queuePosition"], status.data["mode"]) == ("queued", 1, "async")
    assert status.data["waitingFor"]
    assert (early.status, early.data["state"]) == (202, "queued")
    assert (ended.data["state"], ended.data["worker"], ended.data["attempt"]) == ("succeeded", "unit-1", 1)
    assert (result.status, result.body) == (200, b'{"hello": 12345678901234567890123}')
    assert (result.headers["Content-Type"], result.headers["X-Invocation-State"]) == ("application/json", "succeeded")
    assert (late.status, late.data["duplicate"], late.data["state"]) == (200, True, "succeeded")
    assert called.status == 200
    assert b'"body":{"hello": 12345678901234567890123}' in called.body


async def test_a_sync_invocation_returns_the_result_whatever_its_bytes(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer
) -> None:
    odd = b"\x00\xff\r\n{"
    async with invoking(product, kube_namespace, nats_server) as api, api.working():
        in_json = await api.invoke(mode="sync", payload={"name": "you"}, headers={"X-A": " 1 "})
        in_base64 = await api.invoke(mode="sync", payloadBase64=base64.b64encode(odd).decode())
        raw = await api.send("POST", f"{RAW}&mode=sync", odd, Content_Type="image/png")
        text = await api.send("POST", f"{RAW}&mode=sync", "grüße".encode(), Content_Type="text/plain; charset=utf-8")
        empty = await api.send("POST", f"{RAW}&mode=sync", b"", Content_Type="text/plain")
        absent = await api.invoke(mode="sync")
        by_curl = await api.send(
            "POST",
            INVOCATIONS,
            b'{"serverlessRequestID": "echo", "mode": "sync", "payload": 1}',
            Content_Type="application/x-www-form-urlencoded",
        )
        result = await api.get(f"/{raw.data['invocationID']}/result")

    assert in_json.status == 200
    assert in_json.headers["X-Invocation-ID"] == in_json.data["invocationID"]
    assert {
        name: in_json.data[name]
        for name in ("serverlessRequestID", "mode", "state", "duplicate", "statusCode", "contentType", "body", "worker")
    } == {
        "serverlessRequestID": "echo",
        "mode": "sync",
        "state": "succeeded",
        "duplicate": False,
        "statusCode": 200,
        "contentType": "application/json",
        "body": {"name": "you"},
        "worker": "unit-1",
    }
    assert {"startedAt", "completedAt", "delayMs", "executionMs"} <= in_json.data.keys()
    assert base64.b64decode(in_base64.data["bodyBase64"]) == odd
    assert in_base64.data["contentType"] == "application/octet-stream"
    assert base64.b64decode(raw.data["bodyBase64"]) == odd
    assert (text.data["body"], "body" in empty.data, absent.data.get("body")) == ("grüße", False, None)
    assert by_curl.data["body"] == 1
    assert (result.body, result.headers["Content-Type"]) == (odd, "image/png")
    assert result.headers["Content-Disposition"] == "attachment"


async def test_a_call_that_takes_too_long_is_504_with_the_id_and_goes_on_unless_it_is_cancelled(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer
) -> None:
    async with invoking(product, kube_namespace, nats_server) as api:
        late = await api.invoke(mode="sync", timeoutSeconds=1)
        going_on = await api.get(f"/{late.headers['X-Invocation-ID']}")
        ended = await api.invoke(mode="sync", timeoutSeconds=1, onTimeout="cancel", invocationID="mine")
        cancelled = await api.get("/mine?serverlessRequestID=echo")

    assert (late.status, late.code) == (504, "not_finished")
    assert late.headers["X-Invocation-ID"] in late.json["error"]["message"]
    assert going_on.data["state"] == "queued"
    assert (ended.status, ended.code) == (504, "not_finished")
    assert "it was cancelled" in ended.json["error"]["message"]
    assert (cancelled.data["state"], cancelled.data["failureClass"]) == ("cancelled", "cancelled_by_caller")


async def test_cancel_ends_what_waits_or_runs_once_and_refuses_what_ended_otherwise(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer
) -> None:
    def of(name: str) -> str:
        return f"{INVOCATIONS}/{name}/cancel?serverlessRequestID=echo"

    async with invoking(product, kube_namespace, nats_server) as api:
        await api.invoke(invocationID="waits")
        waits = [await api.send("POST", of("waits")) for _ in range(2)]
        await api.invoke(invocationID="runs")
        delivery = await api.worker.take(api.echo)
        running = await api.get("/runs?serverlessRequestID=echo")
        runs = await api.send("POST", of("runs"))
        won = await api.worker.end(delivery)
        await api.invoke(invocationID="ends")
        await api.ended()
        ends, unknown = await api.send("POST", of("ends")), await api.send("POST", of("unknown"))
        result = await api.get("/waits/result?serverlessRequestID=echo")

    assert [answer.status for answer in waits] == [200, 200]
    assert [answer.data["state"] for answer in (*waits, runs)] == ["cancelled"] * 3
    assert (running.data["state"], running.data["attempt"], running.data["worker"]) == ("running", 1, "unit-1")
    assert not won
    assert (ends.status, ends.code) == (409, "invocation_ended")
    assert (unknown.status, unknown.code) == (404, "invocation_not_found")
    assert (result.status, result.body, result.headers["X-Invocation-State"]) == (200, b"", "cancelled")


async def test_ended_invocations_are_listed_from_the_result_store_and_others_from_the_queue(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    listed = "?serverlessRequestID=echo&limit=2"
    async with (
        store_of(product, nats_server, tmp_path) as store,
        invoking(product, kube_namespace, nats_server, result_store=store) as api,
    ):
        for number in range(3):
            await api.invoke(invocationID=f"i{number}")
            state = InvocationState.FAILED if number == 1 else InvocationState.SUCCEEDED
            await api.ended(b"short-lived", state=state, ttl_millis=1000, is_kept=True)
        for name in ("a", "b", "c"):
            await api.invoke(invocationID=name)
        await api.worker.take(api.echo)
        while len((await api.get("?limit=500")).data) < 3:  # noqa: ASYNC110 - the archive follows, and has no event
            await asyncio.sleep(0.05)
        first = await api.get(listed)
        second = await api.get(f"{listed}&cursor={first.json['next']}")
        failed = await api.get("?state=failed")
        other = await api.get("?serverlessRequestID=queueless")
        running = await api.get("?state=running&serverlessRequestID=echo")
        queued = await api.get("?state=queued&serverlessRequestID=echo&limit=1")
        more = await api.get(f"?state=queued&serverlessRequestID=echo&cursor={queued.json['next']}")
        alone, bad = await api.get("?state=queued"), await api.get(f"{listed}&cursor=x")
        await api.forget_results()
        # The clock of the result store decides.
        while (expired := await api.get("/i2/result?serverlessRequestID=echo")).status == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        status = await api.get("/i2?serverlessRequestID=echo")

    assert [item["invocationID"] for item in (*first.data, *second.data)] == ["i2", "i1", "i0"]
    assert "next" not in second.json
    assert [(item["invocationID"], item["state"]) for item in failed.data] == [("i1", "failed")]
    assert other.data == []
    assert [(item["invocationID"], item["state"]) for item in running.data] == [("a", "running")]
    assert [item["invocationID"] for item in (*queued.data, *more.data)] == ["b", "c"]
    assert (alone.status, alone.paths) == (400, {"?serverlessRequestID"})
    assert (bad.status, bad.paths) == (400, {"?cursor"})
    assert (expired.status, expired.code) == (410, "result_expired")
    assert (status.data["state"], status.data["resultExpired"]) == ("succeeded", True)


BAD_BODIES: dict[str, tuple[Any, set[str]]] = {
    "no function": ({"serverlessRequestID": None}, {"$.serverlessRequestID"}),
    "a function of the wrong form": ({"serverlessRequestID": "Echo!"}, {"$.serverlessRequestID"}),
    "a function of the wrong type": ({"serverlessRequestID": 7}, {"$.serverlessRequestID"}),
    "mode": ({"mode": "later"}, {"$.mode"}),
    "mode of the wrong type": ({"mode": True}, {"$.mode"}),
    "an ID with a space": ({"invocationID": "a b"}, {"$.invocationID"}),
    "a long ID": ({"invocationID": "a" * 129}, {"$.invocationID"}),
    "a negative timeout": ({"timeoutSeconds": -1}, {"$.timeoutSeconds"}),
    "a timeout of the wrong type": ({"timeoutSeconds": "30"}, {"$.timeoutSeconds"}),
    "a fraction of a second": ({"timeoutSeconds": 1.5}, {"$.timeoutSeconds"}),
    "what happens at the timeout": ({"onTimeout": "explode"}, {"$.onTimeout"}),
    "headers of the wrong type": ({"headers": ["a"]}, {"$.headers"}),
    "a header that is a number": ({"headers": {"a": 1}}, {"$.headers[a]"}),
    "a header of two lines": ({"headers": {"a": "b\r\nc"}}, {"$.headers[a]"}),
    "an empty name of a header": ({"headers": {"": "b"}}, {"$.headers"}),
    "an attribute without a name": ({"attributes": {" ": "b"}}, {"$.attributes"}),
    "the content type": ({"contentType": "json"}, {"$.contentType"}),
    "base64": ({"payloadBase64": "?"}, {"$.payloadBase64"}),
    "two payloads": ({"payloadBase64": "", "payload": 1}, {"$.payloadBase64"}),
    "an unknown field": ({"requestId": "x"}, {"$.requestId"}),
    "two faults": ({"mode": "x", "timeoutSeconds": -1}, {"$.mode", "$.timeoutSeconds"}),
}


async def test_what_is_refused_names_the_field_and_is_not_stored(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer
) -> None:
    async with invoking(product, kube_namespace, nats_server) as api:
        bodies = {name: await api.invoke(**fields) for name, (fields, _) in BAD_BODIES.items()}
        lists = [await api.send("POST", INVOCATIONS, body) for body in (b"[]", b"", b"{", b'{"a": 1, "a": 2}')]
        alone = await api.send("POST", f"{INVOCATIONS}?mode=sync", b"{}")
        wrong = await api.send("POST", f"{RAW}&mode=later&timeoutSeconds=x&invocationID=a%20b&unknown=1", b"x")
        media = await api.send("POST", INVOCATIONS, b"{}", Content_Type="text/plain")
        packed = await api.send("POST", RAW, b"x", Content_Encoding="gzip")
        missing = await api.invoke(serverlessRequestID="nothing")
        large = await api.send("POST", RAW, bytes(64 * 1024 + 1))
        unready = await api.invoke(serverlessRequestID="queueless")
        stored = [await api.invoke(payload=number) for number in range(4)]
        states = [await api.get(f"?state={state}") for state in ("done", "")]

    assert {name: (answer.status, answer.paths) for name, answer in bodies.items()} == {
        name: (400, paths) for name, (_, paths) in BAD_BODIES.items()
    }
    assert [answer.status for answer in (*lists, *states)] == [400] * 6
    assert (alone.status, alone.paths) == (400, {"?mode"})
    assert (wrong.status, wrong.paths) == (400, {"?mode", "?timeoutSeconds", "?invocationID", "?unknown"})
    assert (media.status, packed.status) == (415, 415)
    assert (missing.status, missing.code) == (404, "gpufunction_not_found")
    assert (large.status, large.code) == (413, "request_too_large")
    assert "maxRequestBytes" in large.json["error"]["message"]
    assert (unready.status, unready.code) == (503, "queue_unavailable")
    assert [answer.status for answer in stored] == [202, 202, 202, 429]
    assert [answer.data["queuePosition"] for answer in stored[:3]] == [1, 2, 3]
    assert (stored[3].code, int(stored[3].headers["Retry-After"]) > 0) == ("queue_full", True)


@pytest.mark.parametrize("is_configured", [False, True])
async def test_without_nats_invocations_are_503_and_everything_else_works(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer, is_configured: bool
) -> None:
    store = ResultStoreSection(f"http://127.0.0.1:{free_port()}")
    async with invoking(product, kube_namespace, nats_server, is_configured=is_configured, result_store=store) as api:
        nats_server.stop()
        await api.admin.wait_disconnected()
        answers = [
            await api.invoke(),
            await api.invoke(mode="sync"),
            await api.get("/one?serverlessRequestID=echo"),
            await api.send("POST", f"{INVOCATIONS}/one/cancel?serverlessRequestID=echo"),
            await api.get("?state=queued&serverlessRequestID=echo"),
        ]
        listed = await api.get("")
        units, health = await api.send("GET", "/gpu-units"), await api.send("GET", "/health")

    assert [(answer.status, answer.code) for answer in answers] == [(503, "queue_unavailable")] * 5
    assert all("Retry-After" in answer.headers for answer in answers)
    assert (listed.status, listed.code) == (503, "archive_unavailable")
    assert (units.status, health.status) == (200, 200)
