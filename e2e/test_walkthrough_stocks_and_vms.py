"""The walk-through of stocks and VMs, unchanged, on an empty cluster."""

from typing import Any

from e2e.cluster_view import eventually
from e2e.conftest import Terminal

HEALTH = "curl -s http://127.0.0.1:8080/api/v1/health | jq"
STOCKS = r"""
curl -s -X POST http://127.0.0.1:8080/api/v1/stocks \
  -H 'Content-Type: application/json' \
  -d '{"number":2,"specName":"g1.1","cpu":"4","memory":"16Gi","gpuType":"RTX4090","gpuNum":1}' | jq
"""
VMS = r"""
curl -s -X POST http://127.0.0.1:8080/api/v1/vms \
  -H 'Content-Type: application/json' \
  -d '{"tenantID":"tenant-a","tenantName":"team-a","specName":"g1.1"}' | jq
"""

# In a new cluster the garbage collector takes half a minute to discover our kinds.
READY = "kubectl wait gpuunits --all -n runtime-stock --for=condition=Ready --timeout=120s"


def test_a_vm_is_allocated_on_stock_and_released(terminal: Terminal) -> None:
    health = terminal.ask(HEALTH)
    early = terminal.ask(VMS)
    stocks = terminal.ask(STOCKS)
    vm = terminal.ask(VMS)
    listed = eventually(lambda: stocks_if(terminal, ["allocated", "available"]), "an allocated stock")
    ended = terminal.ask(f"curl -s -X DELETE http://127.0.0.1:8080/api/v1/vms/{vm[1]['id']}")
    terminal.type(READY)
    released = eventually(lambda: stocks_if(terminal, ["available"] * 2), "two available stocks")

    assert (health[0], health[1]["kubernetesConnected"], health[1]["nodeCount"]) == (200, True, 4)
    assert (early[0], early[1]["code"]) == (409, "insufficient_capacity")
    assert (stocks[0], [stock["status"] for stock in stocks[1]]) == (201, ["available"] * 2)
    assert (vm[0], vm[1]["tenantID"]) == (201, "tenant-a")
    assert {stock["id"]: stock.get("vmID") for stock in listed} == {
        # The API may see the second stock as ready before the first: either may be taken.
        stock["id"]: vm[1]["id"] if stock["id"] == vm[1]["stockID"] else None
        for stock in stocks[1]
    }
    assert (ended[0], ended[1]["status"]) == (200, "deleted")
    assert [stock["id"] for stock in released] == [stock["id"] for stock in stocks[1]]


def stocks_if(terminal: Terminal, statuses: list[str]) -> Any:
    """All stocks, if they have these statuses in some order; reads come from a cache, which may be a moment behind."""
    status, stocks = terminal.ask("curl -s http://127.0.0.1:8080/api/v1/stocks")
    assert status == 200
    return stocks if sorted(stock["status"] for stock in stocks) == statuses else None
