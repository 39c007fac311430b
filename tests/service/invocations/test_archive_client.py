from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from gpuruntime.api.invocations import ArchiveCursorError, ArchiveQuery, ArchiveUnavailableError
from gpuruntime.archive.reading import StoreArchive
from gpuruntime.archive.routes import ArchiveRoutes, mount_archive
from gpuruntime.archive.sqlite import SqliteStore
from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.auth.certificate import server_tls
from gpuruntime.service.invocations.archive_client import ArchiveClient, ArchiveClientOptions
from gpuruntime.testing.cluster.certificates import Authority
from tests.archive.result_scenes import NOON, TTL, archived, key_of
from tests.endpoints.endpoint_scenes import TOKENS
from tests.ports import free_port


@asynccontextmanager
async def asked(app: web.Application, token: Path | None = None) -> AsyncIterator[ArchiveClient]:
    async with (
        serving(app, HttpAddress()) as address,
        ArchiveClient(ArchiveClientOptions(address.url, token)) as client,
    ):
        yield client


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "results.db")
    yield made
    await made.close()


async def test_it_reads_what_the_result_store_serves(store: SqliteStore, tmp_path: Path) -> None:
    token, now, app = tmp_path / "token", [timedelta()], web.Application()
    token.write_text("read\n")
    archive = StoreArchive(store, lambda: NOON + now[0])
    mount_archive(app, ArchiveRoutes(archive, AccessControl(Access.CREDENTIALS, TOKENS)))
    await store.put([archived(f"a.b:{number}", after=number, body=b"\x00") for number in range(3)])
    async with asked(app, token) as client:
        found, body = await client.get(key_of("a.b:1")), await client.body(key_of("a.b:1"))
        missing = await client.get(key_of("none")), await client.body(key_of("none"))
        first = await client.list(ArchiveQuery(limit=2))
        second = await client.list(ArchiveQuery(limit=2, cursor=first.next))
        with pytest.raises(ArchiveCursorError):
            await client.list(ArchiveQuery(cursor="x"))
        now[0] = TTL
        expired = await client.body(key_of("a.b:0"))
        token.write_text("unknown")
        with pytest.raises(ArchiveUnavailableError, match=r"status 401; check resultStore\.tokenFile"):
            await client.get(key_of("a.b:1"))

    assert found is not None
    assert (found.key, body, missing, expired) == (key_of("a.b:1"), b"\x00", (None, None), None)
    assert [item.id for item in (*first.items, *second.items)] == ["a.b:2", "a.b:1", "a.b:0"]
    assert second.next == ""


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"[]", "expected an invocation, got status 200"),
        (200, b"{", "expected JSON"),
        (200, b'{"data": 7}', "ArchivedInvocation"),
        (302, b"", "status 302"),
        (500, b"", "status 500"),
    ],
)
async def test_an_answer_of_something_else_is_unavailable(status: int, body: bytes, said: str) -> None:
    app = web.Application()

    async def serve(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"Location": "http://127.0.0.1:1/"})

    app.router.add_get("/{path:.*}", serve)
    async with asked(app) as client:
        with pytest.raises(ArchiveUnavailableError, match=said):
            await client.get(key_of("one"))


async def test_a_store_that_is_away_and_a_missing_file_are_unavailable(tmp_path: Path) -> None:
    away = ArchiveClientOptions(f"http://127.0.0.1:{free_port()}")
    without = ArchiveClientOptions("http://127.0.0.1:1", token_file=tmp_path / "none")
    for options in (away, without):
        async with ArchiveClient(options) as client:
            with pytest.raises(ArchiveUnavailableError, match=f"the result store at {options.url}: "):
                await client.list(ArchiveQuery())


async def test_its_authority_is_checked_and_read_again(tmp_path: Path) -> None:
    ours, others = (Authority.create(tmp_path / name, name) for name in ("ours", "others"))
    pair, file = ours.issue("store", "store", hosts=("127.0.0.1",)), tmp_path / "ca.crt"
    file.write_bytes(others.files.certificate.read_bytes())
    app = web.Application()

    async with (
        serving(app, HttpAddress(), tls=server_tls(pair.certificate, pair.key)) as address,
        ArchiveClient(ArchiveClientOptions(f"https://127.0.0.1:{address.port}", ca_file=file)) as client,
    ):
        with pytest.raises(ArchiveUnavailableError, match="ertificate"):
            await client.get(key_of("one"))
        file.write_bytes(ours.files.certificate.read_bytes())
        found = await client.get(key_of("one"))

    assert found is None
