import os
from pathlib import Path

import pytest

from gpuruntime.gateway.signing.bearer import signed_bearer
from gpuruntime.gateway.signing.keys import SigningKey
from tests.gateway.accessor.accessor_scenes import accessing, answer_to
from tests.gateway.signing.key_scenes import UID

SECRET = b"what nobody may read"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    root = tmp_path / "data"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file.txt").write_bytes(b"0123456789")
    (root / "page.html").write_text("<script>alert(document.domain)</script>")
    (root / "x & <y>.bin").write_bytes(b"\x00\x01")
    (root / "out").symlink_to("../secret")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize(
    "target",
    [
        *("/files/../secret", "/files/a/../../secret", "/../secret", "/files/..", "/files/a/b/../../../secret"),
        *("/files/%2e%2e/secret", "/files/%2e%2e%2fsecret", "/files/..%2fsecret", "/files/a/..%2f..%2fsecret"),
        *("/files/%252e%252e/secret", "/files/..%252fsecret", "/files/..%5csecret", "/files/..\\secret"),
        *("/files//etc/passwd", "/files/%2fetc%2fpasswd", "/files/a%00/../../secret", "/files/./../secret"),
        *("/files/out", "/files/up/secret", "/files/up/", "/files/pipe", "/files/..;/secret", "/files/.../secret"),
        *("/files/%c0%ae%c0%ae/secret", "/files/%uff0e%uff0e/secret", "http://localhost/files/../secret"),
        *("/files/../../../../../../../etc/passwd", "/files/a/%2e%2e/%2e%2e/secret", "/secret", "/files"),
    ],
)
async def test_no_path_reads_anything_outside_of_the_volume(data: Path, target: str) -> None:
    async with accessing(data) as site:
        answer = await answer_to(site.address, target, Authorization=site.bearer)

    assert answer.status in {400, 403, 404}
    assert SECRET not in answer.body
    assert b"root:" not in answer.body


async def test_requests_without_a_bearer_for_this_storage_get_nothing(data: Path) -> None:
    other = SigningKey.generate()
    async with accessing(data) as site:
        good = await site.get("a/b/file.txt")
        refused = [
            await answer_to(site.address, "/files/a/b/file.txt", Authorization=authorization)
            for authorization in (
                "",
                "Bearer",
                "Basic YTpi",
                f"Bearer {signed_bearer(other, UID, 1000.0)}",
                f"Bearer {signed_bearer(site.key, 'another', 1000.0)}",
                f"Bearer {signed_bearer(site.key, UID, 900.0)}",
            )
        ]
        unknown = await answer_to(site.address, "/files/nothing", Authorization="")

    assert good.status == 200
    assert [answer.status for answer in refused] == [401] * 6
    assert unknown.status == 401
    assert not any(b"0123456789" in answer.body for answer in refused)


async def test_a_file_is_read_whole_in_part_and_conditionally(data: Path) -> None:
    async with accessing(data) as site:
        whole = await site.get("a/b/file.txt")
        head = await site.get("a/b/file.txt", "HEAD")
        etag, modified = whole.headers["ETag"], whole.headers["Last-Modified"]
        parts = [
            (answer.status, answer.headers.get("Content-Range"), answer.body)
            for answer in [
                await site.get("a/b/file.txt", Range=text)
                for text in ("bytes=2-4", "bytes=7-", "bytes=-3", "bytes=5-99", "bytes=-99")
            ]
        ]
        ignored = [await site.get("a/b/file.txt", Range=text) for text in ("bytes=1-2,4-5", "lines=1-2", "bytes=4-2")]
        beyond = await site.get("a/b/file.txt", Range="bytes=10-")
        known = [
            await site.get("a/b/file.txt", If_None_Match=etag),
            await site.get("a/b/file.txt", If_Modified_Since=modified),
        ]
        resumed = await site.get("a/b/file.txt", Range="bytes=8-", If_Range=etag)
        replaced = await site.get("a/b/file.txt", Range="bytes=8-", If_Range='"other"')

    assert (whole.status, whole.body, head.body) == (200, b"0123456789", b"")
    assert head.headers["Content-Length"] == "10"
    assert parts == [
        (206, "bytes 2-4/10", b"234"),
        (206, "bytes 7-9/10", b"789"),
        (206, "bytes 7-9/10", b"789"),
        (206, "bytes 5-9/10", b"56789"),
        (206, "bytes 0-9/10", b"0123456789"),
    ]
    assert [(answer.status, len(answer.body)) for answer in ignored] == [(200, 10)] * 3
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, "bytes */10")
    assert [(answer.status, answer.body) for answer in known] == [(304, b"")] * 2
    assert (resumed.status, resumed.body, replaced.status) == (206, b"89", 200)


async def test_a_stored_page_is_a_download_and_cannot_script_the_origin(data: Path) -> None:
    async with accessing(data) as site:
        page = await site.get("page.html")
        text = await site.get("a/b/file.txt")

    for answer in (page, text):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert "allow-scripts" not in answer.headers["Content-Security-Policy"]
    assert page.headers["Content-Type"] == "application/octet-stream"
    assert page.headers["Content-Disposition"] == "attachment; filename*=UTF-8''page.html"
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_a_directory_is_listed_for_programs_and_for_people(data: Path) -> None:
    async with accessing(data) as site:
        listing = await site.get("")
        page = await site.get("", Accept="text/html,*/*")
        moved = await site.get("a")
        below = await site.get("a/b/", Accept="text/html")

    names = [(entry["name"], entry["type"], entry["href"]) for entry in listing.json["data"]]
    assert names == [
        ("a", "directory", "./a/"),
        ("out", "link", "./out"),
        ("page.html", "file", "./page.html"),
        ("pipe", "other", "./pipe"),
        ("up", "link", "./up"),
        ("x & <y>.bin", "file", "./x%20%26%20%3Cy%3E.bin"),
    ]
    assert b"x &amp; &lt;y&gt;.bin" in page.body
    assert b"<y>" not in page.body
    assert page.headers["Content-Type"].startswith("text/html")
    assert (moved.status, moved.headers["Location"]) == (308, "./a/")
    assert b'href="../"' in below.body


async def test_nothing_can_be_written_and_probes_need_no_bearer(data: Path) -> None:
    async with accessing(data) as site:
        writes = [await site.get("new", method) for method in ("PUT", "POST", "DELETE", "PATCH")]
        ready = await answer_to(site.address, "/readyz")

    assert [answer.status for answer in writes] == [405] * 4
    assert not (data / "new").exists()
    assert ready.status == 200
