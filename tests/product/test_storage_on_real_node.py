"""Storages with bytes on them: containers fill, copy, wipe, share and read them."""

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import RECOVERY_NONCE, RECOVERY_WIPE
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.control import HttpAddress
from gpuruntime.desired.storage.accessor import accessor_name
from gpuruntime.gateway.signing.keys import SigningKey
from gpuruntime.kube import MergePatch
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.processes.access_gateway import AccessGatewayConfig, build_access_gateway
from gpuruntime.processes.config.accessor_section import Accessor
from gpuruntime.service.errors import StorageInUseError
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from hack.dev.checkout_image import add_checkout_image
from tests.control.scenes import managing
from tests.ports import free_port
from tests.product.real_storage_scenes import RealStorages, content_of, real_storages
from tests.product_scenes import eventually
from tests.testing.node.pods import BUSYBOX

pytestmark = pytest.mark.real_node
FILL = """
cd /workspace
head -c 1000000 /dev/urandom > model
mkdir -p deep/er && cp model deep/er/part && chmod 640 deep/er/part && ln -s deep/er/part latest
"""
FAIL_UNLESS_REPEATED = """
cd /workspace
if [ -e left ]; then mv left found; exit 0; fi
echo half > left
echo the disk is full >&2
exit 3
"""
CHECKOUT = "storage-test/gpuruntime:1"
FORWARDED = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")


def program(script: str) -> dict[str, object]:
    return {"fromImage": BUSYBOX, "command": ["sh", "-euc", script]}


