"""Event streams of units, on a real control plane: no event is missing, repeated or out of order."""

from pathlib import Path

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.kube import Client
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectMeta
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.faults import DieAtOnce, FailRequests, HoldEvents
from tests.control.scenes import eventually, open_transport, proxied
from tests.service.service_scenes import ServiceWorld
from tests.web.resource_scenes import Event, serving
from tests.web.stream_scenes import replica


async def make(client: Client, namespace: str, name: str) -> str:
    """Create a unit; returns its version."""
    unit = await client.create(GPUUnit(ObjectMeta(name=name, namespace=namespace), GPUUnitSpec("g1.1", image="one")))
    return unit.metadata.resource_version


async def change(client: Client, namespace: str, name: str, image: str) -> str:
    """Change the image of a unit; returns its version."""
    changed = await client.patch(GPUUnit, name, namespace, MergePatch({"spec": {"image": image}}))
    return changed.metadata.resource_version


def summary(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.name, event.data.get("name", ""), event.data.get("image", "")) for event in events]


async def test_a_client_that_resumes_gets_exactly_the_events_it_missed(
    product: ClusterAccess, kube_namespace: str
) -> None:
    async with (
        open_transport(product) as transport,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace) as process,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace) as other,
    ):
        client = Client(transport, field_manager="tests")
        await process.sees(await make(client, kube_namespace, "a"))

        async with process.follow() as events:
            state = await events.until("synced")
            version = await change(client, kube_namespace, "a", "two")
            live = await events.next()
        await other.sees(version)
        await change(client, kube_namespace, "a", "three")
        await make(client, kube_namespace, "b")
        await client.delete(GPUUnit, "a", kube_namespace)
        last = await make(client, kube_namespace, "c")
        async with process.follow(live.id) as events, other.follow(live.id) as elsewhere:
            missed = [await events.next() for _ in range(4)]
            also = [await elsewhere.next() for _ in range(4)]

    assert summary(state) == [("reset", "", ""), ("added", "a", "one"), ("synced", "", "")]
    assert (live.name, live.id, live.data["image"]) == ("modified", version, "two")
    assert summary(missed) == [
        ("modified", "a", "three"),
        ("added", "b", "one"),
        ("deleted", "a", "three"),
        ("added", "c", "one"),
    ]
    assert [int(event.id) for event in missed] == sorted(int(event.id) for event in missed)
    assert missed[-1].id == last
    assert also == missed


async def test_changes_in_other_namespaces_are_not_sent_and_do_not_fill_the_log(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str
) -> None:
    async with (
        open_transport(product) as transport,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace, kept=2, beside=stock_namespace) as process,
    ):
        client = Client(transport, field_manager="tests")
        first = await make(client, kube_namespace, "a")
        await process.sees(first)

        async with process.follow() as events:
            state = await events.until("synced")
        for name in ("x", "y", "z"):
            await make(client, stock_namespace, name)
        last = await change(client, kube_namespace, "a", "two")
        await make(client, stock_namespace, "later")
        async with process.follow(state[-1].id) as events:
            missed = await events.next()

    assert summary(state) == [("reset", "", ""), ("added", "a", "one"), ("synced", "", "")]
    assert state[-1].id == first
    assert (missed.name, missed.id, missed.data["image"]) == ("modified", last, "two")


async def test_a_client_that_was_away_too_long_gets_the_full_state(product: ClusterAccess, kube_namespace: str) -> None:
    async with (
        open_transport(product) as transport,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace, kept=2) as process,
    ):
        client = Client(transport, field_manager="tests")
        first = await make(client, kube_namespace, "a")
        versions = [await change(client, kube_namespace, "a", image) for image in ("two", "three", "four")]
        await process.sees(versions[-1])

        async with process.follow(first) as events:
            late = await events.until("synced")
        async with process.follow("no version") as events:
            strange = await events.until("synced")

    anew = [("reset", "", ""), ("added", "a", "four"), ("synced", "", "")]
    assert (summary(late), summary(strange)) == (anew, anew)


