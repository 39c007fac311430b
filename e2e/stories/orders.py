"""The requests of stories: small units with one GPU each, so that simulated nodes run them."""

from typing import Any, Final

from e2e.caller import Reply
from e2e.cluster_view import eventually
from e2e.installation import Installation

__all__ = ["SMALL", "claim", "order", "seed"]

SMALL: Final = {"cpu": "10m", "memory": "16Mi", "gpu": 1}


def seed(installation: Installation, spec_name: str, number: int, **fields: Any) -> list[Any]:
    """Seed `number` stock units and wait until they are ready."""
    body = {"operationID": f"seed-{spec_name}", "specName": spec_name, "replicas": number, **SMALL, **fields}
    reply = installation.api.post("/operator/stock-units", body)
    assert reply.status == 202, reply
    return installation.cluster.stock(spec_name, number)


def order(name: str, spec_name: str, **fields: Any) -> dict[str, Any]:
    """The body of a POST /gpu-units for a unit with a port."""
    template = {"args": ["serve"], "ports": [{"name": "http", "port": 8080}]}
    body = {"operationID": f"order-{name}", "name": name, "specName": spec_name, "image": "nginx:1.27"}
    return {**body, "template": template, **fields}


def claim(installation: Installation, body: dict[str, Any], query: str = "?wait=Ready&timeout=90") -> Reply:
    """Create a unit on stock that is ready. A replica refuses that until its own cache shows the stock."""

    def ask() -> Reply | None:
        reply = installation.api.post(f"/gpu-units{query}", body)
        return None if reply.status == 409 and reply.error["code"] == "insufficient_capacity" else reply

    return eventually(ask, "stock that can be claimed")
