"""A gateway on loopback in front of accessors on loopback."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from attrs import define, evolve, field, frozen

from gpuruntime.api.gpustorage import AccessorStatus, GPUStorage, GPUStorageSpec, GPUStorageStatus, StorageAccessor
from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.gateway.accessor.app import accessor_app
from gpuruntime.gateway.accessor.volume import Volume
from gpuruntime.gateway.proxy.app import StorageRoute, mount_gateway
from gpuruntime.gateway.proxy.forwarding import Forwarding
from gpuruntime.gateway.proxy.storages import Storages
from gpuruntime.gateway.proxy.streams import StreamLimits, Streams
from gpuruntime.gateway.signing.bearer import BearerCheck
from gpuruntime.gateway.signing.keys import PublicKeys, SigningKey, SigningKeyFile
from gpuruntime.meta import ObjectKey, ObjectMeta
from tests.endpoints.endpoint_scenes import TOKENS
from tests.gateway.accessor.accessor_scenes import Answer, answer_to

__all__ = ["Gateway", "Table", "gateway", "storage"]


def storage(name: str = "data", uid: str = "uid-of-data", phase: str = "Ready") -> GPUStorage:
    """A storage whose accessor is in this phase."""
    return GPUStorage(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid),
        spec=GPUStorageSpec("1Gi", accessor=StorageAccessor(enabled=True)),
        status=GPUStorageStatus(accessor=AccessorStatus(phase, message="It starts.")),
    )


@frozen
class Table:
    """Addresses of accessors by the name of the storage."""

    urls: Mapping[str, str]

    def url(self, storage: GPUStorage) -> str:
        return self.urls[storage.metadata.name]


@define
class Gateway:
    """A running gateway, and callers of it."""

    streams: Streams
    storages: dict[ObjectKey, GPUStorage]
    urls: dict[str, str]
    key: SigningKey
    address: HttpAddress = field(factory=HttpAddress)
    is_stopping: bool = False

    async def get(self, target: str, method: str = "GET", caller: str = "access", **headers: str) -> Answer:
        return await answer_to(self.address, target, method, Authorization=f"Bearer {caller}", **headers)

    def put(self, changed: GPUStorage, *, enabled: bool = True) -> None:
        spec = evolve(changed.spec, accessor=StorageAccessor(enabled=enabled))
        self.storages[changed.key] = evolve(changed, spec=spec)


@asynccontextmanager
async def gateway(
    directory: Path, root: Path, limits: StreamLimits | None = None, drain: float = 0.5
) -> AsyncIterator[Gateway]:
    """A gateway with one storage, ns/data, which is the directory `root`."""
    key, served = SigningKey.generate(), storage()
    file = directory / "key.pem"
    file.write_bytes(key.pem)
    streams, volume = Streams(limits or StreamLimits()), Volume(root)
    check = BearerCheck(PublicKeys([key.public_text]), served.metadata.uid, time.time)
    made = Gateway(streams, {served.key: served}, {}, key)
    app = web.Application()
    mount_gateway(
        app,
        StorageRoute(
            AccessControl(Access.CREDENTIALS, TOKENS),
            Storages(made.storages.get, lambda: ""),
            Forwarding(Table(made.urls), SigningKeyFile(file), streams),
            lambda: made.is_stopping,
        ),
    )
    async with serving(accessor_app(volume, check), HttpAddress()) as accessor:
        made.urls["data"] = accessor.url
        async with serving(app, HttpAddress(), drain=drain) as made.address:
            yield made
            made.is_stopping = True
    volume.close()
