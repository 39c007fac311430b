"""Reads of a cache of two namespaces, of which one is quiet and the API server is down; cursors."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Cache
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.service.reads.reader import CursorError, Reads, cursor_of, parse_cursor
from gpuruntime.testing.virtual_time import run_virtual


class Silent:
    """A transport without a server, which records the requests."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, request: Request) -> Any:
        self.sent.append(str(request))
        raise UnavailableError(f"{request}: no server")

    def stream(self, request: Request, *, idle_timeout: float) -> Any:
        raise NotImplementedError(request, idle_timeout)


async def reads(*namespaces: str) -> Reads[GPUUnit]:
    """Reads of units in these namespaces: the busy namespace is at version 20, the quiet one still at 10."""
    informer = Cache(Silent()).informer(GPUUnit, namespaces=["busy", "quiet"])
    writer = informer._writer
    for namespace, version in (("busy", "20"), ("quiet", "10")):
        await writer.replace(namespace, writer.new_indexer(), version)
    return Reads(informer, Client(Silent(), field_manager="test"), GPUUnit, namespaces)


def test_a_list_of_a_namespace_waits_for_that_one_only_and_has_its_version() -> None:
    async def story() -> None:
        units = await reads()

        page = await units.page(lambda _: True, limit=10, namespace="busy", at_least="20")

        assert (page.items, page.version) == ((), "20")

    run_virtual(story())


def test_a_list_of_some_namespaces_does_not_wait_for_the_others() -> None:
    async def story() -> None:
        units = await reads("busy")

        page = await units.page(lambda _: True, limit=10, at_least="20")

        assert (page.items, page.version) == ((), "20")
        assert asyncio.get_running_loop().time() == 0

    run_virtual(story())


def test_a_list_of_all_namespaces_reads_those_live_that_lag_at_once() -> None:
    async def story() -> None:
        units = await reads()

        with pytest.raises(UnavailableError, match="namespaces/quiet"):
            await units.page(lambda _: True, limit=10, at_least="20")

        assert asyncio.get_running_loop().time() == 0

    run_virtual(story())


@pytest.mark.parametrize("namespace", ["quiet", None])
def test_a_list_of_a_lagging_namespace_is_not_served_from_the_cache(namespace: str | None) -> None:
    async def story() -> None:
        units = await reads()

        with pytest.raises(UnavailableError):
            await units.page(lambda _: True, limit=10, namespace=namespace, at_least="20")

    run_virtual(story())


@pytest.mark.parametrize(("is_final", "asked"), [(True, 0), (False, 1)])
def test_a_state_that_is_not_final_is_read_live_and_served_while_the_server_is_down(is_final: bool, asked: int) -> None:
    async def story() -> None:
        wire = Silent()
        informer = Cache(wire).informer(GPUUnit, namespaces=["busy"])
        writer = informer._writer
        listed = writer.new_indexer()
        spec = {"specName": "s", "cpu": "1", "memory": "1Gi", "gpu": 1}
        listed.put(
            listed.entry({"metadata": {"name": "x", "namespace": "busy", "resourceVersion": "7"}, "spec": spec}, 1)
        )
        await writer.replace("busy", listed, "7")
        units = Reads(informer, Client(wire, field_manager="test"), GPUUnit)

        seen = await units.get_newest(ObjectKey("busy", "x"), "", lambda _: is_final)

        assert seen.object.metadata.resource_version == "7"
        assert len(wire.sent) == asked

    run_virtual(story())


@given(st.text(st.characters(codec="ascii", exclude_characters="/")), st.text(st.characters(codec="ascii")))
def test_a_cursor_parses_to_its_key(namespace: str, name: str) -> None:
    key = ObjectKey(namespace, name)

    cursor = cursor_of(key)

    assert parse_cursor(cursor) == key
    assert cursor.replace("-", "").replace("_", "").isalnum()


@given(st.text())
def test_any_other_text_raises_a_cursor_error_and_nothing_else(text: str) -> None:
    try:
        found = parse_cursor(text)
    except CursorError:
        return

    assert cursor_of(found) == text


@pytest.mark.parametrize("text", ["", "a", "abc", "YQ", "YS9i=", "YS9j\n", "YS9i" * 1000])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorError, match="`next`"):
        parse_cursor(text)
