"""An accessor on loopback, and requests to it byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import orjson
from attrs import frozen

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.gateway.accessor.app import accessor_app
from gpuruntime.gateway.accessor.volume import Volume
from gpuruntime.gateway.signing.bearer import signed_bearer
from gpuruntime.gateway.signing.keys import SigningKey
from tests.gateway.signing.key_scenes import UID, checking

__all__ = ["Answer", "Site", "accessing", "answer_to"]


@frozen
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


async def answer_to(address: HttpAddress, target: str, method: str = "GET", **headers: str) -> Answer:
    """The answer to a request whose target is sent as it is written."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    request = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n"
    writer.write(request.encode("latin-1"))
    received = await reader.read()
    writer.close()
    head, _, body = received.partition(b"\r\n\r\n")
    first, _, rest = head.partition(b"\r\n")
    found = BytesParser().parsebytes(rest)
    return Answer(int(first.split()[1]), dict(found.items()), body)


@frozen
class Site:
    """An accessor, and the key that it trusts."""

    address: HttpAddress
    key: SigningKey

    @property
    def bearer(self) -> str:
        return f"Bearer {signed_bearer(self.key, UID, 1000.0)}"

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return await answer_to(self.address, f"/files/{path}", method, Authorization=self.bearer, **headers)


@asynccontextmanager
async def accessing(root: Path) -> AsyncIterator[Site]:
    """An accessor of a directory."""
    volume, key = Volume(root), SigningKey.generate()
    async with serving(accessor_app(volume, checking(key)), HttpAddress()) as bound:
        yield Site(bound, key)
    volume.close()
