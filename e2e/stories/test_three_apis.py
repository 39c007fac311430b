"""Clients talk to three replicas of the API and need not know it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from e2e.caller import Reply
from e2e.installation import Installation
from e2e.names import RUNTIME_APIS
from e2e.stories.orders import SMALL, order

ACCOUNT: Final = "gpuruntime-runtime-api"
FEWEST: Final = 6
# Others use the front, too, so that it is chance which replica gets an order: with so many, none of three is left out.
MOST: Final = 40


def test_what_one_replica_has_made_every_other_shows_and_makes_no_second_time(
    disturbed: Installation, mark: str
) -> None:
    replicas = {replica.credential for replica in disturbed.replicas.living(RUNTIME_APIS).values()}
    wrong: list[list[Reply]] = []

    for number in range(MOST):
        wrong += ordered_everywhere(disturbed, f"anywhere-{number}-{mark}", len(replicas))
        if number >= FEWEST and (disturbed.trail is None or writers(disturbed, mark) == replicas):
            break

    assert wrong == []
    assert disturbed.trail is None or writers(disturbed, mark) == replicas


def ordered_everywhere(installation: Installation, name: str, turns: int) -> list[list[Reply]]:
    """Order a unit, then look for it and order it again through every replica; gives the answers if one is wrong."""
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


def writers(installation: Installation, mark: str) -> set[str]:
    """The replicas that made units of this story."""
    assert installation.trail is not None
    return {
        write.credential
        for write in installation.trail.writes()
        if (write.user, write.verb, write.resource) == (ACCOUNT, "create", "gpuunits") and write.name.endswith(mark)
    }