@pytest.fixture(scope="module")
def signing_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key of the gateway."""
    path = tmp_path_factory.mktemp("keys") / "key.pem"
    path.write_bytes(SigningKey.generate().pem)
    return path


@pytest.fixture(scope="module", autouse=True)
def images(kube_images: ImageStore) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    add_checkout_image(kube_images, CHECKOUT)


@pytest.fixture
async def world(
    product: ClusterAccess,
    kube_images: ImageStore,
    kube_namespace: str,
    stock_namespace: str,
    tmp_path: Path,
    signing_key: Path,
) -> AsyncIterator[RealStorages]:
    """The product at work, with accessors that trust the key."""
    accessor = Accessor(CHECKOUT, (SigningKey.read(signing_key).public_text,))
    volumes = kube_images.directory.parent / "volumes"
    async with real_storages(product, kube_namespace, stock_namespace, volumes, tmp_path, accessor) as made:
        yield made


async def test_an_image_fills_a_storage_a_copy_has_the_same_bytes_and_deletion_removes_them(
    world: RealStorages,
) -> None:
    world.create("model", prepare=program(FILL))
    world.create("copy", prepare={"fromStorageName": "model"})

    await world.because("copy", reasons.STORAGE_READY)
    directories = [await world.directory(name) for name in ("model", "copy")]
    model, copy = (content_of(directory) for directory in directories)
    await world.delete("model")
    left = (directories[1] / "model").stat().st_size
    await world.delete("copy")

    assert model == copy
    assert {path: text.partition(" ")[0] for path, text in model.items()} == {
        "deep": "0o40755",
        "deep/er": "0o40755",
        "deep/er/part": "0o100640",
        "latest": "link",
        "model": "0o100644",
    }
    assert left == 1_000_000
    for directory in directories:
        await removed(directory)


async def removed(directory: Path) -> None:
    """Returns when a directory is gone. The provisioner removes it after the claim: there is no event to await."""
    await eventually(lambda: not directory.exists())


async def test_a_recovery_wipes_what_the_failed_attempt_left_unless_it_is_asked_to_keep_it(world: RealStorages) -> None:
    world.create("data", prepare=program(FAIL_UNLESS_REPEATED))
    failed = await world.because("data", reasons.PREPARE_FAILED, attempts=1)
    directory = await world.directory("data")
    (directory / "deep").mkdir()
    (directory / "deep" / ".hidden").write_text("of the first attempt")

    await recover(world, "data", "wiping", wipe=True)
    await world.because("data", reasons.PREPARE_FAILED, attempts=2)
    wiped = content_of(directory)
    (directory / "kept").write_text("of the second attempt")
    await recover(world, "data", "keeping", wipe=False)
    await world.because("data", reasons.STORAGE_READY, attempts=3)

    assert failed.status.prepare is not None
    assert "exit code 3: the disk is full" in (failed.status.prepare.message or "")
    assert list(wiped) == ["left"]
    assert list(content_of(directory)) == ["found", "kept"]


async def recover(world: RealStorages, name: str, nonce: str, *, wipe: bool) -> None:
    """Ask for another attempt, as `kubectl annotate` does."""
    annotations = {RECOVERY_NONCE: nonce, RECOVERY_WIPE: None if wipe else "false"}
    await world.client.patch(GPUStorage, name, world.namespace, MergePatch({"metadata": {"annotations": annotations}}))


async def test_one_unit_writes_at_a_time_the_next_one_finds_the_data_and_the_gateway_serves_it(
    world: RealStorages, signing_key: Path
) -> None:
    world.create("data", accessor={"enabled": True})
    world.create_unit("one", "echo one >> /data/log; sleep 3600", "data", image=BUSYBOX)
    await world.observer.ready(world.key("one"))
    world.create_unit("two", "echo two >> /data/log; sleep 3600", "data", image=BUSYBOX)

    await world.observer.because(world.key("two"), reasons.STORAGE_IN_USE)
    spec = GPUUnitSpec("g1.1", image=BUSYBOX, storage_mounts=(StorageMount("data", "/data"),))
    wanted = CreateUnit("three", spec, world.namespace, world.namespaces.stock[0], cold_start=True)
    with pytest.raises(StorageInUseError, match="gpuunits/one"):
        await world.server.service.units.create("three", wanted)
    alone = (await world.directory("data") / "log").read_text()
    await world.client.delete(GPUUnit, "one", world.namespace)
    await world.observer.ready(world.key("two"))
    await world.until(
        "data",
        "has an accessor",
        lambda found: found.status.accessor is not None and found.status.accessor.phase == "Ready",
    )
    async with gateway(world, signing_key) as (through, directly):
        served = await asyncio.to_thread(fetch, f"{through}/storage/{world.namespace}/data/log")
        listed = await asyncio.to_thread(fetch, f"{through}/storage/{world.namespace}/data/")
        unsigned = await asyncio.to_thread(fetch, f"{directly}/files/log")
    directory = await world.directory("data")
    await world.client.delete(GPUUnit, "two", world.namespace)
    await world.until("data", "is free", lambda found: found.status.attached_to is None)
    await world.delete("data")

    assert alone == "one\n"
    assert served == (200, "one\ntwo\n")
    assert (listed[0], unsigned[0]) == (200, 401)
    assert '"log"' in listed[1]
    await removed(directory)


@asynccontextmanager
async def gateway(world: RealStorages, signing_key: Path) -> AsyncIterator[tuple[str, str]]:
    """The URLs of an access gateway, and of the accessor of storage data, which it reaches by a port-forward."""
    command = [str(world.access.binaries / "kubectl"), "--kubeconfig", str(world.access.kubeconfig)]
    target = ["port-forward", "--namespace", world.namespace, f"service/{accessor_name('data')}", ":8080"]
    forward = await asyncio.create_subprocess_exec(*command, *target, stdout=asyncio.subprocess.PIPE)
    assert forward.stdout is not None
    try:
        match = FORWARDED.match(await forward.stdout.readline())
        assert match is not None
        directly = f"http://127.0.0.1:{match[1].decode()}"

        class Forwarded:
            def url(self, _storage: GPUStorage) -> str:
                return directly

        address = HttpAddress("127.0.0.1", free_port())
        config = AccessGatewayConfig(namespaces=world.namespaces, http_addr=address, signing_key_file=signing_key)
        built = build_access_gateway(from_kubeconfig(world.access.kubeconfig), config)
        built.serve(config, Forwarded())
        async with managing(built.manager):
            await built.storages.synced()
            yield f"http://127.0.0.1:{address.port}", directly
    finally:
        forward.terminate()
        await forward.wait()


def fetch(url: str) -> tuple[int, str]:
    """Status and body of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310 - an http address
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
