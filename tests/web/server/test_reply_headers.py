from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Cache
from gpuruntime.kube.client import Client
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.service.reads.reader import Reads
from gpuruntime.testing.virtual_time import run_virtual
from gpuruntime.web.server.reply_headers import of_deletion


def test_a_deletion_is_shown_by_the_version_of_its_own_namespace() -> None:
    async def story() -> None:
        wire = None  # what the cache shows needs no wire
        informer = Cache(wire).informer(GPUUnit, namespaces=["busy", "quiet"])  # type: ignore[arg-type]  # see wire
        writer = informer._writer
        for namespace, version in (("busy", "20"), ("quiet", "10")):
            await writer.replace(namespace, writer.new_indexer(), version)
        reads = Reads(informer, Client(wire, field_manager="test"), GPUUnit)  # type: ignore[arg-type]  # see wire

        headers = await of_deletion(reads, ObjectKey("busy", "demo"), "uid")

        assert headers["X-Resource-Version"] == "20"

    run_virtual(story())
