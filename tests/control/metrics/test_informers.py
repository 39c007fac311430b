import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.storage import compact
from gpuruntime.control.metrics.informers import InformerCollector, InformerLabels
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.testing.scripted import Hold, added
from tests.control.operator_scenes import MAPS, scripted_cache, serve, serve_two_maps
from tests.control.scenes import running, watch

EVERYTHING = {"kind": "v1 ConfigMap", "namespaces": "", "selector": ""}


def failing(change: Change[ConfigMap]) -> None:
    raise LookupError(change.key)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"gpuruntime_informer_{name}", {**EVERYTHING, **labels})


async def test_an_informer_exports_its_size_and_freshness() -> None:
    registry = CollectorRegistry()
    async with scripted_cache() as (server, cache):
        serve_two_maps(server)
        informer = cache.informer(ConfigMap)
        InformerCollector(registry, cache, lambda: informer.health[0].last_contact + 42)
        async with running(cache):
            await cache.synced()

            assert value(registry, "synced") == 1
            assert value(registry, "objects") == 2
            assert value(registry, "bytes") == informer.store.size > 0
            assert value(registry, "quarantined") == 1
            assert value(registry, "last_contact_age_seconds") == pytest.approx(42)
            assert value(registry, "requests_total") == 2
            assert value(registry, "relists_total", cause="start") == 1
            assert value(registry, "relists_total", cause="expired") == 0
            assert value(registry, "events_total") == 0


async def test_events_and_failing_handlers_are_counted() -> None:
    registry = CollectorRegistry()
    late = {"metadata": {"name": "late", "namespace": "a", "resourceVersion": "10"}}
    async with scripted_cache() as (server, cache):
        serve(server, MAPS, "ConfigMap", [], Hold(), added(late))
        informer = cache.informer(ConfigMap)
        InformerCollector(registry, cache, asyncio.get_running_loop().time)
        await informer.subscribe(failing)
        witness = await watch(informer)
        async with running(cache):
            await cache.synced()
            server.release()
            await witness.until(bool)

            assert value(registry, "events_total") == 1
            assert value(registry, "handler_failures_total") == 1


async def test_an_informer_without_contact_is_infinitely_old() -> None:
    registry = CollectorRegistry()
    async with scripted_cache() as (_, cache):
        InformerCollector(registry, cache, asyncio.get_running_loop().time)

        cache.informer(ConfigMap)

        assert value(registry, "synced") == 0
        assert value(registry, "last_contact_age_seconds") == float("inf")
        assert value(registry, "relists_total", cause="start") == 0


async def test_informers_that_differ_only_in_form_are_exported_as_one() -> None:
    registry = CollectorRegistry()
    async with scripted_cache() as (server, cache):
        serve_two_maps(server)
        InformerCollector(registry, cache, asyncio.get_running_loop().time)
        cache.informer(ConfigMap)
        async with running(cache):
            await cache.synced()

            cache.informer(compact(ConfigMap))
            assert value(registry, "synced") == 0
            await cache.synced()

            assert value(registry, "synced") == 1
            assert value(registry, "objects") == 4
            assert value(registry, "relists_total", cause="start") == 2
            assert generate_latest(registry).decode().count("gpuruntime_informer_objects{") == 1


async def test_labels_name_the_scope() -> None:
    async with scripted_cache() as (_, cache):
        informers = [
            cache.informer(ConfigMap, namespaces=["b", "a"]),
            cache.informer(ConfigMap, labels="app=web,tier in (x,y)"),
            cache.informer(ConfigMap, fields="metadata.name=one"),
            cache.informer(ConfigMap, labels="app=web", fields="metadata.name=one"),
        ]

        labels = [InformerLabels.of(informer.scope) for informer in informers]

        assert [(label.namespaces, label.selector) for label in labels] == [
            ("a,b", ""),
            ("", "app=web,tier in (x,y)"),
            ("", "fields(metadata.name=one)"),
            ("", "app=web,fields(metadata.name=one)"),
        ]
