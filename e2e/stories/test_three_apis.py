"""Clients use three replicas of the API like one."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from e2e.caller import Reply
from e2e.installation import Installation
from e2e.names import RUNTIME_APIS
from e2e.stories.orders import SMALL, order

ACCOUNT: Final = "gpuruntime-runtime-api"
FEWEST: Final = 6
# Other stories use the load balancer too, so the replica of a request is random: 40 requests reach all three.
MOST: Final = 40


def test_a_unit_that_one_replica_created_is_shown_and_not_created_again_by_the_others(
    exclusive: Installation, suffix: str
) -> None:
    replicas = {replica.credential for replica in exclusive.replicas.living(RUNTIME_APIS).values()}
    wrong: list[list[Reply]] = []

    for number in range(MOST):
        wrong += ordered_everywhere(exclusive, f"anywhere-{number}-{suffix}", len(replicas))
        if number >= FEWEST and (exclusive.trail is None or writers(exclusive, suffix) == replicas):
            break

    assert wrong == []
    assert exclusive.trail is None or writers(exclusive, suffix) == replicas


def ordered_everywhere(installation: Installation, name: str, turns: int) -> list[list[Reply]]:
    """Create a unit, then read it and create it again on every replica; returns the responses if one is wrong."""
    api, path, body = installation.api, f"/gpu-units/{name}", order(name, f"spec-{name[-6:]}", coldStart=True, **SMALL)
    made = api.post("/gpu-units", body)
    token = made.headers["X-Resource-Version"]
    with ThreadPoolExecutor(turns) as pool:
        asked = [
            *(pool.submit(api.get, path) for _ in range(turns)),
            *(pool.submit(api.get, path, X_Resource_Version=token) for _ in range(turns)),
            *(pool.submit(api.post, "/gpu-units", body) for _ in range(turns)),
        ]
        replies = [one.result() for one in asked]
    is_right = made.status == 201 and {reply.status for reply in replies} == {200}
    return [] if is_right and {reply.data["uid"] for reply in replies} == {made.data["uid"]} else [[made, *replies]]


def writers(installation: Installation, suffix: str) -> set[str]:
    """The replicas that created units of this story."""
    assert installation.trail is not None
    return {
        write.credential
        for write in installation.trail.writes()
        if (write.user, write.verb, write.resource) == (ACCOUNT, "create", "gpuunits") and write.name.endswith(suffix)
    }
