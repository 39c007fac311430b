"""A unit's life on a real control plane. After each scene an operator starts anew, and writes nothing."""

from collections import Counter

from gpuruntime.api import reasons
from gpuruntime.meta import encode
from tests.product_scenes import UNITS, Observer, create_unit, ready_reason, settled
from tests.reconcilers.unit_scenes import UnitWorld, child_of, deployment_of, rolled_out

PORTS = [{"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
LONG = "a-unit-with-a-name-that-is-longer-than-any-label-may-be-which-is-legal"


async def test_a_new_unit_gets_its_children_and_becomes_ready(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    with world.audit.recording() as seen:
        async with world.operator():
            key = create_unit(admin, kube_namespace, "demo", gpu=1, image="nginx", template={"ports": PORTS})

            unit = await observer.ready(key)

    written = Counter(write.resource for write in seen.writes(user=world.account.username))
    assert (unit.status.phase, unit.status.ready_replicas, unit.status.observed_generation) == ("Ready", 1, 1)
    assert unit.status.service_name == "unit-demo"
    assert unit.status.access_url == f"http://unit-demo.{kube_namespace}.svc.cluster.local:8080"
    assert (written["deployments"], written["services"], written["events"]) == (1, 1, 1)
    assert await world.writes_of_a_second_pass() == []


async def test_a_stock_unit_holds_its_capacity_without_a_service(
    world: UnitWorld, observer: Observer, stock_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator():
        key = create_unit(admin, stock_namespace, "reserve", gpu=1, template={"ports": PORTS})

        unit = await observer.ready(key)

    assert ready_reason(unit) == reasons.STOCK_READY
    assert (unit.status.service_name, unit.status.access_url) == (None, None)
    assert child_of(key) not in observer.services.store
    assert await world.writes_of_a_second_pass() == []


async def test_a_stock_unit_that_is_claimed_says_so_until_it_is_released(
    world: UnitWorld, observer: Observer, stock_namespace: str
) -> None:
    admin, path = world.access.admin(), f"{UNITS.format(stock_namespace)}/reserve"
    claim = "runtime.lokiwager.io/stock-claim-id"
    async with world.operator():
        key = create_unit(admin, stock_namespace, "reserve")
        await observer.ready(key)

        admin.merge(path, {"metadata": {"annotations": {claim: "order-7"}}})
        claimed = await observer.because(key, reasons.STOCK_CLAIMED, "order-7")
        admin.merge(path, {"metadata": {"annotations": {claim: None}}})
        await observer.ready(key)

    assert claimed.status.phase == "Progressing"
    assert await world.writes_of_a_second_pass() == []


async def test_a_service_comes_and_goes_with_the_ports(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin, path = world.access.admin(), f"{UNITS.format(kube_namespace)}/demo"
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo")
        without = await observer.ready(key)

        admin.merge(path, {"spec": {"template": {"ports": PORTS}}})
        await observer.until(key, "has a URL", lambda unit: unit.status.access_url is not None)
        reachable = await observer.ready(key)
        await observer.services.until(lambda store: child_of(key) in store)
        admin.merge(path, {"spec": {"template": {"ports": []}}})
        await observer.services.until(lambda store: child_of(key) not in store)
        await observer.until(key, "has no URL", lambda unit: unit.status.access_url is None)
        await observer.ready(key)

    assert (without.status.service_name, without.status.access_url) == (None, None)
    assert reachable.status.service_name == "unit-demo"
    assert await world.writes_of_a_second_pass() == []


async def test_a_service_that_is_deleted_is_created_again(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})
        await observer.ready(key)
        deleted = observer.services.store.version_of(child_of(key))

        world.access.kubectl("delete", "service", "unit-demo", "-n", kube_namespace)
        await observer.services.until(lambda store: store.version_of(child_of(key)) not in {None, deleted})

    assert await world.writes_of_a_second_pass() == []


async def test_a_deployment_that_is_changed_is_repaired(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    drifts = {
        "scaled": ("scale", "deployment/unit-scaled", "--replicas=3"),
        "another": ("set", "image", "deployment/unit-another", "runtime-worker=somebody/else"),
        "bigger": ("set", "env", "deployment/unit-bigger", "GPU_COUNT=8"),
        "paused": ("rollout", "pause", "deployment/unit-paused"),
    }
    async with world.operator() as operator:
        keys = [create_unit(admin, kube_namespace, name, image="nginx") for name in drifts]
        for key in keys:
            await observer.ready(key)
        before = [deployment_of(observer, key) for key in keys]

        for drift in drifts.values():
            world.access.kubectl(*drift, "-n", kube_namespace)
        for key, was in zip(keys, before, strict=True):
            await rolled_out(observer, key, was.metadata.generation + 2)
        await settled(world.access, operator.controller)
        for key in keys:
            await observer.ready(key)

    assert [encode(deployment_of(observer, key).spec) for key in keys] == [encode(was.spec) for was in before]
    assert operator.controller.counters.hot_loops == 0
    assert await world.writes_of_a_second_pass(len(keys)) == []


async def test_a_deployment_that_is_deleted_is_created_again(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo")
        await observer.ready(key)
        first = deployment_of(observer, key)

        world.access.kubectl("delete", "deployment", "unit-demo", "-n", kube_namespace)
        await observer.because(key, reasons.UNIT_PROGRESSING)
        await observer.ready(key)

    assert deployment_of(observer, key).metadata.uid != first.metadata.uid
    assert await world.writes_of_a_second_pass() == []


async def test_names_that_are_too_long_or_have_dots_stay_unique(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    names = [f"{LONG}-1", f"{LONG}-2", "model.v1", "model-v1"]
    async with world.operator():
        keys = [create_unit(admin, kube_namespace, name, template={"ports": PORTS}) for name in names]

        units = [await observer.ready(key) for key in keys]

    services = {unit.status.service_name for unit in units}
    assert len(services) == len(names)
    assert all(len(name or "") <= 63 for name in services)
    assert await world.writes_of_a_second_pass(len(names)) == []


async def test_deleting_a_unit_removes_all_that_it_owned(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})
        await observer.ready(key)

        admin.delete(f"{UNITS.format(kube_namespace)}/demo")
        for informer in (observer.units, observer.deployments, observer.services, observer.pods):
            await informer.until(lambda store: not len(store))

    assert await world.writes_of_a_second_pass(0) == []


async def test_a_unit_that_is_made_again_at_once_waits_for_what_the_first_one_owned(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})
        first = await observer.ready(key)

        admin.delete(f"{UNITS.format(kube_namespace)}/demo")
        create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})
        await observer.until(key, "is another one", lambda unit: unit.metadata.uid != first.metadata.uid)
        second = await observer.ready(key)

    (owner,) = deployment_of(observer, key).metadata.owner_references
    assert owner.uid == second.metadata.uid
    assert await world.writes_of_a_second_pass() == []


async def test_a_spec_that_no_schema_refuses_changes_nothing_until_it_is_mended(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin, path = world.access.admin(), f"{UNITS.format(kube_namespace)}/demo"
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})
        before = await observer.ready(key)
        running = deployment_of(observer, key)

        admin.merge(path, {"spec": {"image": "nginx:2", "runtimeClassName": "No_Such Name"}})
        broken = await observer.because(key, reasons.INVALID_SPEC, "spec.runtimeClassName")
        left_alone = deployment_of(observer, key)
        admin.merge(path, {"spec": {"runtimeClassName": None}})
        mended = await observer.ready(key)

    assert left_alone.metadata.uid == running.metadata.uid
    assert left_alone.metadata.generation == running.metadata.generation
    assert (broken.status.phase, broken.status.observed_generation, broken.status.ready_replicas) == ("Failed", 1, 1)
    assert broken.status.access_url == before.status.access_url
    assert mended.status.observed_generation == mended.metadata.generation == 3
    assert deployment_of(observer, key).spec.template.spec.containers[0].image == "nginx:2"
    assert await world.writes_of_a_second_pass() == []