async def test_a_client_from_a_replica_that_was_ahead_never_sees_an_older_state(
    product: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async with (
        open_transport(product) as transport,
        proxied(product, tmp_path) as (proxy, credentials),
        replica(credentials, kube_namespace) as process,
    ):
        client = Client(transport, field_manager="tests")
        await process.sees(await make(client, kube_namespace, "a"))

        with proxy.inject(HoldEvents(), watch=True) as held:
            await change(client, kube_namespace, "a", "two")
            known = await change(client, kube_namespace, "a", "three")
            async with process.follow(known) as events:
                state = await events.until("synced")
                behind = process.reads.informer.store.resource_version
                await change(client, kube_namespace, "a", "four")
                held.lift()
                rest = await events.next()

    assert summary(state) == [("reset", "", ""), ("added", "a", "three"), ("synced", "", "")]
    assert int(behind) < int(known) <= int(state[-1].id)
    assert summary([rest]) == [("modified", "a", "four")]


async def test_a_client_that_disconnects_within_the_full_state_gets_all_of_it_again(
    product: ClusterAccess, kube_namespace: str
) -> None:
    async with (
        open_transport(product) as transport,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace, kept=2) as forgetful,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace) as other,
    ):
        client = Client(transport, field_manager="tests")
        versions = [await make(client, kube_namespace, name) for name in ("a", "b", "c", "d")]
        await forgetful.sees(versions[-1])
        await other.sees(versions[-1])

        async with forgetful.follow(versions[0]) as events:
            dropped = await events.until("added")
        async with other.follow(events.last) as events:
            state = [await events.next() for _ in range(3)]
        async with other.follow(versions[0]) as events:
            missed = [await events.next() for _ in range(3)]

    assert summary(dropped) == [("reset", "", ""), ("added", "a", "one")]
    assert summary(state) == [("reset", "", ""), ("added", "a", "one"), ("added", "b", "one")]
    assert summary(missed) == [("added", name, "one") for name in ("b", "c", "d")]


async def test_with_several_namespaces_the_full_state_is_not_older_than_the_version_in_the_request(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str, tmp_path: Path
) -> None:
    async with (
        open_transport(product) as transport,
        proxied(product, tmp_path) as (proxy, credentials),
        replica(credentials, kube_namespace, also=stock_namespace) as process,
    ):
        client = Client(transport, field_manager="tests")
        await make(client, kube_namespace, "a")
        await eventually(lambda: len(process.reads.informer.store) == 1)
        quiet = await make(client, stock_namespace, "b")
        await eventually(lambda: len(process.reads.informer.store) == 2)

        async with process.follow(quiet) as events:
            before = await events.until("synced")
        with proxy.inject(HoldEvents(), watch=True) as held:
            known = await change(client, kube_namespace, "a", "two")
            async with process.follow(known) as events:
                state = await events.until("synced")
                await client.delete(GPUUnit, "b", stock_namespace)
                held.lift()
                gone = await events.next()

    full = [("reset", "", ""), ("added", "a", "one"), ("added", "b", "one"), ("synced", "", "")]
    assert sorted(summary(before)) == sorted(full)
    assert ("added", "a", "two") in summary(state)
    assert min(int(event.data["resourceVersion"]) for event in (state[0], state[-1])) >= int(known)
    assert summary([gone]) == [("deleted", "b", "one")]
    assert {event.id for event in (*before, *state, gone)} == {""}


async def test_a_gap_in_the_watch_sends_the_full_state_to_every_client(
    product: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async with (
        open_transport(product) as transport,
        proxied(product, tmp_path) as (proxy, credentials),
        replica(credentials, kube_namespace) as process,
    ):
        client = Client(transport, field_manager="tests")
        await process.sees(await make(client, kube_namespace, "a"))

        async with process.follow() as events:
            before = await events.until("synced")
            with proxy.inject(DieAtOnce()):
                await client.delete(GPUUnit, "a", kube_namespace)
                await make(client, kube_namespace, "b")
                forgotten = proxy.inject(FailRequests(410, times=1), watch=True)
            after = await events.until("synced")
            forgotten.lift()

    assert summary(before) == [("reset", "", ""), ("added", "a", "one"), ("synced", "", "")]
    assert summary(after) == [("reset", "", ""), ("added", "b", "one"), ("synced", "", "")]


async def test_the_api_streams_active_units_and_single_units(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        await api.create("make-a", "a")
        await api.create("make-b", "b", labels={"tier": "gold"})

        async with (
            api.follow(f"/gpu-units?watch=1&namespace={world.active}&labelSelector=tier%3Dgold") as gold,
            api.follow(f"/gpu-units/a/watch?namespace={world.active}") as one,
        ):
            # What was just made is in the state, or comes right after it.
            state = [(await gold.until("added"))[-1], (await one.until("added"))[-1]]
            await api.call("PUT", api.unit("b"), {"labels": {}})
            left = await gold.until("deleted")
            await api.call("DELETE", api.unit("a"))
            gone = await one.until("deleted")
            async with api.follow(f"/gpu-units?watch=1&namespace={world.active}", last=left[-1].id) as back:
                resumed = await back.until("deleted")
        missing = await api.call("GET", f"/gpu-units/missing/watch?namespace={world.active}")
        foreign = await api.call("GET", "/gpu-units/a?namespace=kube-system")

    assert {event.data["name"] for event in state} == {"a", "b"}
    assert left[-1].data["name"] == "b"
    assert {event.data["name"] for event in gone if event.name != "synced"} == {"a"}
    assert "reset" not in {event.name for event in resumed}
    assert resumed[-1].data["name"] == "a"
    assert [(answer.status, answer.code) for answer in (missing, foreign)] == [(404, "gpuunit_not_found")] * 2
