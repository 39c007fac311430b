import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from attrs import frozen

from gpuruntime.api.invocations import ArchivedInvocation, archive_body_path, archive_path
from gpuruntime.archive.reading import StoreArchive
from gpuruntime.archive.routes import ArchiveRoutes, mount_archive
from gpuruntime.archive.sqlite import SqliteStore
from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.meta import decode
from tests.archive.result_scenes import NOON, TTL, archived, key_of
from tests.endpoints.endpoint_scenes import TOKENS
from tests.gateway.accessor.accessor_scenes import Answer, answer_to


@frozen
class Site:
    address: HttpAddress
    store: SqliteStore
    path: Path
    now: list[timedelta]

    async def get(self, target: str, caller: str = "read", method: str = "GET") -> Answer:
        return await answer_to(self.address, target, method, Authorization=f"Bearer {caller}")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    path = tmp_path / "results.db"
    store, now = SqliteStore(path), [timedelta()]
    app = web.Application()
    archive = StoreArchive(store, lambda: NOON + now[0])
    mount_archive(app, ArchiveRoutes(archive, AccessControl(Access.CREDENTIALS, TOKENS)))
    async with serving(app, HttpAddress()) as address:
        yield Site(address, store, path, now)
    await store.close()


async def test_an_invocation_and_its_body_are_read(site: Site) -> None:
    key = key_of("a.b:c-1")
    await site.store.put([archived(key, body=b"<html>\x00", content_type="text/html", worker="w-1")])

    found, body = await site.get(archive_path(key)), await site.get(archive_body_path(key))

    view = decode(ArchivedInvocation, found.json["data"])
    assert (view.key, view.record.worker, view.body_bytes, view.is_expired) == (key, "w-1", 7, False)
    assert (view.ended_at, view.expires_at) == ("2026-01-02T12:00:00.000000Z", "2026-01-02T13:00:00.000000Z")
    assert (body.status, body.body) == (200, b"<html>\x00")
    assert body.headers["Content-Type"] == "application/octet-stream"
    assert body.headers["X-Content-Type-Options"] == "nosniff"


async def test_unknown_is_404_and_expired_is_410(site: Site) -> None:
    await site.store.put([archived("one", body=b"x")])
    site.now[0] = TTL

    expired, row = await site.get(archive_body_path(key_of("one"))), await site.get(archive_path(key_of("one")))
    unknown = [await site.get(path(key_of("two"))) for path in (archive_path, archive_body_path)]
    elsewhere = [await site.get(path) for path in ("/", "/v1/invocations/ns/echo", "/v1/invocations/a/b/c/d")]

    assert (expired.status, expired.json["error"]["code"]) == (410, "result_expired")
    assert row.json["data"]["isExpired"]
    assert [answer.status for answer in (*unknown, *elsewhere)] == [404] * 5


async def test_pages_are_followed_to_the_end(site: Site) -> None:
    await site.store.put([archived(f"i{number}", after=number, state="failed") for number in range(5)])
    target, found = "/v1/invocations?state=failed&limit=2", []

    cursor = ""
    while True:
        answer = (await site.get(target + cursor)).json
        found.append([item["id"] for item in answer["data"]])
        if "next" not in answer:
            break
        cursor = f"&cursor={answer['next']}"

    assert found == [["i4", "i3"], ["i2", "i1"], ["i0"]]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "?limit"),
        ("limit=501", "?limit"),
        ("state=running", "?state"),
        ("since=yesterday", "?since"),
        ("cursor=abc", "?cursor"),
        ("unknown=1", "?unknown"),
    ],
)
async def test_a_bad_query_names_the_parameter(site: Site, query: str, named: str) -> None:
    answer = await site.get(f"/v1/invocations?{query}")

    assert answer.status == 400
    assert [fault["path"] for fault in answer.json["error"]["details"]] == [named]


async def test_without_scope_read_nothing_is_served(site: Site) -> None:
    await site.store.put([archived("one", body=b"x")])
    targets = ("/v1/invocations", archive_path(key_of("one")), archive_body_path(key_of("one")))

    answers = {caller: [await site.get(target, caller) for target in targets] for caller in ("none", "access", "who")}

    statuses = {caller: {answer.status for answer in each} for caller, each in answers.items()}
    assert statuses == {"none": {403}, "access": {403}, "who": {401}}


async def test_nothing_can_be_written(site: Site) -> None:
    await site.store.put([archived("one", body=b"x")])

    answers = [await site.get(archive_path(key_of("one")), "operator", method) for method in ("DELETE", "PUT", "POST")]

    assert {answer.status for answer in answers} <= {404, 405}
    assert await site.store.get(key_of("one")) is not None


async def test_a_database_that_cannot_be_read_is_503_with_the_reason(site: Site) -> None:
    site.path.write_bytes(b"no database" * 1000)

    targets = ("/v1/invocations", archive_path(key_of("one")), archive_body_path(key_of("one")))
    answers = await asyncio.gather(*map(site.get, targets))

    assert [answer.status for answer in answers] == [503, 503, 503]
    assert all("move the file away" in answer.json["error"]["message"] for answer in answers)
    assert all(answer.headers["Retry-After"] == "2" for answer in answers)
