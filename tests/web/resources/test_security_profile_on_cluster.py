"""The security profile of units over HTTP: a claim chooses it."""

from typing import Any

from gpuruntime.meta import ObjectKey
from tests.product_scenes import Observer
from tests.service.service_scenes import ServiceWorld, seeded
from tests.web.resource_scenes import serving

WARM: dict[str, Any] = {"coldStart": None, "cpu": None, "memory": None}


async def test_a_claim_chooses_the_security_profile_of_its_unit(world: ServiceWorld, observer: Observer) -> None:
    for namespace in (world.active, world.stock):
        world.access.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    async with world.product() as product, serving(product, world) as api:
        (name,) = await seeded(world, product, observer, 1)
        stock = await api.call("GET", api.stock("stock-units", name))

        wrong = await api.create("order-0", "demo", **WARM, securityProfile="restricted")
        made = await api.create("order-1", "demo", "?wait=Ready", **WARM, securityProfile="Restricted")
        changed = await api.call("PUT", api.unit("demo"), {"securityProfile": None})
        await api.call("DELETE", api.unit("demo"))
        await observer.units.until(lambda store: ObjectKey(world.stock, name) in store)

    assert stock.data["securityProfile"] == "Restricted"
    assert (wrong.status, wrong.paths) == (400, {"$.securityProfile"})
    assert (made.status, made.data["phase"], made.data["securityProfile"]) == (201, "Ready", "Restricted")
    assert (changed.status, changed.data["securityProfile"]) == (200, "Baseline")
