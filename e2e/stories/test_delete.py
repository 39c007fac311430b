"""A user gives a unit back."""

from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.stories.orders import order, seed


def test_everything_of_a_deleted_unit_goes_and_its_capacity_is_stock_again(
    installation: Installation, mark: str
) -> None:
    spec, name = f"returned-{mark}", f"return-{mark}"
    eyes, path = installation.cluster, f"/gpu-units/{name}"
    (before,) = seed(installation, spec, 1)
    installation.api.post("/gpu-units?wait=Ready&timeout=90", order(name, spec))

    deleted = installation.api.delete(path, Idempotency_Key=f"delete-{name}")
    again = installation.api.delete(path, Idempotency_Key=f"delete-{name}")
    unknown = installation.api.delete(path)

    eventually(lambda: not (eyes.unit(name) or eyes.deployment(name) or eyes.service(name)), "the end of its children")
    (after,) = eyes.stock(spec, 1)
    assert (deleted.status, again.status, unknown.status) == (204, 204, 404)
    assert installation.api.get(path).status == 404
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert eyes.pods(name) == []
