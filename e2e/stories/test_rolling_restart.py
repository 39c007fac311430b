"""All processes are restarted while clients use the product."""

import asyncio
from collections import Counter
from typing import Any, Final

import pytest

from e2e.audit_trail import AuditTrail, duplicate_creations, writes_without_lease
from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.names import CONTROLLERS, INSTANCES, LEASE, OPERATION_ID, RUNTIME_APIS, SOURCE_STOCK_UID
from e2e.stories.load import Load
from e2e.stories.orders import SMALL

REQUESTS: Final = 2000
ACCOUNT: Final = "gpuruntime-controller-manager"


@pytest.mark.parametrize(
    ("rounds", "clients"),
    [
        pytest.param(1, 4, id="once"),
        pytest.param(10, 20, id="ten times", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_no_request_fails_twice_and_nothing_is_lost_while_everything_is_restarted(
    exclusive: Installation, trail: AuditTrail, suffix: str, rounds: int, clients: int
) -> None:
    pool = {
        "operationID": f"make-{suffix}",
        "name": f"load-{suffix}",
        "specName": f"stock-{suffix}",
        "replicas": 8,
        **SMALL,
    }
    exclusive.api.post("/operator/stockpools", pool)
    exclusive.cluster.stock(f"stock-{suffix}", 8)
    load = Load(exclusive, suffix)

    working = [asyncio.create_task(load.client()) for _ in range(clients)]
    for process in (RUNTIME_APIS, CONTROLLERS) * rounds:
        await asyncio.to_thread(exclusive.replicas.roll, process)
    for task in working:
        task.cancel()
    ends = await asyncio.gather(*working, return_exceptions=True)

    units = await asyncio.to_thread(eventually, lambda: ready_units(exclusive, load), "units that are all ready")
    sources = [unit["metadata"]["annotations"].get(SOURCE_STOCK_UID) for unit in units]
    writes = trail.writes()
    assert {type(end) for end in ends} == {asyncio.CancelledError}
    assert (load.failed, unexpected(load)) == ([], [])
    assert load.uids.items() <= {(operation_id_of(unit), unit["metadata"]["uid"]) for unit in units}
    assert max(Counter(map(operation_id_of, units)).values()) == 1
    assert max(Counter(source for source in sources if source).values()) == 1
    assert (writes_without_lease(writes, ACCOUNT, LEASE), duplicate_creations(writes, ACCOUNT)) == ([], [])


async def test_of_2000_requests_none_fails_twice_while_the_apis_are_restarted(
    exclusive: Installation, suffix: str
) -> None:
    load = Load(exclusive, suffix)

    readers = [asyncio.create_task(load.reader(keep_alive=number % 2 == 0)) for number in range(8)]
    await asyncio.to_thread(exclusive.replicas.roll, RUNTIME_APIS)
    while load.reads < REQUESTS:
        await asyncio.to_thread(exclusive.replicas.roll, RUNTIME_APIS)
    for task in readers:
        task.cancel()
    ends = await asyncio.gather(*readers, return_exceptions=True)

    assert {type(end) for end in ends} == {asyncio.CancelledError}
    assert (load.failed, load.wrong) == ([], [])


def unexpected(load: Load) -> list[str]:
    """Unexpected responses. A temporary lack of stock is expected."""
    return [words for words in load.wrong if "insufficient_capacity" not in words]


def operation_id_of(unit: Any) -> str:
    return str(unit["metadata"]["annotations"][OPERATION_ID])


def ready_units(installation: Installation, load: Load) -> list[Any]:
    """All units of the load if every one of them is ready, else []."""
    specs = {f"cold-{load.suffix}", f"stock-{load.suffix}"}
    units = [unit for unit in installation.cluster.units(INSTANCES) if unit["spec"]["specName"] in specs]
    return units if all(unit.get("status", {}).get("phase") == "Ready" for unit in units) else []
