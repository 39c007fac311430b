"""A user deletes a unit."""

from e2e.cluster_view import eventually
from e2e.installation import Installation
from e2e.stories.orders import claim, order, seed


def test_the_children_of_a_deleted_unit_are_deleted_and_its_capacity_is_stock_again(
    installation: Installation, suffix: str
) -> None:
    spec, name = f"returned-{suffix}", f"return-{suffix}"
    cluster, path = installation.cluster, f"/gpu-units/{name}"
    (before,) = seed(installation, spec, 1)
    claim(installation, order(name, spec))

    deleted = installation.api.delete(path, Idempotency_Key=f"delete-{name}")
    again = installation.api.delete(path, Idempotency_Key=f"delete-{name}")
    unknown = installation.api.delete(path)

    eventually(
        lambda: not (cluster.unit(name) or cluster.deployment(name) or cluster.service(name) or cluster.pods(name)),
        "the end of its children",
    )
    (after,) = cluster.stock(spec, 1)
    assert (deleted.status, again.status, unknown.status) == (204, 204, 404)
    assert installation.api.get(path, X_Resource_Version=deleted.headers["X-Resource-Version"]).status == 404
    assert after["metadata"]["name"] == before["metadata"]["name"]
