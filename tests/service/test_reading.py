"""Reads of a cache of two namespaces, of which one is quiet. Nobody answers but the cache."""

from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Cache
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.service.reading import Reads
from gpuruntime.testing.virtual_time import run_virtual


class Silent:
    """A wire that leads nowhere."""

    async def request(self, method: str, path: str, **_: Any) -> Any:
        raise UnavailableError(f"{method} {path}: nobody is there")

    def stream(self, path: str, **_: Any) -> Any:
        raise NotImplementedError(path)


async def reads() -> Reads[GPUUnit]:
    """Reads of units: the busy namespace is at version 20, the quiet one still at 10."""
    informer = Cache(Silent()).informer(GPUUnit, namespaces=["busy", "quiet"])
    for part, version in zip(informer._parts, ("20", "10"), strict=True):
        await part.replace(part.draft(), version)
    return Reads(informer, Client(Silent(), field_manager="test"), GPUUnit)


def test_a_list_of_a_namespace_waits_for_that_one_only_and_says_what_it_shows() -> None:
    async def story() -> None:
        units = await reads()

        page = await units.page(lambda _: True, limit=10, namespace="busy", at_least="20")

        assert (page.items, page.version) == ((), "20")

    run_virtual(story())


@pytest.mark.parametrize("namespace", ["quiet", None])
def test_a_list_that_may_lack_something_is_not_taken_from_the_cache(namespace: str | None) -> None:
    async def story() -> None:
        units = await reads()

        with pytest.raises(UnavailableError):
            await units.page(lambda _: True, limit=10, namespace=namespace, at_least="20")

    run_virtual(story())
