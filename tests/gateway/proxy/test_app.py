import asyncio
import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, web

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.gateway.proxy.streams import StreamLimits
from gpuruntime.gateway.signing.keys import SigningKey
from tests.gateway.proxy.proxy_scenes import Gateway, gateway, storage
from tests.ports import free_port
from tests.product_scenes import eventually

SECRET = b"what nobody may read"
BEARER = {"Authorization": "Bearer access"}
SPARSE = 2**31


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    made = tmp_path / "data"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "file.txt").write_bytes(b"0123456789")
    (made / "out").symlink_to("../secret")
    with (made / "sparse").open("wb") as file:
        file.truncate(SPARSE)
    return made


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [record.__dict__ for record in caplog.records if record.name == "gpuruntime.audit"]
    return [{name: line[name] for name in ("caller", "path", "status", "bytes", "end", "code")} for line in lines]


async def hold(running: Gateway, path: str = "sparse") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A caller that has received the beginning of a stream, and reads no further."""
    reader, writer = await asyncio.open_connection(running.address.host, running.address.port, limit=1024)
    writer.write(f"GET /storage/ns/data/{path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer access\r\n\r\n".encode())
    assert b" 200 " in await reader.readline()
    return reader, writer


async def test_only_callers_with_scope_access_read_files_and_every_request_is_in_the_audit_log(
    tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "gpuruntime.audit"):
        async with gateway(tmp_path, root) as running:
            answers = {
                token: await running.get("/storage/ns/data/sub/file.txt?token=hidden", caller=token)
                for token in ("none", "read", "write", "operator", "access", "unknown")
            }

    statuses = {token: answer.status for token, answer in answers.items()}
    assert statuses == {"none": 403, "read": 403, "write": 403, "operator": 403, "access": 200, "unknown": 401}
    assert answers["access"].body == b"0123456789"
    assert all("WWW-Authenticate" in answers[token].headers for token in ("none", "operator", "unknown"))
    path = "/storage/ns/data/sub/file.txt"
    lines = audited(caplog)
    assert len(lines) == 6
    assert lines[4] == {"caller": "the-access", "path": path, "status": 200, "bytes": 10, "end": "complete", "code": ""}
    assert lines[5] == {"caller": "", "path": path, "status": 401, "bytes": 0, "end": "refused", "code": "unauthorized"}
    assert "hidden" not in caplog.text


@pytest.mark.parametrize(
    "target",
    [
        *("/storage/ns/data/../secret", "/storage/ns/data/sub/../../secret", "/storage/ns/data/%2e%2e/secret"),
        *("/storage/ns/data/..%2fsecret", "/storage/ns/data/%252e%252e/secret", "/storage/ns/data/out"),
        *(
            "/storage/ns/data//etc/passwd",
            "/storage/ns/data/a%00b",
            "/storage/ns%2fdata/x/y",
            "/storage/ns/data%2f../x",
        ),
        *("/storage/../storage/ns/data/../secret", "/storage/ns/data/..\\secret", "/storage/ns/./data/x"),
    ],
)
async def test_no_path_leads_out_of_the_storage(tmp_path: Path, root: Path, target: str) -> None:
    async with gateway(tmp_path, root) as running:
        answer = await running.get(target)

    assert answer.status in {400, 403, 404}
    assert SECRET not in answer.body


async def test_a_target_with_an_origin_names_the_storage_of_its_path(
    tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "gpuruntime.audit"):
        async with gateway(tmp_path, root) as running:
            running.put(storage("storage", uid="another uid"))
            answer = await running.get("http://ns/storage/ns/data/sub/file.txt")

    assert (answer.status, answer.body) == (200, b"0123456789")
    assert [line["path"] for line in audited(caplog)] == ["/storage/ns/data/sub/file.txt"]


async def test_errors_say_why_there_is_no_stream(tmp_path: Path, root: Path) -> None:
    async with gateway(tmp_path, root) as running:
        running.put(storage("off"), enabled=False)
        running.put(storage("starts", phase="Pending"))
        running.put(storage("dead"))
        running.put(storage("other", uid="another uid"))
        running.urls |= {"dead": "http://127.0.0.1:1", "other": running.urls["data"]}
        found = {
            name: await running.get(f"/storage/ns/{name}/") for name in ("nothing", "off", "starts", "dead", "other")
        }
        missing = await running.get("/storage/ns/data/nothing")
        elsewhere = await running.get("/nowhere")
        write = await running.get("/storage/ns/data/sub/file.txt", "PUT")

    codes = {name: (answer.status, answer.json["error"]["code"]) for name, answer in found.items()}
    assert codes == {
        "nothing": (404, "storage_not_found"),
        "off": (503, "accessor_disabled"),
        "starts": (503, "accessor_not_ready"),
        "dead": (502, "accessor_failed"),
        "other": (502, "accessor_failed"),
    }
    assert "Pending: It starts." in found["starts"].json["error"]["message"]
    assert (missing.status, missing.json["error"]["code"]) == (404, "not_found")
    assert (elsewhere.status, write.status) == (404, 405)


async def test_listings_heads_conditions_and_redirects_pass_through(tmp_path: Path, root: Path) -> None:
    async with gateway(tmp_path, root) as running:
        base = "/storage/ns/data"
        page = await running.get(f"{base}/", Accept="text/html")
        listing = await running.get(f"{base}/sub/")
        head = await running.get(f"{base}/sub/file.txt", "HEAD")
        known = await running.get(f"{base}/sub/file.txt", If_None_Match=head.headers["ETag"])
        moved = [(await running.get(target)).headers["Location"] for target in (base, f"{base}/sub")]

    assert b'<a href="./sub/">sub/</a>' in page.body
    assert [entry["name"] for entry in listing.json["data"]] == ["file.txt"]
    assert (head.status, head.headers["Content-Length"], head.body) == (200, "10", b"")
    assert (known.status, known.body) == (304, b"")
    assert moved == ["/storage/ns/data/", "./sub/"]


async def test_an_accessor_whose_service_is_not_routed_yet_is_reached_a_moment_later(
    tmp_path: Path, root: Path
) -> None:
    late, attempts = HttpAddress("127.0.0.1", free_port()), []

    def delays() -> Iterator[float]:
        while True:
            attempts.append("one more")
            yield 0.01

    async def answers(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="late")

    app = web.Application()
    app.router.add_get("/files/", answers)
    async with gateway(tmp_path, root, reconnects=delays()) as running:
        running.put(storage("late"))
        running.urls["late"] = f"http://127.0.0.1:{late.port}"
        asked = asyncio.create_task(running.get("/storage/ns/late/"))
        await eventually(lambda: len(attempts) > 1)
        async with serving(app, late):
            answer = await asked

    assert (answer.status, answer.body) == (200, b"late")


async def test_a_rotated_key_is_used_at_once(tmp_path: Path, root: Path) -> None:
    async with gateway(tmp_path, root) as running:
        before = await running.get("/storage/ns/data/")
        (tmp_path / "next.pem").write_bytes(SigningKey.generate().pem)
        (tmp_path / "next.pem").rename(tmp_path / "key.pem")
        after = await running.get("/storage/ns/data/")

    assert (before.status, after.status) == (200, 502)


async def test_an_accessor_gets_no_credentials_of_the_caller_and_sets_no_cookies(tmp_path: Path, root: Path) -> None:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response(text="page", headers={"Set-Cookie": "a=b", "Content-Security-Policy": "", "Server": "evil"})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with gateway(tmp_path, root) as running, serving(app, HttpAddress()) as fake:
        running.urls["data"] = fake.url
        given = await running.get("/storage/ns/data/x", Cookie="c=d", Range="bytes=0-1", X_Api_Key="k")

    assert given.status == 200
    assert "Set-Cookie" not in given.headers
    assert "sandbox" in given.headers["Content-Security-Policy"]
    sent = seen[0].headers
    assert sent["Authorization"].startswith("Bearer ")
    assert sent["Authorization"] != "Bearer access"
    assert not {"Cookie", "X-Api-Key"} & {*sent}
    assert (sent["Range"], sent["X-Forwarded-Proto"], sent["X-Forwarded-For"]) == ("bytes=0-1", "http", "127.0.0.1")


async def test_a_large_file_arrives_whole(tmp_path: Path, root: Path) -> None:
    block = bytes(range(256)) * 4096
    (root / "large").write_bytes(block * 32)
    digest = hashlib.sha256()

    async with gateway(tmp_path, root) as running, ClientSession(running.address.url, headers=BEARER) as client:
        async with client.get("/storage/ns/data/large") as answer:
            async for chunk in answer.content.iter_any():
                digest.update(chunk)
        part = await running.get("/storage/ns/data/large", Range="bytes=1048570-1048580")

    assert digest.digest() == hashlib.sha256(block * 32).digest()
    assert (part.status, part.body) == (206, (block * 2)[1048570:1048581])


async def test_a_caller_that_does_not_read_slows_the_stream_down_and_one_that_leaves_ends_it(
    tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "gpuruntime.audit"):
        async with gateway(tmp_path, root) as running:
            _, writer = await hold(running)
            passed = -1
            while passed != running.streams.bytes:
                passed = running.streams.bytes
                await asyncio.sleep(0.2)
            writer.transport.abort()
            await eventually(lambda: running.streams.open == 0)
            await eventually(lambda: bool(audited(caplog)))

    # The rest is in the buffers of sockets.
    assert passed < SPARSE / 16
    assert [line["end"] for line in audited(caplog)] == ["client_closed"]
    assert running.streams.ended["client_closed"] == 1


async def test_streams_are_limited_by_caller_and_by_storage(tmp_path: Path, root: Path) -> None:
    for limits, words in (
        (StreamLimits(per_caller=1), "caller the-access has 1 open streams"),
        (StreamLimits(per_storage=1), "storage ns/data has 1 open streams"),
    ):
        async with gateway(tmp_path, root, limits) as running:
            _, writer = await hold(running)
            refused = await running.get("/storage/ns/data/")
            writer.transport.abort()
            await eventually(lambda running=running: running.streams.open == 0)  # type: ignore[misc]
            admitted = await running.get("/storage/ns/data/")

        assert (refused.status, refused.json["error"]["code"]) == (429, "too_many_streams")
        assert words in refused.json["error"]["message"]
        assert "Retry-After" in refused.headers
        assert admitted.status == 200


async def test_a_stream_without_bytes_is_ended(tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def stall(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"0123456789")
        await asyncio.get_running_loop().create_future()
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", stall)
    with caplog.at_level(logging.INFO, "gpuruntime.audit"):
        async with (
            gateway(tmp_path, root, StreamLimits(idle_seconds=0.3)) as running,
            serving(app, HttpAddress(), drain=0.0) as fake,
        ):
            running.urls["data"] = fake.url
            cut_off = await running.get("/storage/ns/data/x")

    assert cut_off.body == b"0123456789"
    assert [(line["end"], line["bytes"]) for line in audited(caplog)] == [("idle", 10)]


async def test_at_shutdown_streams_get_the_drain_to_finish(
    tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "large").write_bytes(b"x" * 2**26)
    with caplog.at_level(logging.INFO, "gpuruntime.audit"):
        running: Gateway
        async with ClientSession(headers=BEARER, timeout=ClientTimeout(total=None)) as client:
            async with gateway(tmp_path, root, drain=60.0) as running:
                answer = await client.get(f"{running.address.url}/storage/ns/data/large")
                reading = asyncio.ensure_future(answer.read())
            whole = await reading
            async with gateway(tmp_path, root, drain=0.1) as running:
                _, writer = await hold(running)
            writer.transport.abort()

    assert len(whole) == 2**26
    assert [line["end"] for line in audited(caplog)] == ["complete", "drained"]
