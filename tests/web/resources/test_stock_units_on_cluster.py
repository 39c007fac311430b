"""Stock and jobs over HTTP, on a real control plane."""

from datetime import UTC, datetime

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.desired.provenance import Claim
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey
from tests.service.service_scenes import ServiceWorld
from tests.web.resource_scenes import serving


async def test_a_batch_is_accepted_replayed_and_shown_as_a_job(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        accepted = await api.seed("stock-1", 3)
        await world.ended(product, "stock-1")
        again = await api.seed("stock-1", 3)
        changed = await api.seed("stock-1", 4)
        job = await api.call("GET", "/operator/jobs/stock-1")
        await product.service.unit_reads.informer.until(lambda store: len(store.list(world.stock).items) == 3)
        listed = await api.call("GET", f"/operator/stock-units?namespace={world.stock}&limit=2")
        unit = listed.data[0]
        one = await api.call("GET", api.stock("stock-units", unit["name"]))
        elsewhere = await api.call("GET", f"/gpu-units/{unit['name']}?namespace={world.stock}")
        faulty = await api.seed("stock-2", 0, image="nginx", memory="much")

    assert (accepted.status, again.status, changed.status, changed.code) == (202, 200, 409, "operation_conflict")
    assert accepted.data["status"] in {"pending", "running"}
    assert accepted.headers["Location"] == "/api/v1/operator/jobs/stock-1"
    assert accepted.data["objectName"] == job.data["objectName"]
    assert (job.data["id"], job.data["operationID"], job.data["type"]) == ("stock-1", "stock-1", "seed_stock_units")
    assert (job.data["status"], job.data["progress"]) == ("succeeded", {"done": 3, "total": 3})
    assert (job.data["objectNamespace"], again.data["status"]) == (world.stock, "succeeded")
    assert unit["name"] == f"{job.data['objectName']}-001"
    assert (unit["lifecycle"], unit["operationID"], "accessURL" in unit) == ("stock", "stock-1", False)
    assert one.data["uid"] == unit["uid"]
    assert listed.json["next"]
    assert (elsewhere.status, elsewhere.code) == (404, "gpuunit_not_found")
    assert (faulty.status, faulty.paths) == (400, {"$.replicas", "$.image", "$.memory"})


async def test_free_stock_is_deleted_once_and_claimed_stock_is_not(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        await api.seed("stock", 2)
        await world.ended(product, "stock")
        free, claimed = sorted(await world.units(world.stock))
        claim = Claim("another", "op-another", ObjectKey(world.active, "demo"))
        notes = MergePatch({"metadata": {"annotations": dict(claim.annotations(datetime.now(UTC)))}})
        await world.admin.patch(GPUUnit, claimed, world.stock, notes)

        gone = await api.call("DELETE", api.stock("stock-units", free), Idempotency_Key="drop")
        again = await api.call("DELETE", api.stock("stock-units", free), Idempotency_Key="drop")
        other = await api.call("DELETE", api.stock("stock-units", free), Idempotency_Key="drop-2")
        kept = await api.call("DELETE", api.stock("stock-units", claimed))

    assert (gone.status, again.status, gone.headers["Idempotency-Key"]) == (204, 204, "drop")
    assert (other.status, other.code) == (404, "stockunit_not_found")
    assert (kept.status, kept.code) == (409, "stock_claimed")


async def test_jobs_are_listed_newest_first_in_pages(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        for number in range(3):
            await api.create(f"make-{number}", f"unit-{number}")
            await world.ended(product, f"make-{number}")
        first = await api.call("GET", "/operator/jobs?limit=2&type=create_gpu_unit&status=succeeded")
        last = await api.call("GET", f"/operator/jobs?limit=2&type=create_gpu_unit&cursor={first.json['next']}")
        failed = await api.call("GET", "/operator/jobs?status=failed")
        missing = await api.call("GET", "/operator/jobs/never")

    jobs = [*first.data, *last.data]
    assert {job["operationID"] for job in jobs} == {"make-0", "make-1", "make-2"}
    assert [job["createdAt"] for job in jobs] == sorted((job["createdAt"] for job in jobs), reverse=True)
    assert "next" not in last.json
    assert failed.data == []
    assert (missing.status, missing.code) == (404, "job_not_found")
