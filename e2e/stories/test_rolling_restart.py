"""Every process is replaced while clients use the product."""

import asyncio
from collections import Counter
from typing import Any, Final

import pytest

from e2e.audit_trail import AuditTrail, made_twice, out_of_term
from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.names import CONTROLLERS, INSTANCES, LEASE, OPERATION_ID, RUNTIME_APIS, SOURCE_STOCK_UID
from e2e.stories.load import Load
from e2e.stories.orders import SMALL

ACCOUNT: Final = "gpuruntime-controller-manager"


@pytest.mark.parametrize(
    ("rounds", "clients"),
    [
        pytest.param(1, 4, id="once"),
        pytest.param(10, 20, id="ten times", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_no_request_fails_twice_and_nothing_is_lost_while_everything_is_restarted(
    disturbed: Installation, trail: AuditTrail, mark: str, rounds: int, clients: int
) -> None:
    pool = {"operationID": f"make-{mark}", "name": f"load-{mark}", "specName": f"stock-{mark}", "replicas": 8, **SMALL}
    disturbed.api.post("/operator/stockpools", pool)
    disturbed.cluster.stock(f"stock-{mark}", 8)
    load = Load(disturbed, mark)

    working = [asyncio.create_task(load.client()) for _ in range(clients)]
    for process in (RUNTIME_APIS, CONTROLLERS) * rounds:
        await asyncio.to_thread(disturbed.replicas.roll, process)
    for task in working:
        task.cancel()
    ends = await asyncio.gather(*working, return_exceptions=True)

    units = await asyncio.to_thread(eventually, lambda: ready_units(disturbed, load), "units that are all ready")
    sources = [unit["metadata"]["annotations"].get(SOURCE_STOCK_UID) for unit in units]
    writes = trail.writes()
    assert {type(end) for end in ends} == {asyncio.CancelledError}
    assert (load.failed, wrong_ones(load)) == ([], [])
    assert load.told.items() <= {(mark_of(unit), unit["metadata"]["uid"]) for unit in units}
    assert max(Counter(map(mark_of, units)).values()) == 1
    assert max(Counter(source for source in sources if source).values()) == 1
    assert (out_of_term(writes, ACCOUNT, LEASE), made_twice(writes, ACCOUNT)) == ([], [])


def wrong_ones(load: Load) -> list[str]:
    """Answers that no client should get. That stock runs out for a moment is none of them."""
    return [words for words in load.wrong if "insufficient_capacity" not in words]


def mark_of(unit: Any) -> str:
    return str(unit["metadata"]["annotations"][OPERATION_ID])


def ready_units(installation: Installation, load: Load) -> list[Any]:
    """All units of the load, once every one of them is ready; [] before."""
    specs = {f"cold-{load.mark}", f"stock-{load.mark}"}
    units = [unit for unit in installation.cluster.units(INSTANCES) if unit["spec"]["specName"] in specs]
    return units if all(unit.get("status", {}).get("phase") == "Ready" for unit in units) else []
